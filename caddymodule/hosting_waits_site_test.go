package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/modelserver"
)

const storeInDir = "agents {\n\tstore bolt DIR/store.db\n}"

const reviewedAgent = `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  get-trip: {user_identity: false, output_restriction: {require_review: boss}}
`

// reviewedTrip plays a call that needs a review, and then says the result.
var reviewedTrip = play(calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."})

func (s *hostedSite) decide(location, decision string) {
	s.t.Helper()
	if a := s.as("boss", "POST", location+"/"+decision, ""); a.status != http.StatusOK {
		s.t.Fatalf("decision: status %d, %s", a.status, a.body)
	}
}

// pending returns the location of the only review that a run waits for.
func (s *hostedSite) pending(user, location string) string {
	s.t.Helper()
	var v runView
	eventually(s.t, "the review", func() bool {
		v = s.view(s.as(user, "GET", location, ""))
		return v.Status == "awaiting-verification"
	})
	if len(v.Reviews) != 1 || !strings.HasPrefix(v.Reviews[0].Location, "/reviews/") {
		s.t.Fatalf("want one review, got %+v", v)
	}
	return v.Reviews[0].Location
}

func TestHosting_waits_for_reviews(t *testing.T) {
	for name, c := range map[string]struct {
		step           modelserver.Step
		decision, want string
		before, after  int // requests that the API has received
	}{
		"input approved":  {calls("create-trip", `{"to":"Bern"}`), "approve", `"path":"/trips"`, 0, 1},
		"input denied":    {calls("create-trip", `{"to":"Bern"}`), "deny", "denied", 0, 0},
		"output approved": {calls("get-trip", `{"id":"7"}`), "approve", `"path":"/trips/7"`, 1, 1},
		"output denied":   {calls("get-trip", `{"id":"7"}`), "deny", "denied", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosted(t, agentDocument("desk", reviewedAgent), "reviews /reviews", play(c.step, modelserver.Step{Text: "Done."}))
			location := s.begin("ann", "desk", "Go")
			review := s.pending("ann", location)
			if n := len(s.api.received()); n != c.before {
				t.Errorf("before the decision the API has received %d requests, want %d", n, c.before)
			}
			s.decide(review, c.decision)
			if v := s.state("ann", location); v.Status != "complete" || v.Text != "Done." {
				t.Errorf("state %+v", v)
			}
			if n := len(s.api.received()); n != c.after {
				t.Errorf("the API has received %d requests, want %d", n, c.after)
			}
			messages := s.models.Requests()[1].Messages
			if result := messages[len(messages)-1].Text; !strings.Contains(result, c.want) {
				t.Errorf("the model got the result %s, want %q in it", result, c.want)
			}
		})
	}
}

func TestHosting_goes_on_after_a_reload(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := newHostedSite(t, agentDocument("desk", reviewedAgent), func(r *modelserver.Request) modelserver.Step {
		step := reviewedTrip(r)
		if r.Messages[0].Text == "slow" && len(r.Messages) == 1 {
			close(entered)
			step.Wait = release
		}
		return step
	})
	block := s.block("reviews /reviews")
	s.start(storeInDir, block)
	waiting, slow := s.begin("ann", "desk", "Go"), s.begin("ann", "desk", "slow")
	review := s.pending("ann", waiting)
	await(t, "the request to the model", entered)
	loaded := make(chan error)
	go func() { loaded <- caddy.Load(s.config(storeInDir, block), true) }()
	close(release)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	s.decide(review, "approve")
	if v := s.state("ann", waiting); v.Text != "Created." {
		t.Errorf("the run that waited for a review: %+v", v)
	}
	s.decide(s.pending("ann", slow), "approve")
	if v := s.state("ann", slow); v.Text != "Created." {
		t.Errorf("the run that waited for the model: %+v", v)
	}
	if n := len(s.api.received()); n != 2 {
		t.Errorf("the API has received %d requests, want 2", n)
	}
}

// TestHosting_goes_on_after_a_restart also loses the credentials of the user, which are only in
// memory.
func TestHosting_goes_on_after_a_restart(t *testing.T) {
	for name, c := range map[string]struct {
		capability string
		header     []string
		waits      bool
		want       string // Authorization that the API gets
	}{
		"identity of the user": {"user_identity: true, ", []string{"Authorization", "Bearer ann-0123456789"}, true, "Bearer ann-0123456789"},
		"user without one":     {"user_identity: true, ", nil, false, ""},
		"no identity":          {"user_identity: false, ", []string{"Authorization", "Bearer ann-0123456789"}, false, ""},
		"static identity": {
			"user_identity: false, static_identity: robot, ", []string{"Authorization", "Bearer ann-0123456789"}, false, "Bearer robot-0123456789",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostedSite(t, agentDocument("desk", "  create-trip: {"+c.capability+"input_restriction: {require_review: boss}}\n"), reviewedTrip)
			block := s.block(`reviews /reviews
	identity robot header_up Authorization "Bearer robot-0123456789"`)
			s.start(storeInDir, block)
			location := s.begin("ann", "desk", "Go", c.header...)
			review := s.pending("ann", location)
			if err := caddy.Stop(); err != nil {
				t.Fatal(err)
			}
			s.start(storeInDir, block)
			s.decide(review, "approve")
			v := s.state("ann", location)
			if c.waits {
				if v.Status == "awaiting-verification" {
					v = s.state("ann", location)
				}
				if v.Status != "awaiting-additional-input" || !strings.Contains(v.Reason, "credentials") {
					t.Fatalf("without the credentials: %+v", v)
				}
				if n := len(s.api.received()); n != 0 {
					t.Fatalf("the API has received %d requests", n)
				}
				if a := s.as("bob", "GET", location, "", "Authorization", "Bearer bob-0123456789"); a.status != http.StatusNotFound {
					t.Errorf("another user: status %d", a.status)
				}
				if v := s.state("ann", location); v.Status != "awaiting-additional-input" {
					t.Errorf("after the request of another user: %+v", v)
				}
				s.as("ann", "GET", location, "", c.header...)
				eventually(t, "the end of the run", func() bool { return s.view(s.as("ann", "GET", location, "")).Status == "complete" })
				v = s.state("ann", location)
			}
			if v.Status != "complete" || v.Text != "Created." {
				t.Errorf("state %+v", v)
			}
			received := s.api.received()
			if len(received) != 1 || received[0].Header.Get("Authorization") != c.want || received[0].Host == "" {
				t.Errorf("the API has received %v, want one request with %q", received, c.want)
			}
		})
	}
}

// TestHosting_uses_the_identity_of_the_user makes a call with the headers of the request that
// started the run.
func TestHosting_uses_the_identity_of_the_user(t *testing.T) {
	s := hosted(t, agentDocument("desk", "  get-trip: {}\n"), "", play(calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Done."}))
	v := s.state("ann", s.begin("ann", "desk", "Go", "Authorization", "Bearer ann-0123456789", "Accept", "text/plain", "Range", "bytes=0-1", "Cookie", "a=1"))
	received := s.api.received()
	if v.Text != "Done." || len(received) != 1 {
		t.Fatalf("%+v %v", v, received)
	}
	h := received[0].Header
	if h.Get("Authorization") != "Bearer ann-0123456789" || h.Get("Cookie") != "a=1" || h.Get("Range") != "" || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("headers %v", h)
	}
}

func TestHosting_asks_its_user(t *testing.T) {
	s := hosted(t, agentDocument("desk", tripAgent), "", play(
		modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"Which trip?"}`}}},
		modelserver.Step{Text: "Trip 7."}))
	location := s.begin("ann", "desk", "Where is my trip?")
	if v := s.state("ann", location); v.Status != "awaiting-additional-input" || v.Question != "Which trip?" {
		t.Fatalf("state %+v", v)
	}
	if v := s.view(s.as("ann", "POST", location, `{"input":"The seventh"}`, "Prefer", "wait=60")); v.Status != "complete" || v.Text != "Trip 7." {
		t.Errorf("state %+v", v)
	}
	messages := s.models.Requests()[1].Messages
	if last := messages[len(messages)-1]; last.Role != "tool" || last.Text != "The seventh" {
		t.Errorf("the model got %+v", last)
	}
}

func TestHosting_limits(t *testing.T) {
	s := hosted(t, agentDocument("desk", tripAgent), "limits {\nturns 3\n}", func(*modelserver.Request) modelserver.Step { return calls("get-trip", `{"id":"7"}`) })
	v := s.state("ann", s.begin("ann", "desk", "Go"))
	if v.Status != "error" || v.Error == nil || v.Error.Kind != "limit" || v.Error.Rule != "turns" || v.Usage.Turns != 3 {
		t.Errorf("state %+v", v)
	}
}

func TestHosting_never_makes_a_call_without_a_capability(t *testing.T) {
	s := hosted(t, agentDocument("desk", "  get-trip: {user_identity: false, input_restriction: {assertion: 'recent[\"get-trip\"].inputs.id != \"9\"'}}\n"), "",
		play(calls("delete-trip", `{"id":"7"}`), calls("get-trip", `{"id":"9"}`), modelserver.Step{Text: "Done."}))
	v := s.state("ann", s.begin("ann", "desk", "Go"))
	if v.Status != "complete" || len(s.api.received()) != 0 {
		t.Errorf("state %+v, the API received %v", v, s.api.received())
	}
	requests := s.models.Requests()
	for i, want := range []string{"no tool", "input_restriction"} {
		messages := requests[i+1].Messages
		if last := messages[len(messages)-1].Text; !strings.Contains(last, want) {
			t.Errorf("result %d is %q, want %q in it", i, last, want)
		}
	}
}

// TestHosting_ends_at_guardrails lets the tool checkText find which texts are safe.
func TestHosting_ends_at_guardrails(t *testing.T) {
	checker := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		safe := "true"
		if strings.Contains(r.URL.Query().Get("text"), "forbidden") {
			safe = "false"
		}
		_, _ = w.Write([]byte(`{"safe":` + safe + `}`))
	})
	document := agentDocument("desk", tripAgent) + `guardrails:
  input: {tool_name: check-text, assertion: output.safe}
  output: {tool_name: check-text, assertion: output.safe}
`
	for name, c := range map[string]struct {
		input, answer string
		requests      int // to the model
		ends          bool
	}{
		"passed": {"Hello", "Done.", 1, false},
		"input":  {"forbidden", "Done.", 0, true},
		"output": {"Hello", "forbidden", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostedSite(t, document, play(modelserver.Step{Text: c.answer}))
			s.write("check.yaml", `openapi: 3.0.3
info: {title: Check, version: "1"}
servers: [{url: "http://`+checker+`"}]
paths:
  /check:
    get:
      operationId: checkText
      parameters: [{name: text, in: query, required: true, schema: {type: string}}]
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object, properties: {safe: {type: boolean}}}}}}}
`)
			s.start("agents {\n\ttoolset check DIR/check.yaml\n\tstore bolt DIR/store.db\n}", s.block(""))
			v := s.state("ann", s.begin("ann", "desk", c.input))
			if n := len(s.models.Requests()); n != c.requests {
				t.Errorf("the model received %d requests, want %d", n, c.requests)
			}
			if ended := v.Error != nil && v.Error.Kind == "guardrail"; ended != c.ends || c.ends && v.Text != "" {
				t.Errorf("state %+v, error %+v", v, v.Error)
			}
		})
	}
}
