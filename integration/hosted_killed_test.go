package integration

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	agentrun "github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/store/storetest"
)

// step is a step of the loop at which an Engagement stands still, so that a node can be killed there.
type step struct {
	name, agent string
	input       string // the name, and what tells Engagements at the same step apart
	talks       bool   // the Engagement has an answer to an earlier input
	// held reports whether the Engagement waits there.
	held func(*hostedRun) bool
}

// steps are all steps of the loop. The mark tells their Engagements apart from others.
func (s *killSite) steps(mark string) []*step {
	gate := func(r *hostedRun) bool { return s.gates.count(r.step.input) > 0 }
	review := func(r *hostedRun) bool { return len(r.view.Reviews) == 1 }
	child := func(r *hostedRun) bool {
		return len(r.view.WaitingFor) == 1 && r.view.WaitingFor[0].Status == "awaiting-verification"
	}
	all := []*step{
		{name: "before-model", agent: "buyer", held: gate},
		{name: "before-call", agent: "buyer", held: gate},
		{name: "during-call", agent: "buyer", held: gate},
		{name: "after-call", agent: "buyer", held: gate},
		{name: "during-model", agent: "buyer", held: gate},
		{name: "review-before", agent: "clerk", held: review},
		{name: "review-after", agent: "careful", held: review},
		{name: "child-model", agent: "buyer", held: gate},
		{name: "child-review", agent: "buyer", held: child},
		{name: "talk-model", agent: "buyer", talks: true, held: gate},
		{name: "talk-call", agent: "buyer", talks: true, held: gate},
		{name: "ended", agent: "buyer", held: func(r *hostedRun) bool { return r.view.Status == "complete" }},
	}
	for _, at := range all {
		at.input = at.name + mark
	}
	return all
}

// approve decides the review of a run, or of the agent that it called, if there is one.
func (n *brittleNode) approve(t *testing.T, v *hostedView) {
	t.Helper()
	reviews := v.Reviews
	for _, called := range v.WaitingFor {
		if called.Status == "awaiting-verification" {
			reviews = append(reviews, n.state(t, called.Location).Reviews...)
		}
	}
	for _, review := range reviews {
		response, body := n.as(t, "boss", "POST", review.Location+"/approve", "")
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict {
			t.Errorf("decision: %d %s", response.StatusCode, body)
		}
	}
}

// TestHosted_killed kills a node while an Engagement stands at each step of the loop. It, or another
// node, finishes them all, and no order is made twice.
func TestHosted_killed(t *testing.T) {
	t.Parallel() // it mostly waits until the leases of the dead node end
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		s, dir, address := newKillSite(t), t.TempDir(), freeAddress(t)
		first := s.start(dir, address, "bolt")
		runs := s.begin(first, "")
		first.decide(t, runs[5])
		first.kill()
		s.gates.releaseAll()
		again := s.start(dir, address, "bolt")
		began := time.Now()
		s.finish(again, runs[:1])
		// No other process can work on the run, so the node does not wait for the end of the lease.
		if took := time.Since(began); took > agentrun.DefaultLease/2 {
			t.Errorf("the restarted node took a run up after %s", took)
		}
		s.finish(again, runs)
	})
	for name, start := range storetest.Shared() {
		t.Run("two nodes on "+name, func(t *testing.T) {
			t.Parallel()
			s, store := newKillSite(t), start(t).Option
			first := s.start(t.TempDir(), freeAddress(t), store)
			runs := s.begin(first, "")
			first.decide(t, runs[5])
			first.kill()
			s.gates.releaseAll()
			s.finish(s.start(t.TempDir(), freeAddress(t), store), runs)
		})
		// The other node lives all the time, and works on Engagements of its own.
		t.Run("two live nodes on "+name, func(t *testing.T) {
			t.Parallel()
			s, store := newKillSite(t), start(t).Option
			first := s.start(t.TempDir(), freeAddress(t), store)
			runs := s.begin(first, "/1") // while there is no other, so that the first works on them all
			second := s.start(t.TempDir(), freeAddress(t), store)
			runs = append(runs, s.begin(second, "/2")...)
			first.decide(t, runs[5])
			first.kill()
			s.gates.releaseAll()
			s.finish(second, runs)
		})
	}
}

// TestHosted_killed_behind_otc kills a node during an OTC call of an agent. The repetition of the call, at once and on any node, gets the
// answer of the same run.
func TestHosted_killed_behind_otc(t *testing.T) {
	t.Parallel()
	stores := map[string]func(testing.TB) *storetest.SharedServer{"bolt": nil}
	maps.Copy(stores, storetest.Shared())
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, address, store := newKillSite(t), t.TempDir(), freeAddress(t), "bolt"
			if start != nil {
				store = start(t).Option
			}
			s.before = "otc /desk orders {\nexpose_agents\n}"
			first := s.start(dir, address, store)
			const body = `{"request":{"call_id":"6a2f41a3-c54c-4b7a-9a3f-2f7c1f0d5e11","tool_id":"Agents.buyer","input":{"input":"after-call"}}}`
			lost := make(chan struct{})
			go func() {
				defer close(lost)
				r, err := http.NewRequest(http.MethodPost, first.url+"/desk/call", strings.NewReader(body))
				if err != nil {
					return
				}
				r.Header.Set("X-Api-Key", "0123456789abcdef-ann")
				r.Header.Set("Content-Type", "application/json")
				if response, err := freshTransport.RoundTrip(r); err == nil {
					response.Body.Close()
				}
			}()
			waitFor(t, waitTimeout, "the order", func() bool { return s.gates.count("after-call") > 0 })
			first.kill()
			<-lost
			s.gates.releaseAll()
			if start != nil {
				dir, address = t.TempDir(), freeAddress(t)
			}
			again := s.start(dir, address, store)
			var answer string
			waitFor(t, 3*waitTimeout, "the answer", func() bool {
				var response *http.Response
				response, answer = again.as(t, "ann", http.MethodPost, "/desk/call", body, "Content-Type", "application/json")
				return response.StatusCode == http.StatusOK && !strings.Contains(answer, "repeat the call with the same call_id")
			})
			if !strings.Contains(answer, "Ordered.") || !strings.Contains(answer, `"success":true`) {
				t.Errorf("the repetition gets %s", answer)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if made := s.orders["after-call"]; made != 1 {
				t.Errorf("ordered %d times", made)
			}
		})
	}
}

// begin begins an Engagement for each step on a node, and waits until it stands there.
func (s *killSite) begin(node *brittleNode, mark string) []*hostedRun {
	t := s.t
	t.Helper()
	var runs []*hostedRun
	for _, at := range s.steps(mark) {
		input := at.input
		if at.talks {
			input = greeting
		}
		runs = append(runs, &hostedRun{step: at, location: node.begin(t, at.agent, input)})
	}
	for _, r := range runs {
		if r.step.talks {
			waitFor(t, waitTimeout, "the answer before "+r.step.input, func() bool { return node.state(t, r.location).Status == "complete" })
			if response, body := node.as(t, "ann", "POST", r.location, fmt.Sprintf(`{"input":%q}`, r.step.input)); response.StatusCode != http.StatusOK {
				t.Fatalf("going on: %d %s", response.StatusCode, body)
			}
		}
	}
	for _, r := range runs {
		waitFor(t, waitTimeout, "the step "+r.step.input, func() bool {
			r.view = node.state(t, r.location)
			return r.step.held(r)
		})
	}
	return runs
}

// finish lets a node finish the runs, and checks what became of them.
func (s *killSite) finish(node *brittleNode, runs []*hostedRun) {
	t := s.t
	t.Helper()
	for _, r := range runs {
		waitFor(t, 3*waitTimeout, "the end of "+r.step.input, func() bool {
			r.view = node.state(t, r.location)
			node.approve(t, &r.view)
			return r.view.Status == "complete" || r.view.Status == "error"
		})
		if r.view.Status != "complete" || r.view.Text != "Ordered." {
			t.Errorf("%s: %+v", r.step.input, r.view)
		}
		s.mu.Lock()
		made := s.orders[r.step.input]
		s.mu.Unlock()
		// Of a call that was begun when the node died, it is unknown whether it was made.
		uncertain := r.decided || r.step.name == "before-call" || r.step.name == "during-call" || r.step.name == "talk-call"
		if made > 1 || made == 0 && !uncertain {
			t.Errorf("%s: ordered %d times", r.step.input, made)
		}
		response, record := node.as(t, "ann", "GET", r.location+"/audit?limit=1000", "")
		name := "order"
		if strings.HasPrefix(r.step.name, "child-") {
			name = "clerk"
		}
		if response.StatusCode != http.StatusOK || strings.Count(record, `"what":"begun"`) != 1 && !r.decided || !strings.Contains(record, `"name":"`+name+`"`) {
			t.Errorf("%s: the record is %d %s", r.step.input, response.StatusCode, record)
		}
	}
}

// decide approves the reviews of a run right before its node dies, so that it dies before or while it goes
// on with the run.
func (n *brittleNode) decide(t *testing.T, r *hostedRun) {
	t.Helper()
	n.approve(t, &r.view)
	r.decided = true
}
