package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// hostedConsole runs a site with the console and a hosted agent.
func hostedConsole(t *testing.T, capabilities string, respond func(*modelserver.Request) modelserver.Step) *sitetest.HostedSite {
	t.Helper()
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", capabilities), respond)
	startHostedConsole(s)
	return s
}

func startHostedConsole(s *sitetest.HostedSite, global ...string) {
	s.Start("agents {\n\tstore bolt DIR/store.db\n"+strings.Join(global, "\n")+"\n}", strings.Replace(s.Block("auditors eve\nreview_wait off"), "oagent DIR", "agents_console\noagent DIR", 1))
}

// traced is the JSON of a run on the page of its Engagement.
type traced struct {
	Status string
	Trace  struct {
		Turns []struct {
			Number int
			Text   string
			Usage  *struct {
				Input  int `json:"input_tokens"`
				Output int `json:"output_tokens"`
			}
			Calls []struct {
				Name, Arguments, Status, Reason, Run string
				Failed                               bool
				Inside                               []struct{ Name, Status string }
			}
		}
	}
}

// TestConsole_shows_a_run_as_a_trace checks each turn with its text, tokens and calls, rejected ones too.
func TestConsole_shows_a_run_as_a_trace(t *testing.T) {
	const hostile = `<img src=x onerror="alert(1)">`
	s := hostedConsole(t, "\n  get-trip: {user_identity: false}\n", sitetest.Play(
		modelserver.Step{Text: "I look it up. " + hostile, InputTokens: 310, OutputTokens: 25, Calls: []modelserver.Call{
			{ID: "a", Name: "get-trip", Arguments: `{"id":"7"}`},
			{ID: "b", Name: "get-trip", Arguments: `{"id":"7","` + `<b>x</b>` + `":1}`},
			{ID: "c", Name: "drop-" + "<i>all</i>", Arguments: `{}`},
			{ID: "d", Name: "get-trip", Arguments: `not JSON`},
		}},
		modelserver.Step{Text: "Done. " + hostile},
	))
	location := s.Begin("ada", "desk", "Where is trip 7? "+hostile)
	if v := s.State("ada", location); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	id := strings.TrimPrefix(location, "/engagements/")
	if page := s.Site.View("ada", "/console/agents").Body; !strings.Contains(page, `">Where is trip 7? &lt;img`) {
		t.Errorf("the list of Engagements does not link the title: %s", page)
	}
	got := sitetest.ConsoleJSON[traced](s.Site, "ada", "/console/api/engagements/"+id)
	turns := got.Trace.Turns
	if got.Status != "complete" || len(turns) != 3 {
		t.Fatalf("got %+v", got)
	}
	if turns[0].Number != 0 || turns[0].Text != "Where is trip 7? "+hostile {
		t.Errorf("the first turn is not the user's: %+v", turns[0])
	}
	first := turns[1]
	if first.Number != 1 || !strings.HasPrefix(first.Text, "I look it up.") || len(first.Calls) != 4 {
		t.Fatalf("the first turn of the model: got %+v, want the number 1, I look it up., and 4 calls", first)
	}
	if u := first.Usage; u == nil || u.Input != 310 || u.Output != 25 {
		t.Fatalf("the first turn of the model: got the usage %+v, want 310 and 25 tokens", u)
	}
	for i, want := range []struct {
		status string
		failed bool
		reason string
	}{{"done", false, ""}, {"done", true, "x"}, {"rejected", true, "no tool"}, {"rejected", true, "not valid JSON"}} {
		c := first.Calls[i]
		if c.Status != want.status || c.Failed != want.failed {
			t.Errorf("call %d: got %+v, want %+v", i, c, want)
		}
		if !strings.Contains(c.Reason, want.reason) || (want.reason == "") != (c.Reason == "") {
			t.Errorf("call %d: got the reason %q, want %q", i, c.Reason, want.reason)
		}
	}
	page := s.Site.View("ada", "/console/engagements/"+id).Body
	checkHTML(t, "engagement", page)
	for _, part := range []string{"Where is trip 7?", "I look it up.", "310 + 25 tokens", "rejected", `class="lane"`, "/console/calls?agent=desk&amp;tool=getTrip"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, part := range []string{"data-stream", "Exposed to the user", hostile, "<b>x</b>", "<i>all</i>", "awaiting-llm"} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q", part)
		}
	}
	for user, want := range map[string]int{"ada": 200, "eve": 200, "bob": 404} {
		if a := s.Request("GET", "/console/api/oagent/0/engagements/"+id+"/trace", "", "X-Test-User", user); a.Status != want {
			t.Errorf("%s gets the trace with status %d, want %d", user, a.Status, want)
		}
	}
}

// TestConsole_hides_unchecked_texts_of_a_trace checks that a user does not get what the output guardrail has not checked.
func TestConsole_hides_unchecked_texts_of_a_trace(t *testing.T) {
	document := sitetest.AgentDocument("desk", "\n  get-trip: {user_identity: false}\nguardrails: {output: {tool_name: check-output, assertion: 'true'}}\n")
	s := sitetest.NewHostedSite(t, document, sitetest.Play(
		modelserver.Step{Text: "The secret plan.", Calls: []modelserver.Call{{ID: "a", Name: "get-trip", Arguments: `{"id":"secret"}`}}},
		modelserver.Step{Text: "Done."},
	))
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, "http://127.0.0.1:1"))
	startHostedConsole(s, "toolset checks DIR/checks.yaml")
	location := s.Begin("ada", "desk", "Go")
	s.State("ada", location)
	for user, want := range map[string]bool{"ada": false, "eve": true} {
		page := s.Site.View(user, "/console"+location).Body
		if !strings.Contains(page, "get-trip") || strings.Contains(page, "secret") != want {
			t.Errorf("%s: the page has texts of the model: %t, want %t: %s", user, !want, want, page)
		}
	}
}

// TestConsole_shows_called_agents_inside_a_trace checks the calls of a called agent, and the link to its run.
func TestConsole_shows_called_agents_inside_a_trace(t *testing.T) {
	s := sitetest.NewManaged(t, "", "")
	startHostedConsole(s)
	location := s.Begin("ann", "manager", "Go")
	if v := s.State("ann", location); v.Status != "complete" {
		t.Fatalf("state %+v", v)
	}
	got := sitetest.ConsoleJSON[traced](s.Site, "ann", "/console/api"+location)
	call := got.Trace.Turns[1].Calls[0]
	if call.Run == "" || len(call.Inside) != 1 {
		t.Fatalf("got %+v, want a run with one call", call)
	}
	if in := call.Inside[0]; in.Name != "create-trip" || in.Status != "done" {
		t.Fatalf("got %s, %s inside; want create-trip, done", in.Name, in.Status)
	}
	page := s.Site.View("ann", "/console"+location).Body
	if checkHTML(t, "engagement", page); !strings.Contains(page, "/console/engagements/"+call.Run) || !strings.Contains(page, "create-trip") {
		t.Error("the page lacks the called agent")
	}
	if inner := s.Site.View("ann", "/console/engagements/"+call.Run).Body; !strings.Contains(inner, "A trip to Bern") {
		t.Error("the page of the called agent lacks what the manager asked")
	}
}

// TestConsole_lists_Engagements_newest_first checks the order over all pages, the status and the filters.
func TestConsole_lists_Engagements_newest_first(t *testing.T) {
	const runs = 60
	s := hostedConsole(t, "\n  get-trip: {user_identity: false}\n", func(r *modelserver.Request) modelserver.Step {
		if strings.Contains(r.Messages[len(r.Messages)-1].Text, "ask") {
			return sitetest.Calls("ask-user", `{"question":"Which?"}`)
		}
		return modelserver.Step{Text: "Done."}
	})
	var ids []string // newest first
	for i := range runs {
		user, input := "ada", "Go"
		if i%3 == 0 {
			user, input = "bob", "ask"
		}
		location := s.Begin(user, "desk", input)
		s.State(user, location)
		ids = append([]string{strings.TrimPrefix(location, "/engagements/")}, ids...)
	}
	type list struct {
		Engagements []struct {
			ID     string `json:"engagement_id"`
			Status string
			User   struct{ ID string }
		}
		Next string
	}
	var found []string
	for path := "/console/api/agents"; path != ""; {
		page := sitetest.ConsoleJSON[list](s.Site, "eve", path)
		for _, e := range page.Engagements {
			found = append(found, e.ID)
			if want := map[string]string{"ada": "complete", "bob": "awaiting-additional-input"}[e.User.ID]; e.Status != want {
				t.Errorf("the run of %s has the status %q, want %q", e.User.ID, e.Status, want)
			}
		}
		path = page.Next
	}
	// Runs that began in the same millisecond have no order.
	if len(found) != runs || found[0] != ids[0] && found[1] != ids[0] {
		t.Errorf("%d Engagements, the first %v, want %d, the first %s", len(found), found[:min(2, len(found))], runs, ids[0])
	}
	position := make(map[string]int)
	for i, id := range found {
		position[id] = i
	}
	for i, id := range ids {
		if at := position[id]; at < i-2 || at > i+2 {
			t.Errorf("the run %d is at the position %d", i, at)
		}
	}
	for _, c := range []struct {
		user, query string
		want        int
	}{
		{"eve", "user=bob", runs / 3},
		{"eve", "status=complete", runs * 2 / 3},
		{"eve", "status=complete&user=bob", 0},
		{"eve", "agent=other", 0},
		{"ada", "", runs * 2 / 3},
		{"bob", "", runs / 3},
		{"bob", "user=ada", 0},
		{"carl", "", 0},
	} {
		n := 0
		for path := "/console/api/agents?" + c.query; path != ""; {
			page := sitetest.ConsoleJSON[list](s.Site, c.user, path)
			n, path = n+len(page.Engagements), page.Next
		}
		if n != c.want {
			t.Errorf("%s, %q: %d Engagements, want %d", c.user, c.query, n, c.want)
		}
	}
	page := s.Site.View("eve", "/console/agents?user=bob").Body
	checkHTML(t, "agents", page)
	for _, part := range []string{"awaiting-additional-input", "user: bob", `title="20`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if a := s.Request("GET", "/console/api/oagent/0/engagements?order=newest&after=x", "", "X-Test-User", "eve"); a.Status != http.StatusBadRequest {
		t.Errorf("an invalid cursor: status %d, want 400", a.Status)
	}
}

// TestConsole_shows_what_a_reviewer_needs checks the user's message, earlier refusals, the request, the explained rule and
// the list of decisions.
func TestConsole_shows_what_a_reviewer_needs(t *testing.T) {
	const message = "Please book <u>seven</u> seats."
	s := hostedConsole(t, `
  create-trip: {user_identity: false, input_restriction: {assertion: 'recent["create-trip"].inputs.to != "Rome"', require_review: boss}}
`, sitetest.Play(sitetest.Calls("create-trip", `{"to":"Rome"}`), sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Booked."}))
	location := s.Begin("ada", "desk", message)
	if v := s.State("ada", location); v.Status != "awaiting-verification" {
		t.Fatalf("state %+v", v)
	}
	list := sitetest.ConsoleJSON[consoleReviews](s.Site, "boss", "/console/api/reviews")
	if len(list.Reviews) != 1 {
		t.Fatalf("got %+v", list)
	}
	path := "/console/reviews/" + list.Reviews[0].ID
	page := s.Site.View("boss", path).Body
	checkHTML(t, path, page)
	for _, part := range []string{
		"Please book &lt;u&gt;seven", "input_restriction", "Refused", ">POST<", "/trips", "Bern", "boss must approve the call", "in 7 days", "The call is made only if",
		"<title>(1) ", `data-count="1"`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q: %s", part, page)
		}
	}
	if !strings.Contains(page, `<a href="#before">1 refused call</a>`) {
		t.Errorf("the page does not say that a call was refused: %s", page)
	}
	if strings.Contains(page, "null") || strings.Contains(page, "The whole Engagement") {
		t.Errorf("the page has an empty part, or a link that the reviewer may not follow: %s", page)
	}
	for user, want := range map[string]string{"boss": `data-count="1"`, "ada": `data-count="0"`} {
		if a := s.Request("GET", "/console/reviews?count", "", "X-Test-User", user, "Hx-Request", "true"); !strings.Contains(a.Body, want) || strings.Contains(a.Body, "<html") {
			t.Errorf("%s: the count is %s", user, a.Body)
		}
	}
	if a := s.Site.View("eve", "/console/reviews").Body; !strings.Contains(a, "Waiting for others") || !strings.Contains(a, "create-trip") {
		t.Errorf("the auditor does not see what waits: %s", a)
	}
	done := form(s.Site, path, "decision=approve&comment="+url.QueryEscape("as <s>agreed</s>"), "X-Test-User", "boss")
	if checkHTML(t, "reviews", done.Body); !strings.Contains(done.Body, "The review is approved: <code>create-trip</code> of the agent desk for ada") {
		t.Errorf("what was approved is not named: %s", done.Body)
	}
	for user, want := range map[string]bool{"boss": true, "eve": true, "ada": false, "bob": false} {
		a := s.Site.View(user, "/console/reviews").Body
		if checkHTML(t, "reviews", a); strings.Contains(a, "as &lt;s&gt;agreed") != want {
			t.Errorf("%s sees the decision: %t, want %t", user, !want, want)
		}
	}
	if v := s.State("ada", location); v.Status != "complete" {
		t.Errorf("after the approval: %+v", v)
	}
}

// TestConsole_asks_before_it_ends_an_Engagement checks that the button is in a second step that says what is lost.
func TestConsole_asks_before_it_ends_an_Engagement(t *testing.T) {
	s := hostedConsole(t, "\n  get-trip: {user_identity: false}\n", sitetest.Play(sitetest.Calls("ask-user", `{"question":"Which?"}`)))
	location := s.Begin("ada", "desk", "Go")
	s.State("ada", location)
	page := s.Site.View("ada", "/console"+location).Body
	before, _, found := strings.Cut(page, `value="end"`)
	if !found || strings.LastIndex(before, "<details") < strings.LastIndex(before, "</details>") || !strings.Contains(before, "cannot be undone") {
		t.Errorf("the button is not in a second step: %s", page)
	}
	if !strings.Contains(page, fmt.Sprintf("data-stream=%q", "/console/api/oagent/0"+location)) {
		t.Error("the page of a run in progress does not follow its events")
	}
}
