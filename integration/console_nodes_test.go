package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store/storetest"
)

// consoleCall is a call as the console lists it.
type consoleCall struct{ Node, Tool, Agent, User, Protocol, Outcome string }

// consoleView gets JSON of the console of a node as a user.
func consoleView[T any](t *testing.T, n *brittleNode, user, path string) (value T) {
	t.Helper()
	response, body := n.as(t, user, "GET", "/console/api/"+path, "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, response.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return value
}

type consoleCalls struct{ Running, Calls []consoleCall }

// nodesOf returns the nodes of calls of the tool that an agent governs or makes.
func nodesOf(calls []consoleCall, tool, agent string) []string {
	var nodes []string
	for _, c := range calls {
		if c.Tool == tool && c.Agent == agent && !slices.Contains(nodes, c.Node) {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// TestConsole_of_two_nodes looks at the consoles of two nodes that share a store: each shows the calls in
// progress, the ended calls, the Engagements and the reviews of both. A review of an Engagement that
// began on one node is approved on the other.
func TestConsole_of_two_nodes(t *testing.T) {
	t.Parallel() // it mostly waits until the nodes exchange their calls
	storetest.OnShared(t, checkConsoles)
}

func checkConsoles(t *testing.T, server *storetest.SharedServer) {
	t.Parallel()
	s := newKillSite(t)
	var nodes [2]*brittleNode
	for i := range nodes {
		address, dir := freeAddress(t), t.TempDir()
		site := strings.NewReplacer(
			"key ann", "key eve 0123456789abcdef-eve\n\t\t\t\tkey ann",
			"\t\toagent agents.yaml {", "\t\tagents_console {\n\t\t\tauditors boss\n\t\t}\n\t\totc /calls orders\n\t\toagent agents.yaml {\n\t\t\tguard buyer",
		).Replace(s.site(address, server.Option))
		writeFile(t, dir+"/agents.yaml", hostedAgents)
		nodes[i] = startBrittle(t, dir, address, site)
	}
	order := func(n *brittleNode, name string) {
		response, body := n.as(t, "ann", "POST", "/calls/call", fmt.Sprintf(`{"request":{"tool_id":"Orders.order","input":{"name":%q}}}`, name))
		if response.StatusCode != http.StatusOK {
			t.Errorf("the call of %s: %d %s", name, response.StatusCode, body)
		}
	}

	// Looking at the first node starts the recording at the second one.
	waitFor(t, waitTimeout, "calls of both nodes on the first one", func() bool {
		order(nodes[0], "first")
		order(nodes[1], "second")
		return len(nodesOf(consoleView[consoleCalls](t, nodes[0], "ann", "calls").Calls, "order", "buyer")) == 2
	})
	for _, n := range nodes {
		waitFor(t, waitTimeout, "calls of both nodes", func() bool {
			return len(nodesOf(consoleView[consoleCalls](t, n, "ann", "calls").Calls, "order", "buyer")) == 2
		})
	}
	if calls := consoleView[consoleCalls](t, nodes[0], "eve", "calls").Calls; len(calls) != 0 {
		t.Errorf("eve sees calls of ann: %+v", calls)
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		order(nodes[1], "during-call/live")
	}()
	for _, n := range nodes {
		waitFor(t, waitTimeout, "the call in progress", func() bool {
			running := consoleView[consoleCalls](t, n, "ann", "calls?tool=order").Running
			return len(running) == 1 && running[0].User == "ann" && running[0].Protocol == "otc" && running[0].Outcome == ""
		})
	}
	s.gates.releaseAll()
	<-ended
	for _, n := range nodes {
		waitFor(t, waitTimeout, "the end of the call", func() bool { return len(consoleView[consoleCalls](t, n, "ann", "calls").Running) == 0 })
	}

	for i, name := range []string{"first", "second"} {
		begun, other := nodes[i], nodes[1-i]
		location := begun.begin(t, "clerk", name)
		approveAtConsole(t, other, name)
		waitFor(t, waitTimeout, "the end of the Engagement", func() bool { return other.state(t, location).Status == "complete" })
		id := strings.TrimPrefix(location, "/engagements/")
		for _, n := range nodes {
			waitFor(t, waitTimeout, "the call of the agent", func() bool {
				return len(nodesOf(consoleView[consoleCalls](t, n, "ann", "calls?protocol=oagent").Calls, "order", "clerk")) > 0
			})
			response, page := n.as(t, "ann", "GET", "/console/engagements/"+id, "", "Accept", "text/html")
			if response.StatusCode != http.StatusOK || !strings.Contains(page, "complete") {
				t.Errorf("the Engagement: %d %s", response.StatusCode, page)
			}
			list := consoleView[struct{ Engagements []engagement.Summary }](t, n, "ann", "agents")
			if !slices.ContainsFunc(list.Engagements, func(e engagement.Summary) bool { return e.ID == id }) {
				t.Errorf("node %s lists %+v, want the Engagement %s", n.url, list.Engagements, id)
			}
		}
	}
}

// approveAtConsole approves the only review that waits, by the form of the console.
func approveAtConsole(t *testing.T, n *brittleNode, input string) {
	t.Helper()
	type reviews struct {
		Reviews []struct {
			ID, Agent string
			Inputs    struct{ Name string }
		}
	}
	var list reviews
	waitFor(t, waitTimeout, "the review", func() bool {
		list = consoleView[reviews](t, n, "boss", "reviews")
		return len(list.Reviews) == 1
	})
	if r := list.Reviews[0]; r.Agent != "clerk" || r.Inputs.Name != input {
		t.Errorf("got the review %+v", r)
	}
	response, body := n.as(t, "boss", "POST", "/console/reviews/"+list.Reviews[0].ID, "decision=approve&comment=fine", "Content-Type", "application/x-www-form-urlencoded")
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/console/reviews?decided="+list.Reviews[0].ID {
		t.Errorf("the decision: %d %s", response.StatusCode, body)
	}
}
