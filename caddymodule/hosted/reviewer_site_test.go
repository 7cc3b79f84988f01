package hosted_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	oagentrun "github.com/fairwayhq/fairway/oagent/hosted/run"
)

const supervised = `kind: openagentspec:v1/agent
name: desk
description: Creates trips.
intent: CREATE
owner: tests
capabilities:
  create-trip: {user_identity: false, input_restriction: {require_review: "oagent://supervisor"}}
  get-trip: {user_identity: false, output_restriction: {require_review: supervisor}}
---
kind: openagentspec:v1/agent
name: supervisor
description: Reviews.
intent: REVIEW
owner: tests
capabilities: CAPABILITIES
`

// newSupervised returns a site whose supervisor plays the steps.
func newSupervised(t *testing.T, capabilities string, call modelserver.Step, steps ...modelserver.Step) *sitetest.HostedSite {
	t.Helper()
	desk, supervisor := sitetest.Play(call, modelserver.Step{Text: "Done."}), sitetest.Play(steps...)
	return sitetest.NewHostedSite(t, strings.Replace(supervised, "CAPABILITIES", capabilities, 1), func(r *modelserver.Request) modelserver.Step {
		if strings.HasPrefix(r.System, "REVIEW") {
			return supervisor(r)
		}
		return desk(r)
	})
}

// reviews returns the requests to the model of the supervisor.
func reviews(s *sitetest.HostedSite) (all []*modelserver.Request) {
	for _, r := range s.Models.Requests() {
		if strings.HasPrefix(r.System, "REVIEW") {
			all = append(all, r)
		}
	}
	return all
}

var createTrip = sitetest.Calls("create-trip", `{"to":"Bern"}`)

func TestHosting_supervisor_decides(t *testing.T) {
	for name, c := range map[string]struct {
		call  modelserver.Step
		steps []modelserver.Step
		made  int    // requests that the API gets
		want  string // in the result that the desk gets
		turns int    // of the supervisor
	}{
		"approve":          {createTrip, []modelserver.Step{sitetest.Calls("approve", `{"comment":"fine"}`)}, 1, `"path":"/trips"`, 1},
		"deny":             {createTrip, []modelserver.Step{sitetest.Calls("deny", `{"comment":"too far"}`)}, 0, "too far", 1},
		"approve a result": {sitetest.Calls("get-trip", `{"id":"7"}`), []modelserver.Step{sitetest.Calls("approve", `{}`)}, 1, `"path":"/trips/7"`, 1},
		"deny a result":    {sitetest.Calls("get-trip", `{"id":"7"}`), []modelserver.Step{sitetest.Calls("deny", `{}`)}, 1, "denied", 1},
		"only talks":       {createTrip, []modelserver.Step{{Text: "I approve."}}, 0, "without a decision", 1},
		"has no such tool": {createTrip, []modelserver.Step{sitetest.Calls("ask-user", `{"question":"May I?"}`), {Text: "No."}}, 0, "without a decision", 2},
		"first one counts": {createTrip, []modelserver.Step{{Calls: []modelserver.Call{{ID: "1", Name: "deny", Arguments: "{}"}, {ID: "2", Name: "approve", Arguments: "{}"}}}}, 0, "denied", 1},
		"fails":            {createTrip, []modelserver.Step{{Status: http.StatusBadRequest}}, 0, "without a decision", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervised(t, "{}", c.call, c.steps...)
			s.Start(storeInDir, s.Block(""))
			location := s.Begin("ann", "desk", "Go")
			sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
			if n := len(s.API.Received()); n != c.made {
				t.Errorf("the API received %d requests, want %d", n, c.made)
			}
			if got := strings.Join(answers(s), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("the desk got %q, want %q in it", got, c.want)
			}
			asked := reviews(s)
			if len(asked) != c.turns {
				t.Fatalf("the supervisor's model got %d requests, want %d", len(asked), c.turns)
			}
			input := asked[0].Messages[0].Text
			for _, want := range []string{`"agent":"desk"`, `"user":{"id":"ann"}`, c.call.Calls[0].Name, strings.Trim(c.call.Calls[0].Arguments, "{}"), `"intent":"CREATE"`} {
				if !strings.Contains(input, want) {
					t.Errorf("the supervisor's input lacks %s: %s", want, input)
				}
			}
			var tools []string
			for _, described := range asked[0].Tools {
				tools = append(tools, described.Name)
			}
			if !slices.Equal(tools, []string{"approve", "deny"}) {
				t.Errorf("tools of the supervisor: %v", tools)
			}
		})
	}
}

// TestHosting_supervisor_and_users leaves a review to users if the supervisor does not decide.
func TestHosting_supervisor_and_users(t *testing.T) {
	s := newSupervised(t, "{}", createTrip, modelserver.Step{Text: "I do not know."})
	s.Start(storeInDir, s.Block("guard supervisor\nreviews /reviews\nreviewer supervisor boss"))
	location := s.Begin("ann", "desk", "Go")
	review := pending(s, "ann", location)
	await := func(what string, done func() bool) { t.Helper(); sitetest.Eventually(t, what, done) }
	await("the supervisor's answer", func() bool { return strings.Contains(s.Log(), "has not decided") })
	await("the users' turn", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "awaiting-verification" })
	decide(s, review, "approve")
	await("the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
	if n := len(s.API.Received()); n != 1 || len(reviews(s)) != 1 {
		t.Errorf("the API received %d requests, and the supervisor was asked %d times", n, len(reviews(s)))
	}
}

// TestHosting_supervisor_run_is_hidden checks that the user whose call is under review has no part in the run
// of the supervisor, and that this run has none of the user's credentials.
func TestHosting_supervisor_run_is_hidden(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := newSupervised(t, "{list-trips: {user_identity: false}}", createTrip)
	steps := s.Models.Respond
	s.Models.Respond = func(r *modelserver.Request) modelserver.Step {
		if !strings.HasPrefix(r.System, "REVIEW") {
			return steps(r)
		}
		if len(r.Messages) > 1 {
			return sitetest.Calls("approve", `{}`)
		}
		close(entered)
		step := sitetest.Calls("list-trips", `{}`)
		step.Wait = release
		return step
	}
	s.Start(storeInDir, s.Block("reviews /reviews\nauditors eve ann2"))
	location := s.Begin("ann", "desk", "Go", "Authorization", "Bearer ann-0123456789")
	review := pending(s, "ann", location)
	sitetest.Await(t, "the request to the supervisor's model", entered)
	path := "/engagements/" + oagentrun.ReviewRunID(strings.TrimPrefix(review, "/reviews/"))
	for _, method := range []string{"GET", "POST", "DELETE"} {
		body := ""
		if method == "POST" {
			body = `{"input":"Approve it."}`
		}
		if a := s.As("ann", method, path, body, "Authorization", "Bearer ann-0123456789"); a.Status != http.StatusNotFound {
			t.Errorf("%s of the supervisor's run: %d %s", method, a.Status, a.Body)
		}
	}
	if a := s.As("ann", "GET", path+"/audit", ""); a.Status != http.StatusNotFound {
		t.Errorf("record of the supervisor's run: %d %s", a.Status, a.Body)
	}
	if v := s.View(s.As("eve", "GET", path, "")); v.Agent != "supervisor" {
		t.Errorf("an auditor sees %+v", v)
	}
	if a := s.As("eve", "POST", path, `{"input":"Approve it."}`); a.Status != http.StatusForbidden {
		t.Errorf("POST of an auditor: %d %s", a.Status, a.Body)
	}
	close(release)
	sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
	received := s.API.Received()
	if len(received) != 2 || received[0].Method != http.MethodGet || received[0].Header.Get("Authorization") != "" {
		t.Errorf("the API received %v, want the supervisor's call without credentials first", received)
	}
}

// TestHosting_supervisors_in_a_circle have calls that need reviews of each other, and of their own.
func TestHosting_supervisors_in_a_circle(t *testing.T) {
	const agent = "kind: openagentspec:v1/agent\nname: NAME\ndescription: Reviews.\nintent: Review.\nowner: tests\ncapabilities: {create-trip: {user_identity: false, input_restriction: {require_review: \"oagent://OTHER\"}}}\n"
	for name, other := range map[string]string{"own": "a", "each other": "b"} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewHostedSite(t, strings.NewReplacer("NAME", "a", "OTHER", other).Replace(agent)+"---\n"+strings.NewReplacer("NAME", "b", "OTHER", "a").Replace(agent),
				sitetest.Play(createTrip, modelserver.Step{Text: "Done."}))
			s.Start(storeInDir, s.Block(""))
			location := s.Begin("ann", "a", "Go")
			sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
			if n := len(s.Models.Requests()); len(s.API.Received()) != 0 || n > 2*(oagentrun.MaxDepth+1) {
				t.Errorf("the API received %d requests, the model %d", len(s.API.Received()), n)
			}
		})
	}
}

// TestHosting_supervisor_of_requests decides about a plain request.
func TestHosting_supervisor_of_requests(t *testing.T) {
	s := newSupervised(t, "{}", createTrip, sitetest.Calls("approve", `{}`))
	s.Start(storeInDir, s.Block("guard desk"))
	if a := s.As("ann", "POST", "/trips", `{"to":"Bern"}`); a.Status != http.StatusOK || len(s.API.Received()) != 1 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestHosting_supervisor_large_calls leaves out what does not fit, and denies a call that does not fit itself.
func TestHosting_supervisor_large_calls(t *testing.T) {
	for name, c := range map[string]struct{ size, made int }{"without the Engagement": {40 << 10, 1}, "too large": {70 << 10, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newSupervised(t, "{}", sitetest.Calls("create-trip", `{"to":"`+strings.Repeat("x", c.size)+`"}`), sitetest.Calls("approve", `{}`))
			s.Start(storeInDir, s.Block("max_recorded 256KiB"))
			location := s.Begin("ann", "desk", "Go")
			sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "")).Status == "complete" })
			if n := len(s.API.Received()); n != c.made {
				t.Errorf("the API received %d requests, want %d; the desk got %.300q", n, c.made, answers(s))
			}
		})
	}
}
