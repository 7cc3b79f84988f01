package hosted_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestHosting_rejects_bad_requests(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "auditors eve", sitetest.Play(modelserver.Step{Text: "Done."}))
	ended := s.Begin("ann", "desk", "Hello")
	if v := s.State("ann", ended); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	for name, c := range map[string]struct {
		user, method, path, body string
		status                   int
		header                   []string
		words                    string
	}{
		"not authenticated":        {"", "POST", "/agents/desk", `{"input":"Hi"}`, 401, nil, "authenticated"},
		"not authenticated, state": {"", "GET", ended, "", 401, nil, "authenticated"},
		"unknown agent":            {"ann", "POST", "/agents/other", `{"input":"Hi"}`, 404, nil, "agent"},
		"not JSON":                 {"ann", "POST", "/agents/desk", `{"input"`, 400, nil, "JSON"},
		"not an object":            {"ann", "POST", "/agents/desk", `["input"]`, 400, nil, "object"},
		"no input":                 {"ann", "POST", "/agents/desk", `{}`, 400, nil, "input"},
		"empty input":              {"ann", "POST", "/agents/desk", `{"input":" "}`, 400, nil, "empty"},
		"null":                     {"ann", "POST", "/agents/desk", `{"input":null}`, 400, nil, "empty"},
		"further member":           {"ann", "POST", "/agents/desk", `{"input":"Hi","model":"other"}`, 400, nil, "member"},
		"form":                     {"ann", "POST", "/agents/desk", `input=Hi`, 415, []string{"Content-Type", "application/x-www-form-urlencoded"}, "json"},
		"from another site":        {"ann", "POST", "/agents/desk", `{"input":"Hi"}`, 403, []string{"Sec-Fetch-Site", "cross-site"}, "site"},
		// No more than the sockets hold: a client that still writes when the server closes may not get the response.
		"body over the limit":         {"ann", "POST", "/agents/desk", `{"input":"` + strings.Repeat("x", 400<<10) + `"}`, 413, nil, "large"},
		"input over the limit":        {"ann", "POST", "/agents/desk", `{"input":"` + strings.Repeat("x", 65<<10) + `"}`, 413, nil, "limit"},
		"wrong method":                {"ann", "PUT", "/agents/desk", `{"input":"Hi"}`, 405, nil, "GET"},
		"unknown Engagement":          {"ann", "GET", "/engagements/UNKNOWN", "", 404, nil, "exist"},
		"input to unknown Engagement": {"ann", "POST", "/engagements/UNKNOWN", `{"input":"Hi"}`, 404, nil, "exist"},
		"foreign Engagement":          {"bob", "GET", ended, "", 404, nil, "exist"},
		"foreign record":              {"bob", "GET", ended + "/audit", "", 404, nil, "exist"},
		"input to foreign Engagement": {"bob", "POST", ended, `{"input":"Hi"}`, 404, nil, "exist"},
		"canceling foreign":           {"bob", "DELETE", ended, "", 404, nil, "exist"},
		"input of an auditor":         {"eve", "POST", ended, `{"input":"Hi"}`, 403, nil, "user"},
		"empty title":                 {"ann", "POST", ended, `{"title":" "}`, 400, nil, "title"},
		"reply without a question":    {"ann", "POST", ended, `{"input":"Hi","in_reply_to":"x"}`, 409, nil, "question"},
		"deleting foreign":            {"bob", "DELETE", ended + "?delete", "", 404, nil, "exist"},
		"deleting as an auditor":      {"eve", "DELETE", ended + "?delete", "", 403, nil, "user"},
		"canceling after the end":     {"ann", "DELETE", ended, "", 409, nil, "ended"},
		"changing the Engagement":     {"ann", "PATCH", ended, `{"input":"Hi"}`, 405, nil, "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sitetest.HostedSite{Site: s.With(t)}
			a := s.As(c.user, c.method, c.path, c.body, c.header...)
			if p := s.Problem(a); a.Status != c.status || !testkit.ContainsAll(p.Title+" "+p.Detail, c.words) {
				t.Errorf("got status %d and %+v, want %d and the words %q", a.Status, p, c.status, c.words)
			}
		})
	}
	if n := len(s.Models.Requests()); n != 1 {
		t.Errorf("the model received %d requests, want 1", n)
	}
	if v := s.View(s.As("eve", "GET", ended, "")); v.Text != "Done." {
		t.Errorf("auditor: %+v", v)
	}
	if a := s.As("eve", "GET", ended+"/audit", ""); a.Status != http.StatusOK {
		t.Errorf("record for the auditor: status %d, %s", a.Status, a.Body)
	}
}

func TestHosting_reads_any_JSON_as_input(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(modelserver.Step{Text: "Done."}))
	a := s.As("ann", "POST", "/agents/desk", `{"input":{"trip":7}}`)
	if v := s.State("ann", a.Header.Get("Location")); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	if got := s.Models.Requests()[0].Messages[0].Text; got != `{"trip":7}` {
		t.Errorf("the model got %q", got)
	}
}

// The body may be the input itself, as for the reference server of OpenAgentSpec, or missing.
func TestHosting_reads_the_form_of_the_reference_server(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(modelserver.Step{Text: "Done."}, modelserver.Step{Text: "Done."}, modelserver.Step{Text: "Done."}, modelserver.Step{Text: "Done."}))
	for i, c := range []struct{ body, want string }{
		{` "Hi \"you\"" `, `Hi "you"`}, {"", "Begin"}, {"null", "Begin"},
	} {
		a := s.As("ann", "POST", "/agents/desk", c.body)
		location := a.Header.Get("Location")
		if v := s.State("ann", location); a.Status != 303 || v.Status != "complete" {
			t.Fatalf("%q: status %d, state %+v", c.body, a.Status, v)
		}
		messages := s.Models.Requests()[i].Messages // begins with what the agent remembers
		if got := messages[len(messages)-1].Text; !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: the model got %q", c.body, got)
		}
		if i == 0 {
			continue
		}
		if p := s.Problem(s.As("ann", "POST", location, c.body)); p.Status != http.StatusBadRequest {
			t.Errorf("%q to an Engagement: %+v", c.body, p)
		}
	}
	first := s.Begin("ann", "desk", "Hello")
	s.State("ann", first)
	if a := s.As("ann", "POST", first, `"Go on"`); a.Status != http.StatusOK {
		t.Errorf("a string to an Engagement: status %d, %s", a.Status, a.Body)
	}
	for _, body := range []string{`""`, `"\ud800"`, `{"text":"Hi"}`, `7`, `"a" "b"`} {
		if a := s.As("ann", "POST", "/agents/desk", body); a.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, a.Status)
		}
	}
}

func TestHosting_cancels(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", func(*modelserver.Request) modelserver.Step {
		close(entered)
		return modelserver.Step{Text: "Late.", Wait: release}
	})
	location := s.Begin("ann", "desk", "Hello")
	sitetest.Await(t, "the request to the model", entered)
	if v := s.View(s.As("ann", "GET", location, "")); v.Status != "awaiting-llm" {
		t.Errorf("state %+v", v)
	}
	a := s.As("ann", "GET", location, "", "Prefer", "respond-async, wait=1")
	if v := s.View(a); v.Status != "awaiting-llm" || a.Header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("waiting: %+v, %v", v, a.Header)
	}
	if v := s.View(s.As("ann", "DELETE", location, "")); v.Status != "error" || v.Error == nil || v.Error.Kind != "canceled" {
		t.Errorf("canceled: %+v", v)
	}
	if p := s.Problem(s.As("ann", "POST", location, `{"input":"Go on"}`)); p.Status != http.StatusConflict || p.Kind != "canceled" {
		t.Errorf("input after cancel: %+v", p)
	}
}

func TestHosting_streams_events(t *testing.T) {
	release := make(chan struct{})
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "On time.", Pieces: 4, Wait: release}))
	const turn = `"turn":2}`
	location := s.Begin("ann", "desk", "Is trip 7 on time?")
	r, err := http.NewRequest(http.MethodGet, s.URL+location, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("X-Test-User", "ann")
	response, err := sitetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	close(release)
	var text strings.Builder
	var states []string
	lines, event := bufio.NewScanner(response.Body), ""
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
		case event == "text":
			text.WriteString(data)
		case event == "state":
			v := s.View(sitetest.Response{Status: 200, Body: data})
			states = append(states, v.Status)
			if v.Status == "complete" && v.Text != "On time." {
				t.Errorf("last state %+v", v)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if n := len(states); n < 2 || states[n-1] != "complete" {
		t.Errorf("states %q", states)
	}
	if got := text.String(); !strings.Contains(got, `{"text":`) || strings.Count(got, turn) != strings.Count(got, "}") {
		t.Errorf("texts %s", got)
	}
}

func TestHosting_rejects_bad_configurations(t *testing.T) {
	const model = "model openai {\nbase_url http://127.0.0.1:1/v1\nmodel m\n}"
	for name, c := range map[string]struct{ options, words string }{
		"no endpoints":       {model, "serve engagements"},
		"limits only":        {"limits {\nturns 3\n}", "model"},
		"unknown agent":      {"serve /agents\nengagements /engagements\nmodel openai dask {\nmodel m\n}", "dask desk"},
		"limits of none":     {"serve /agents\nengagements /engagements\n" + model + "\nlimits dask {\nturns 3\n}", "limits dask desk"},
		"two for all":        {"serve /agents\nengagements /engagements\n" + model + "\n" + model, "twice"},
		"two for one":        {"serve /agents\nengagements /engagements\nmodel openai desk {\nmodel m\n}\nmodel openai desk {\nmodel m\n}", "desk two"},
		"missing model file": {"serve /agents\nengagements /engagements\nmodel scripted {\nfile DIR/none.yaml\n}", "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", tripAgent))
			err := s.Load("agents {\n\tstore bolt DIR/store.db\n}", "oagent DIR/agent.yaml {\ntoolset TRIPS\n"+c.options+"\n}\nrespond OK")
			if err == nil || !testkit.ContainsAll(err.Error(), c.words) {
				t.Errorf("got %v, want an error with the words %q", err, c.words)
			}
		})
	}
}

func TestHosting_with_the_format_of_Anthropic(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "On time."}))
	block := strings.Replace(s.Block(""), "model openai {", "model anthropic desk {\n\t\tapi_key sk-test-0123456789abcdef", 1)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", block)
	if v := s.State("ann", s.Begin("ann", "desk", "Is trip 7 on time?")); v.Text != "On time." || v.Usage.ToolCalls != 1 {
		t.Errorf("state %+v", v)
	}
	if !s.Models.Requests()[0].Anthropic {
		t.Error("the request has another format")
	}
}

// TestHosting_calls_pass_the_handlers_of_the_site calls tools through handlers before and after the
// one that authenticates.
func TestHosting_calls_pass_the_handlers_of_the_site(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(
		modelserver.Step{Calls: []modelserver.Call{
			{ID: "1", Name: "get-trip", Arguments: `{"id":"early"}`},
			{ID: "2", Name: "get-trip", Arguments: `{"id":"limited"}`},
			{ID: "3", Name: "get-trip", Arguments: `{"id":"late"}`},
		}}, modelserver.Step{Text: "Done."}))
	block := strings.Replace(s.Block("forward_headers X-Names"), "test_user\n", `respond /trips/early "too early" 418
	agent_auth {
		api_key {
			key ann 0123456789abcdefghij
		}
	}
	respond /trips/limited "slow down" 429
	request_header X-Names "{http.tool.name} {http.tool.protocol} {http.auth.user.id}"
	`, 1)
	block = strings.Replace(block, "reverse_proxy", "request_header X-Agent {http.oagent.agent}\nrespond /trips/late \"not found\" 404\nreverse_proxy", 1)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", block)
	key := []string{"X-Api-Key", "0123456789abcdefghij"}
	location := s.Begin("", "desk", "Go", key...)
	v := s.View(s.As("", "GET", location, "", append(key, "Prefer", "wait=60")...))
	if v.Status != "complete" || v.Usage.ToolCalls != 3 {
		t.Errorf("state %+v", v)
	}
	received := s.API.Received()
	if len(received) != 1 || received[0].URL.Path != "/trips/early" {
		t.Fatalf("the API received %v, want only the call that the handler before agent_auth would refuse", received)
	}
	if got := received[0].Header; got.Get("X-Names") != "getTrip oagent ann" || got.Get("X-Agent") != "desk" {
		t.Errorf("headers %v", got)
	}
	results := s.Models.Requests()[1].Messages
	for i, want := range []string{"early", "429", "404"} {
		if got := results[len(results)-3+i]; !strings.Contains(got.Text, want) {
			t.Errorf("result %d is %+v, want %s", i, got, want)
		}
	}
}

// TestHosting_agents_without_a_model are not run.
func TestHosting_agents_without_a_model(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent)+"\n---\n"+sitetest.AgentDocument("clerk", tripAgent), sitetest.Play(modelserver.Step{Text: "Done."}))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", strings.Replace(s.Block(""), "model openai {", "model openai clerk {", 1))
	if a := s.As("ann", "POST", "/agents/desk", `{"input":"Hi"}`); a.Status != http.StatusMethodNotAllowed {
		t.Errorf("got status %d, %s", a.Status, a.Body)
	}
	if v := s.State("ann", s.Begin("ann", "clerk", "Hi")); v.Text != "Done." {
		t.Errorf("state %+v", v)
	}
	if a := s.As("ann", "GET", "/trips/7", ""); a.Status != http.StatusForbidden {
		t.Errorf("plain request without an agent: got status %d, want 403: %s", a.Status, a.Body)
	}
}

// TestHosting_two_sites share a store, but not their runs.
func TestHosting_two_sites(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Text: "Done."}))
	block := s.Block("")
	other := strings.NewReplacer("/agents", "/agents2", "/engagements", "/engagements2").Replace(block)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", fmt.Sprintf("handle /b/* {\nuri strip_prefix /b\n%s\n}\nhandle {\n%s\n}", other, block))
	location := s.Begin("ann", "desk", "Hello")
	if v := s.State("ann", location); v.Text != "Done." {
		t.Errorf("state %+v", v)
	}
	id := strings.TrimPrefix(location, "/engagements/")
	// The other handler has an agent of the same name, and so the record of the Engagement, but not the run.
	if a := s.As("ann", "GET", "/b/engagements2/"+id, ""); strings.Contains(a.Body, "usage") || strings.Contains(a.Body, "Done.") {
		t.Errorf("the other handler: got status %d, %s", a.Status, a.Body)
	}
	if a := s.As("ann", "GET", "/b/engagements2/"+id+"/trace", ""); a.Status != http.StatusNotFound {
		t.Errorf("the trace of the other handler: got status %d, want 404", a.Status)
	}
}

// TestHosting_memory shows a user what an agent remembers, and deletes it (OpenAgentSpec v1, Agent,
// lifespan.retain_memory).
func TestHosting_memory(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", func(*modelserver.Request) modelserver.Step { return modelserver.Step{Text: "Noted."} })
	remembered := func(user string) string {
		t.Helper()
		a := s.As(user, "GET", "/agents/desk/memory", "")
		if a.Status != http.StatusOK {
			t.Fatalf("status %d, %s", a.Status, a.Body)
		}
		return a.Body
	}
	// seen returns the texts that the model got before the input, after it has checked the system text.
	seen := func() (texts string) {
		t.Helper()
		requests := s.Models.Requests()
		last := requests[len(requests)-1]
		if strings.Contains(last.System, "My seat") {
			t.Errorf("the memory is in the system text: %s", last.System)
		}
		for _, m := range last.Messages[:len(last.Messages)-1] {
			texts += m.Role + ": " + m.Text + "\n"
		}
		return texts
	}
	s.State("ann", s.Begin("ann", "desk", "My seat is 12"))
	sitetest.Eventually(t, "what the agent remembers", func() bool {
		return strings.Contains(remembered("ann"), `"input":"My seat is 12","answer":"Noted."`)
	})
	if got := remembered("bob"); got != `{"remembered":[]}` {
		t.Errorf("the agent remembers of another user: %s", got)
	}
	s.State("ann", s.Begin("ann", "desk", "Which seat?"))
	if got := seen(); !strings.Contains(got, "My seat is 12\nassistant: Noted.") {
		t.Errorf("the model got no memory: %s", got)
	}
	s.State("ann", s.Begin("ann", "desk", "Which seat?", "Oagent-Chain", strings.Repeat("0", 24)))
	if got := seen(); got != "" {
		t.Errorf("an agent of another server that calls the agent gets the memory: %s", got)
	}
	s.State("bob", s.Begin("bob", "desk", "Which seat?"))
	if got := seen(); got != "" {
		t.Errorf("the model got the memory of another user: %s", got)
	}
	for _, foreign := range []struct {
		user, path string
		status     int
	}{{"", "/agents/desk/memory", http.StatusUnauthorized}, {"ann", "/agents/unknown/memory", http.StatusNotFound}, {"ann", "/agents/desk/memories", http.StatusNotFound}} {
		if a := s.As(foreign.user, "GET", foreign.path, ""); a.Status != foreign.status {
			t.Errorf("%s: got status %d, want %d: %s", foreign.path, a.Status, foreign.status, a.Body)
		}
	}
	if a := s.As("ann", "DELETE", "/agents/desk/memory", ""); a.Status != http.StatusNoContent {
		t.Errorf("DELETE: got status %d, %s", a.Status, a.Body)
	}
	s.State("ann", s.Begin("ann", "desk", "And now?"))
	if got := seen(); strings.Contains(got, "My seat is 12") {
		t.Errorf("the model got what the agent had to forget: %s", got)
	}
}

// TestHosting_the_API_gets_a_key_of_each_call that is not safe, if it declares a key header: the same for each attempt, and another one for
// another call.
func TestHosting_the_API_gets_a_key_of_each_call(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(
		modelserver.Step{Calls: []modelserver.Call{
			{ID: "1", Name: "create-trip", Arguments: `{"to":"Bern"}`},
			{ID: "2", Name: "create-trip", Arguments: `{"to":"Bern"}`},
			{ID: "3", Name: "create-trip", Arguments: `{"to":"Bern","Idempotency_Key":"own"}`},
			{ID: "4", Name: "get-trip", Arguments: `{"id":"7"}`},
		}}, modelserver.Step{Text: "Done."}))
	const key = "parameters: [{name: Idempotency-Key, in: header, schema: {type: string}}]"
	trips := strings.Replace(sitetest.Trips, "operationId: createTrip\n", "operationId: createTrip\n      "+key+"\n", 1)
	s.Write("trips.yaml", trips)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", s.Block(""))
	if v := s.State("ann", s.Begin("ann", "desk", "Two trips")); v.Text != "Done." {
		t.Fatalf("state %+v", v)
	}
	var keys []string
	for _, r := range s.API.Received() {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	}
	if len(keys) != 4 || len(keys[0]) != 36 || len(keys[1]) != 36 {
		t.Fatalf("the API got the keys %q", keys)
	}
	if keys[0] == keys[1] || keys[2] != "own" || keys[3] != "" {
		t.Errorf("the API got the keys %q", keys)
	}
}
