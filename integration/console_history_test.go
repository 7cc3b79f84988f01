package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store/storetest"
)

// historyCalls is the number of calls that TestConsole_of_many_calls makes.
const historyCalls = 10_000

// historyBound is the longest response time of a page on a slow machine. The test logs the times.
const historyBound = 20 * time.Second

// historyAgent returns the document of an agent. It refuses orders with the name "refused".
func historyAgent(name string) string {
	return fmt.Sprintf(`kind: openagentspec:v1/agent
name: %[1]s
description: Orders and looks.
intent: %[1]s
owner: tests
capabilities:
  order: {user_identity: false, input_restriction: {assertion: 'recent.order.inputs.name != "refused"'}}
  look: {user_identity: false}
`, name)
}

const historyDocument = ordersDocument + `  /orders/{id}:
    get:
      operationId: look
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: The order., content: {application/json: {schema: {type: object}}}}}
`

var (
	historyAgents = []string{"buyer", "clerk", "packer"}
	historyUsers  = []string{"ann", "bob", "eve"}
)

// historySite is the Caddyfile of a node: three agents guard the same API, each behind its own endpoint.
func historySite(address, redis, api string) string {
	var routes strings.Builder
	for _, agent := range historyAgents {
		fmt.Fprintf(&routes, `		handle /%[1]s/* {
			otc /%[1]s/otc shop
			oagent %[1]s.yaml {
				toolset shop
				engagement {http.request.header.X-Engagement}
			}
			reverse_proxy %[2]s
		}
`, agent, strings.TrimPrefix(api, "http://"))
	}
	return fmt.Sprintf(`{
	admin off
	agents {
		toolset shop shop.yaml
		store redis %s
	}
}
http://%s {
	bind 127.0.0.1
	route {
		respond /otc/health ok
		agent_auth {
			api_key {
				key ann 0123456789abcdef-ann
				key bob 0123456789abcdef-bob
				key eve 0123456789abcdef-eve
				key boss 0123456789abcdef-boss
			}
		}
		agents_console {
			auditors boss
		}
%s	}
}
`, redis, address, routes.String())
}

// historyCall is one of the calls.
type historyCall struct{ node, agent, user, tool, argument, outcome string }

// historyCallOf returns the call with a number: agents, users and nodes alternate in all combinations.
func historyCallOf(n int) historyCall {
	c := historyCall{agent: historyAgents[n%3], user: historyUsers[n/3%3], tool: "order", argument: "thing", outcome: "ok"}
	switch n % 10 {
	case 1:
		c.argument, c.outcome = "refused", "restricted"
	case 3, 6:
		c.tool, c.argument = "look", "missing"
		c.outcome = "refused"
	case 2, 5, 8:
		c.tool = "look"
	}
	return c
}

// makeHistory makes the calls on the nodes, 16 at a time.
func makeHistory(t *testing.T, nodes []*brittleNode) {
	t.Helper()
	const clients = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range clients {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < historyCalls && !t.Failed(); n = int(next.Add(1)) - 1 {
				c := historyCallOf(n)
				input := fmt.Sprintf(`{"name":%q}`, c.argument)
				if c.tool == "look" {
					input = fmt.Sprintf(`{"id":%q}`, c.argument)
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, nodes[n/9%len(nodes)].url+"/"+c.agent+"/otc/call",
					strings.NewReader(fmt.Sprintf(`{"request":{"tool_id":"Orders.%s","input":%s}}`, c.tool, input)))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Api-Key", "0123456789abcdef-"+c.user)
				r.Header.Set("X-Engagement", fmt.Sprint("e", worker, "-", n/500))
				response, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if isOK := strings.Contains(string(body), `"success":true`); response.StatusCode != http.StatusOK || isOK != (c.outcome == "ok") {
					t.Errorf("call %d, %+v: %d %s", n, c, response.StatusCode, body)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// historyTimes are the response times of the pages, by the name of the page.
type historyTimes map[string][]time.Duration

// get gets a page as a user, and measures the time.
func (h historyTimes) get(t *testing.T, n *brittleNode, user, kind, path string, header ...string) string {
	t.Helper()
	began := time.Now()
	response, body := n.as(t, user, "GET", "/console"+path, "", header...)
	took := time.Since(began)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, response.StatusCode, body)
	}
	if h[kind] = append(h[kind], took); took > historyBound {
		t.Errorf("%s took %s: %s", kind, took, path)
	}
	return body
}

// historyPage is a page of the list of calls.
type historyPage struct {
	Calls []struct {
		ID, Node, Tool, Agent, User, Outcome string
		Ended                                time.Time
	}
	Next string
}

// all follows the cursors of a list to its end, and returns the number of calls by their id.
func (h historyTimes) all(t *testing.T, n *brittleNode, user, kind string, query url.Values) (pages int, counts map[string]historyCall) {
	t.Helper()
	counts = make(map[string]historyCall)
	last := time.Now().Add(time.Hour)
	for query.Set("limit", "500"); ; pages++ {
		var p historyPage
		if err := json.Unmarshal([]byte(h.get(t, n, user, kind, "/api/calls?"+query.Encode())), &p); err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Calls {
			if _, isKnown := counts[c.ID]; isKnown || c.Ended.After(last) {
				t.Fatalf("%s: the call %s comes twice, or not by its time", kind, c.ID)
			}
			counts[c.ID], last = historyCall{node: c.Node, agent: c.Agent, user: c.User, tool: c.Tool, outcome: c.Outcome}, c.Ended
		}
		if p.Next == "" {
			return pages + 1, counts
		}
		query.Set("cursor", p.Next)
	}
}

// TestConsole_of_many_calls makes 10,000 calls under three agents on two nodes that share a Redis, and looks at them: the overview,
// each filter, all pages by their cursors, and the page of a call on the node that has not made it.
func TestConsole_of_many_calls(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 calls: not with -short")
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/missing") {
			http.Error(w, `{"error":"there is no such order"}`, http.StatusNotFound)
			return
		}
		writeJSON(w, `{"name":"thing"}`)
	}))
	t.Cleanup(api.Close)
	redis, _ := storetest.Redis(t)
	nodes := make([]*brittleNode, 2)
	for i := range nodes {
		address, dir := freeAddress(t), t.TempDir()
		writeFile(t, dir+"/shop.yaml", historyDocument)
		for _, agent := range historyAgents {
			writeFile(t, dir+"/"+agent+".yaml", historyAgent(agent))
		}
		nodes[i] = startBrittle(t, dir, address, historySite(address, redis, api.URL))
	}
	began := time.Now()
	makeHistory(t, nodes)
	t.Logf("%d calls in %s", historyCalls, time.Since(began).Round(time.Millisecond))

	want := func(fits func(c historyCall) bool) (count int) {
		for n := range historyCalls {
			if fits(historyCallOf(n)) {
				count++
			}
		}
		return count
	}
	times := make(historyTimes)
	for i, n := range nodes {
		waitFor(t, waitTimeout, "all calls in the overview", func() bool {
			var m struct {
				Calls struct {
					Total  struct{ Calls, Failures int }
					Agents []struct {
						Name  string
						Calls int
					}
				}
			}
			if err := json.Unmarshal([]byte(times.get(t, n, "boss", "overview", "/api/overview?range=1h")), &m); err != nil {
				t.Fatal(err)
			}
			for _, a := range m.Calls.Agents {
				if a.Calls != want(func(c historyCall) bool { return c.agent == a.Name }) {
					return false
				}
			}
			return len(m.Calls.Agents) == len(historyAgents) && m.Calls.Total.Calls == historyCalls
		})
		if pages, all := times.all(t, n, "boss", "pages by cursor", url.Values{}); len(all) != historyCalls || pages < historyCalls/500 {
			t.Errorf("node %d: %d pages have %d calls", i, pages, len(all))
		}
		for filter, fits := range map[string]func(historyCall) bool{
			"tool=look":                           func(c historyCall) bool { return c.tool == "look" },
			"user=bob":                            func(c historyCall) bool { return c.user == "bob" },
			"agent=packer":                        func(c historyCall) bool { return c.agent == "packer" },
			"outcome=restricted":                  func(c historyCall) bool { return c.outcome == "restricted" },
			"outcome=refused":                     func(c historyCall) bool { return c.outcome == "refused" },
			"tool=order&user=ann&agent=clerk":     func(c historyCall) bool { return c.tool == "order" && c.user == "ann" && c.agent == "clerk" },
			"agent=buyer&outcome=ok&tool=unknown": func(historyCall) bool { return false },
		} {
			query, _ := url.ParseQuery(filter)
			_, found := times.all(t, n, "boss", "filters", query)
			if expected := want(fits); len(found) != expected {
				t.Errorf("node %d, %s: %d calls, want %d", i, filter, len(found), expected)
			}
			for id, c := range found {
				if !fits(c) {
					t.Fatalf("node %d, %s: finds %s, %+v", i, filter, id, c)
				}
			}
		}
		if _, own := times.all(t, n, "eve", "own calls", url.Values{}); len(own) != want(func(c historyCall) bool { return c.user == "eve" }) {
			t.Errorf("node %d: eve sees %d calls", i, len(own))
		}
		for _, path := range []string{"", "/calls"} {
			times.get(t, n, "boss", "HTML", path, "Accept", "text/html")
		}
	}

	_, all := times.all(t, nodes[0], "boss", "pages by cursor", url.Values{})
	made := make(map[string]bool) // nodes whose calls were opened on both
	for id, c := range all {
		if made[c.node] || c.outcome != "restricted" {
			continue
		}
		made[c.node] = true
		for _, n := range nodes {
			page := times.get(t, n, "boss", "page of a call", "/calls/"+url.PathEscape(id), "Accept", "text/html")
			if !strings.Contains(page, c.agent) || !strings.Contains(page, c.user) || !strings.Contains(page, "restricted") {
				t.Errorf("the page of %s, %+v: %s", id, c, page)
			}
		}
	}
	if len(made) != len(nodes) {
		t.Errorf("calls of %d nodes were found", len(made))
	}
	for kind, all := range times {
		slices.Sort(all)
		t.Logf("%-16s %3d requests, median %s, longest %s", kind, len(all), all[len(all)/2].Round(100*time.Microsecond), all[len(all)-1].Round(100*time.Microsecond))
	}
}
