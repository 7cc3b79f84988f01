package integration

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/fairwayhq/fairway/store/storetest"
)

// userToken is a credential of the user that the API gets.
const userToken = "X-User-Token"

// hostedPair are two nodes that share a store.
type hostedPair struct {
	*killSite
	a, b  *brittleNode
	store string
}

func startHostedPair(t *testing.T, store string) *hostedPair {
	t.Helper()
	p := &hostedPair{killSite: newKillSite(t), store: store}
	p.a, p.b = p.start(t.TempDir(), freeAddress(t), p.store), p.start(t.TempDir(), freeAddress(t), p.store)
	return p
}

// made returns how often an order was made, and with which credential of the user.
func (s *killSite) made(name string) (times int, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[name], s.tokens[name]
}

// reaches waits until a node shows that status of a run.
func (n *brittleNode) reaches(t *testing.T, location, status string) hostedView {
	t.Helper()
	var v hostedView
	waitFor(t, 3*waitTimeout, location+" is "+status, func() bool {
		v = n.state(t, location)
		return v.Status == status
	})
	return v
}

// stop ends the process as an operator does.
func (n *brittleNode) stop(t *testing.T) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-n.ended
}

// TestHosted_nodes uses the runs of a node through another one. All of them have credentials of the user,
// so that they stay on the first node.
func TestHosted_nodes(t *testing.T) {
	t.Parallel()
	storetest.OnShared(t, useElsewhere)
}

func useElsewhere(t *testing.T, server *storetest.SharedServer) {
	t.Parallel()
	p := startHostedPair(t, server.Option)

	t.Run("review", func(t *testing.T) {
		t.Parallel()
		location := p.a.begin(t, "personal", "review/b", userToken, "ann-1")
		v := p.b.reaches(t, location, "awaiting-verification")
		p.b.approve(t, &v)
		if v = p.b.reaches(t, location, "complete"); v.Text != "Ordered." {
			t.Errorf("state %+v", v)
		}
		if times, token := p.made("review/b"); times != 1 || token != "ann-1" {
			t.Errorf("%d orders, the last with the token %q", times, token)
		}
	})

	t.Run("follow", func(t *testing.T) {
		t.Parallel()
		const input = "before-model/follow"
		location := p.a.begin(t, "buyer", input, userToken, "ann-1")
		waitFor(t, waitTimeout, "the request to the model", func() bool { return p.gates.count(input) > 0 })
		if v := p.b.state(t, location); v.Status != "awaiting-llm" {
			t.Errorf("state %+v", v)
		}
		states := p.b.follow(t, location)
		if v := <-states; v.Status != "awaiting-llm" {
			t.Errorf("the first event has the state %+v", v)
		}
		waited := make(chan hostedView, 1)
		go func() { waited <- p.b.state(t, location, "Prefer", "wait=60") }()
		p.gates.release(input)
		if v := <-waited; v.Status != "complete" || v.Text != "Ordered." {
			t.Errorf("the request that waited got %+v", v)
		}
		var last hostedView
		for v := range states {
			last = v
		}
		if last.Status != "complete" || last.Text != "Ordered." {
			t.Errorf("the last event has the state %+v", last)
		}
	})

	for _, input := range []string{"before-model/cancel", "during-call/cancel"} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			location := p.a.begin(t, "buyer", input, userToken, "ann-1")
			waitFor(t, waitTimeout, "the step", func() bool { return p.gates.inside(input) == 1 && p.gates.count(input) == 1 })
			before, _ := p.made(input)
			response, body := p.b.as(t, "ann", "DELETE", location, "")
			if response.StatusCode != http.StatusOK || !strings.Contains(body, `"kind":"canceled"`) {
				t.Errorf("DELETE: %d %s", response.StatusCode, body)
			}
			waitFor(t, waitTimeout, "the end of the request", func() bool { return p.gates.inside(input) == 0 })
			if v := p.a.state(t, location); v.Error == nil || v.Error.Kind != "canceled" {
				t.Errorf("state %+v", v)
			}
			if response, body := p.a.as(t, "ann", "DELETE", location, ""); response.StatusCode != http.StatusConflict {
				t.Errorf("second DELETE: %d %s", response.StatusCode, body)
			}
			if after, _ := p.made(input); after != before {
				t.Errorf("%d orders after the end, %d before", after, before)
			}
		})
	}

	t.Run("accept", func(t *testing.T) {
		t.Parallel()
		document := func(intent string) string {
			return "kind: openagentspec:v1/agent\nname: mine\ndescription: Orders.\nintent: " + intent + "\nowner: ann\ncapabilities: {order: {user_identity: false}}\n"
		}
		put := func(n *brittleNode, text string, header ...string) *http.Response {
			t.Helper()
			response, body := n.as(t, "ann", "PUT", "/agents/mine", text, append([]string{"Content-Type", "application/yaml"}, header...)...)
			if response.StatusCode >= 300 {
				t.Fatalf("PUT: %d %s", response.StatusCode, body)
			}
			return response
		}
		served := func(n *brittleNode, want string) {
			t.Helper()
			waitFor(t, waitTimeout, "the document "+want, func() bool {
				response, body := n.as(t, "ann", "GET", "/agents/mine", "")
				if want == "" {
					return response.StatusCode == http.StatusNotFound
				}
				return response.StatusCode == http.StatusOK && body == want
			})
		}
		tag := put(p.a, document("one")).Header.Get("Etag")
		served(p.b, document("one"))
		if v := p.b.reaches(t, p.b.begin(t, "mine", "accept/b"), "complete"); v.Text != "Ordered." {
			t.Errorf("state %+v", v)
		}
		put(p.b, document("two"), "If-Match", tag)
		served(p.a, document("two"))
		if response, body := p.a.as(t, "ann", "DELETE", "/agents/mine", ""); response.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", response.StatusCode, body)
		}
		served(p.b, "")
		if response, body := p.b.as(t, "ann", "POST", "/agents/mine", `{"input":"accept/late"}`); response.StatusCode != http.StatusNotFound {
			t.Errorf("POST of a deleted agent: %d %s", response.StatusCode, body)
		}
	})
}

// follow returns the states in the event stream of a run.
func (n *brittleNode) follow(t *testing.T, location string) <-chan hostedView {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+location, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "0123456789abcdef-ann")
	r.Header.Set("Accept", "text/event-stream")
	response, err := freshTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan hostedView, 100)
	go func() {
		defer close(states)
		defer response.Body.Close()
		event := ""
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			}
			var v hostedView
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == "state" && json.Unmarshal([]byte(data), &v) == nil {
				states <- v
			}
		}
	}()
	return states
}

// leftRun is a run whose node has ended with the credentials of the user.
type leftRun struct {
	*hostedPair
	location string
	review   hostedView
}

func leaveRun(t *testing.T, store string, end func(*brittleNode, *testing.T)) *leftRun {
	t.Helper()
	r := &leftRun{hostedPair: startHostedPair(t, store)}
	r.location = r.a.begin(t, "personal", "order", userToken, "ann-1")
	r.review = r.a.reaches(t, r.location, "awaiting-verification")
	end(r.a, t)
	return r
}

// TestHosted_credentials_on_another_node ends the node that has the credentials of the user. The run waits
// until they arrive at another node, and goes on there.
func TestHosted_credentials_on_another_node(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*brittleNode, *testing.T){
		"stopped": (*brittleNode).stop,
		"killed":  func(n *brittleNode, _ *testing.T) { n.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(map[string]*leftRun)
			for store, start := range storetest.Shared() { // the leases of all nodes that were killed end at the same time
				left[store] = leaveRun(t, start(t).Option, end)
			}
			for store, r := range left {
				t.Run(store, r.goesOn)
			}
		})
	}
}

func (r *leftRun) goesOn(t *testing.T) {
	r.a = r.start(t.TempDir(), freeAddress(t), r.store)
	r.a.approve(t, &r.review)
	for _, n := range []*brittleNode{r.a, r.b} {
		n.reaches(t, r.location, "awaiting-additional-input")
	}
	if times, _ := r.made("order"); times != 0 {
		t.Errorf("%d orders without the credentials", times)
	}
	r.b.state(t, r.location, userToken, "ann-2")
	if v := r.a.reaches(t, r.location, "complete"); v.Text != "Ordered." {
		t.Errorf("state %+v", v)
	}
	if times, token := r.made("order"); times != 1 || token != "ann-2" {
		t.Errorf("%d orders, the last with the token %q", times, token)
	}
}
