package hosted_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const storeInDir = "agents {\n\tstore bolt DIR/store.db\n}"

const reviewedAgent = `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  get-trip: {user_identity: false, output_restriction: {require_review: boss}}
`

// reviewedTrip plays a call that needs a review, and then says the result.
var reviewedTrip = sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."})

func decide(s *sitetest.HostedSite, location, decision string) {
	s.T.Helper()
	if a := s.As("boss", "POST", location+"/"+decision, ""); a.Status != http.StatusOK {
		s.T.Fatalf("decision: status %d, %s", a.Status, a.Body)
	}
}

// pending returns the location of the only review that a run waits for.
func pending(s *sitetest.HostedSite, user, location string) string {
	s.T.Helper()
	var v sitetest.RunView
	sitetest.Eventually(s.T, "the review", func() bool {
		v = s.View(s.As(user, "GET", location, ""))
		return v.Status == "awaiting-verification"
	})
	if len(v.Reviews) != 1 || !strings.HasPrefix(v.Reviews[0].Location, "/reviews/") {
		s.T.Fatalf("want one review, got %+v", v)
	}
	return v.Reviews[0].Location
}

func TestHosting_waits_for_reviews(t *testing.T) {
	for name, c := range map[string]struct {
		step           modelserver.Step
		decision, want string
		before, after  int // requests that the API has received
	}{
		"input approved":  {sitetest.Calls("create-trip", `{"to":"Bern"}`), "approve", `"path":"/trips"`, 0, 1},
		"input denied":    {sitetest.Calls("create-trip", `{"to":"Bern"}`), "deny", "denied", 0, 0},
		"output approved": {sitetest.Calls("get-trip", `{"id":"7"}`), "approve", `"path":"/trips/7"`, 1, 1},
		"output denied":   {sitetest.Calls("get-trip", `{"id":"7"}`), "deny", "denied", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosted(t, sitetest.AgentDocument("desk", reviewedAgent), "reviews /reviews", sitetest.Play(c.step, modelserver.Step{Text: "Done."}))
			location := s.Begin("ann", "desk", "Go")
			review := pending(s, "ann", location)
			if n := len(s.API.Received()); n != c.before {
				t.Errorf("before the decision the API has received %d requests, want %d", n, c.before)
			}
			decide(s, review, c.decision)
			if v := s.State("ann", location); v.Status != "complete" || v.Text != "Done." {
				t.Errorf("state %+v", v)
			}
			if n := len(s.API.Received()); n != c.after {
				t.Errorf("the API has received %d requests, want %d", n, c.after)
			}
			messages := s.Models.Requests()[1].Messages
			if result := messages[len(messages)-1].Text; !strings.Contains(result, c.want) {
				t.Errorf("the model got the result %s, want %q in it", result, c.want)
			}
		})
	}
}

// TestHosting_makes_the_call_that_a_reviewer_changed gives the model the result, and what was changed.
func TestHosting_makes_the_call_that_a_reviewer_changed(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", reviewedAgent), "reviews /reviews\nreviewer boss {\npeople boss\nmay_edit\n}",
		sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Done."}))
	location := s.Begin("ann", "desk", "Go")
	review := pending(s, "ann", location)
	if a := s.As("boss", "POST", review, `{"decision":"approve","inputs":{"to":"Basel"}}`); a.Status != http.StatusOK {
		t.Fatalf("decision: status %d, %s", a.Status, a.Body)
	}
	if v := s.State("ann", location); v.Status != "complete" || v.Usage.ToolCalls != 1 {
		t.Errorf("state %+v", v)
	}
	if got := s.API.Received(); len(got) != 1 {
		t.Errorf("the API has received %d requests, want 1", len(got))
	}
	result := strings.Join(answers(s), "\n")
	if !strings.Contains(result, `"changed":"A reviewer changed the arguments before the call: to from \"Bern\" to \"Basel\""`) || !strings.Contains(result, `"path":"/trips"`) {
		t.Errorf("the model got %s", result)
	}
}

func TestHosting_goes_on_after_a_reload(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", reviewedAgent), func(r *modelserver.Request) modelserver.Step {
		step := reviewedTrip(r)
		if r.Messages[0].Text == "slow" && len(r.Messages) == 1 {
			close(entered)
			step.Wait = release
		}
		return step
	})
	block := s.Block("reviews /reviews")
	s.Start(storeInDir, block)
	waiting, slow := s.Begin("ann", "desk", "Go"), s.Begin("ann", "desk", "slow")
	review := pending(s, "ann", waiting)
	sitetest.Await(t, "the request to the model", entered)
	loaded := make(chan error)
	go func() { loaded <- caddy.Load(s.Config(storeInDir, block), true) }()
	close(release)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	decide(s, review, "approve")
	if v := s.State("ann", waiting); v.Text != "Created." {
		t.Errorf("the run that waited for a review: %+v", v)
	}
	decide(s, pending(s, "ann", slow), "approve")
	if v := s.State("ann", slow); v.Text != "Created." {
		t.Errorf("the run that waited for the model: %+v", v)
	}
	if n := len(s.API.Received()); n != 2 {
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
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "  create-trip: {"+c.capability+"input_restriction: {require_review: boss}}\n"), reviewedTrip)
			block := s.Block(`reviews /reviews
	identity robot header_up Authorization "Bearer robot-0123456789"`)
			s.Start(storeInDir, block)
			location := s.Begin("ann", "desk", "Go", c.header...)
			review := pending(s, "ann", location)
			if err := caddy.Stop(); err != nil {
				t.Fatal(err)
			}
			s.Start(storeInDir, block)
			decide(s, review, "approve")
			v := s.State("ann", location)
			if c.waits {
				if v.Status == "awaiting-verification" {
					v = s.State("ann", location)
				}
				if v.Status != "awaiting-additional-input" || !strings.Contains(v.Reason, "credentials") {
					t.Fatalf("without the credentials: %+v", v)
				}
				if n := len(s.API.Received()); n != 0 {
					t.Fatalf("the API has received %d requests", n)
				}
				if a := s.As("bob", "GET", location, "", "Authorization", "Bearer bob-0123456789"); a.Status != http.StatusNotFound {
					t.Errorf("another user: status %d", a.Status)
				}
				if v := s.State("ann", location); v.Status != "awaiting-additional-input" {
					t.Errorf("after the request of another user: %+v", v)
				}
				s.As("ann", "GET", location, "", c.header...)
				sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
				v = s.State("ann", location)
			}
			if v.Status != "complete" || v.Text != "Created." {
				t.Errorf("state %+v", v)
			}
			received := s.API.Received()
			if len(received) != 1 || received[0].Header.Get("Authorization") != c.want || received[0].Host == "" {
				t.Errorf("the API has received %v, want one request with %q", received, c.want)
			}
		})
	}
}

// TestHosting_uses_the_identity_of_the_user makes a call with the headers of the request that
// started the run.
func TestHosting_uses_the_identity_of_the_user(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", "  get-trip: {}\n"), "", sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Done."}))
	v := s.State("ann", s.Begin("ann", "desk", "Go", "Authorization", "Bearer ann-0123456789", "Accept", "text/plain", "Range", "bytes=0-1", "Cookie", "a=1"))
	received := s.API.Received()
	if v.Text != "Done." || len(received) != 1 {
		t.Fatalf("%+v %v", v, received)
	}
	h := received[0].Header
	got := [...]string{h.Get("Authorization"), h.Get("Cookie"), h.Get("Range"), h.Get("X-Forwarded-For")}
	if want := [...]string{"Bearer ann-0123456789", "a=1", "", "127.0.0.1"}; got != want {
		t.Errorf("got the headers %q, want %q", got, want)
	}
}

func TestHosting_asks_its_user(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(
		modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"Which trip?"}`}}},
		modelserver.Step{Text: "Trip 7."}))
	location := s.Begin("ann", "desk", "Where is my trip?")
	if v := s.State("ann", location); v.Status != "awaiting-additional-input" || len(v.Questions) != 1 || v.Questions[0].Text != "Which trip?" {
		t.Fatalf("state %+v", v)
	}
	if v := s.View(s.As("ann", "POST", location, `{"input":"The seventh"}`, "Prefer", "wait=60")); v.Status != "complete" || v.Text != "Trip 7." {
		t.Errorf("state %+v", v)
	}
	messages := s.Models.Requests()[1].Messages
	if last := messages[len(messages)-1]; last.Role != "tool" || last.Text != "The seventh" {
		t.Errorf("the model got %+v", last)
	}
}

func TestHosting_limits(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "limits {\nturns 3\n}", func(*modelserver.Request) modelserver.Step { return sitetest.Calls("get-trip", `{"id":"7"}`) })
	v := s.State("ann", s.Begin("ann", "desk", "Go"))
	if v.Status != "error" || v.Error == nil {
		t.Fatalf("got %+v, want an error", v)
	}
	if got, want := [...]any{v.Error.Kind, v.Error.Rule, v.Usage.Turns}, [...]any{"limit", "turns", 3}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestHosting_limits_of_an_agent gives one of two agents fewer turns, and no questions.
func TestHosting_limits_of_an_agent(t *testing.T) {
	documents := sitetest.AgentDocument("desk", tripAgent) + "---\n" + sitetest.AgentDocument("clerk", tripAgent)
	s := hosted(t, documents, "limits {\nturns 3\n}\nlimits clerk {\nturns 2\nask_user off\n}", func(*modelserver.Request) modelserver.Step { return sitetest.Calls("get-trip", `{"id":"7"}`) })
	for agent, want := range map[string]struct {
		turns int
		asks  bool
	}{"desk": {3, true}, "clerk": {2, false}} {
		v := s.State("ann", s.Begin("ann", agent, "Go"))
		if v.Error == nil || v.Error.Rule != "turns" || v.Usage.Turns != want.turns {
			t.Errorf("%s: state %+v, want %d turns", agent, v, want.turns)
		}
		requests := s.Models.Requests()
		asks := slices.ContainsFunc(requests[len(requests)-1].Tools, func(tool modelserver.Tool) bool { return tool.Name == "ask-user" })
		if asks != want.asks {
			t.Errorf("%s: the model has ask-user: %t", agent, asks)
		}
	}
}

func TestHosting_never_makes_a_call_without_a_capability(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, input_restriction: {assertion: 'recent[\"get-trip\"].inputs.id != \"9\"'}}\n"), "",
		sitetest.Play(sitetest.Calls("delete-trip", `{"id":"7"}`), sitetest.Calls("get-trip", `{"id":"9"}`), modelserver.Step{Text: "Done."}))
	v := s.State("ann", s.Begin("ann", "desk", "Go"))
	if v.Status != "complete" || len(s.API.Received()) != 0 {
		t.Errorf("state %+v, the API received %v", v, s.API.Received())
	}
	requests := s.Models.Requests()
	for i, want := range []string{"no tool", "input_restriction"} {
		messages := requests[i+1].Messages
		if last := messages[len(messages)-1].Text; !strings.Contains(last, want) {
			t.Errorf("result %d is %q, want %q in it", i, last, want)
		}
	}
}

// checkDocument is a document with the tool checkText, without servers.
const checkDocument = `openapi: 3.0.3
info: {title: Check, version: "1"}
paths:
  /check:
    get:
      operationId: checkText
      parameters: [{name: text, in: query, required: true, schema: {type: string}}]
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object, properties: {safe: {type: boolean}}}}}}}
`

// TestHosting_ends_at_guardrails lets the tool checkText find which texts are safe.
func TestHosting_ends_at_guardrails(t *testing.T) {
	checker := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		safe := "true"
		if strings.Contains(r.URL.Query().Get("text"), "forbidden") {
			safe = "false"
		}
		_, _ = w.Write([]byte(`{"safe":` + safe + `}`))
	})
	document := sitetest.AgentDocument("desk", tripAgent) + `guardrails:
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
			s := sitetest.NewHostedSite(t, document, sitetest.Play(modelserver.Step{Text: c.answer}))
			s.Write("check.yaml", checkDocument+`servers: [{url: "http://`+checker+`"}]`)
			s.Start("agents {\n\ttoolset check DIR/check.yaml\n\tstore bolt DIR/store.db\n}", s.Block(""))
			v := s.State("ann", s.Begin("ann", "desk", c.input))
			if n := len(s.Models.Requests()); n != c.requests {
				t.Errorf("the model received %d requests, want %d", n, c.requests)
			}
			if ended := v.Error != nil && v.Error.Kind == "guardrail"; ended != c.ends || c.ends && v.Text != "" {
				t.Errorf("state %+v, error %+v", v, v.Error)
			}
		})
	}
}

// TestHosting_guardrail_sees_what_returns checks that neither the exposed values nor the record return what the
// output guardrail has not checked.
func TestHosting_guardrail_sees_what_returns(t *testing.T) {
	checker := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"safe":%t}`, !strings.Contains(r.URL.Query().Get("text"), "BADWORD"))
	})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent)+`guardrails:
  output: {tool_name: check-text, assertion: output.safe}
exposes: {to: 'recent["create-trip"].inputs.to'}
`, sitetest.Play(sitetest.Calls("create-trip", `{"to":"BADWORD"}`), modelserver.Step{Text: "Fine."}))
	s.Write("check.yaml", checkDocument+`servers: [{url: "http://`+checker+`"}]`)
	s.Start("agents {\n\ttoolset check DIR/check.yaml\n\tstore bolt DIR/store.db\n}", s.Block("auditors eve"))
	location := s.Begin("ann", "desk", "Go")
	v := s.State("ann", location)
	if v.Error == nil || v.Error.Kind != "guardrail" || len(v.Exposes) != 0 {
		t.Errorf("state %+v", v)
	}
	audit := s.As("eve", "GET", location+"/audit", "").Body
	var record struct{ Engagement string }
	if err := json.Unmarshal([]byte(audit), &record); err != nil || !strings.Contains(audit, "BADWORD") {
		t.Fatalf("an auditor gets %s", audit)
	}
	for _, path := range []string{location, location + "/audit", "/engagements/" + record.Engagement, "/engagements/" + record.Engagement + "/audit"} {
		if a := s.As("ann", "GET", path, ""); a.Status != http.StatusOK || strings.Contains(a.Body, "BADWORD") {
			t.Errorf("%s returns %d %s", path, a.Status, a.Body)
		}
	}
}

// TestHosting_guardrail_without_server names what to do on a site without chat.
func TestHosting_guardrail_without_server(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent)+"guardrails:\n  output: {tool_name: check-text, assertion: output.safe}\n", sitetest.Play())
	s.Write("check.yaml", checkDocument)
	err := s.Load("agents {\n\ttoolset check DIR/check.yaml\n\tstore bolt DIR/store.db\n}", s.Block(""))
	if err == nil || strings.Contains(err.Error(), "chat") || !strings.Contains(err.Error(), "servers") {
		t.Errorf("error %v", err)
	}
}

// TestHosting_logs_a_wait_for_the_model_as_a_warning checks the level of the log entry about a run that goes on by itself.
func TestHosting_logs_a_wait_for_the_model_as_a_warning(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), func(*modelserver.Request) modelserver.Step {
		return modelserver.Step{Status: http.StatusTooManyRequests, Error: "slow down", Header: http.Header{"Retry-After": {"60"}}}
	})
	s.Start(storeInDir, strings.Replace(s.Block(""), "retries 0", "retries 1", 1))
	location := s.Begin("ann", "desk", "Go")
	sitetest.Eventually(t, "the wait", func() bool { return s.View(s.As("ann", "GET", location, "")).RetryAt != "" })
	s.Logged("the run of an agent waits for its model", `"level":"warn"`)
	if s.HasLogged(`"level":"error"`) {
		t.Errorf("the log has an error: %s", s.Log())
	}
}
