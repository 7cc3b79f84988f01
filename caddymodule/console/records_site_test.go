package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools/callid"
)

// consoleAgent is a document with a restriction of each kind, and texts that are HTML.
const consoleAgent = `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  get-trip: {user_identity: false, collect_results: false, output_restriction: {assertion: 'true'}}
  list-trips: {user_identity: false, input_restriction: {assertion: 'history._total < 100'}}
`

// governedConsole runs a site with the console and an agent.
func governedConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	document := strings.Replace(sitetest.AgentDocument("desk", consoleAgent), "Tests.", "<script>alert(1)</script>", 1)
	s.Write("agent.yaml", document)
	s.Start("agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments id\n\t}\n}",
		"route {\ntest_user\nagents_console\nmcp trips\noagent DIR/agent.yaml {\nreview_wait off\nauditors eve\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	return s
}

type consoleReviews struct {
	Reviews []struct{ ID, Name, Agent string }
}

// TestConsole_reviews approves and denies reviews by the page's form, which needs no JavaScript.
func TestConsole_reviews(t *testing.T) {
	s := governedConsole(t)
	for decision, want := range map[string]int{"approve": http.StatusOK, "deny": http.StatusForbidden} {
		to := "<b>" + decision
		id := sitetest.ReviewsOf(s).Ask(to)
		path := "/console/reviews/" + id
		if list := sitetest.ConsoleJSON[consoleReviews](s, "boss", "/console/api/reviews"); len(list.Reviews) != 1 || list.Reviews[0].ID != id {
			t.Fatalf("%s: the reviewer sees %+v", decision, list)
		}
		shown := s.View("boss", path).Body
		if checkHTML(t, path, shown); !strings.Contains(shown, "desk") || !strings.Contains(shown, "capabilities.create-trip.input_restriction") {
			t.Errorf("%s: the page does not show the agent and the rule: %s", decision, shown)
		}
		for _, other := range []string{"ada", "eve", "desk"} {
			if a := s.Request("GET", path, "", "X-Test-User", other); a.Status != http.StatusNotFound {
				t.Errorf("%s: %s gets status %d, want 404", decision, other, a.Status)
			}
			if list := sitetest.ConsoleJSON[consoleReviews](s, other, "/console/api/reviews"); len(list.Reviews) != 0 {
				t.Errorf("%s: %s sees %+v", decision, other, list)
			}
			if a := form(s, path, "decision=approve", "X-Test-User", other); a.Status != http.StatusNotFound {
				t.Errorf("%s: %s decides with status %d, want 404", decision, other, a.Status)
			}
		}
		for rule, c := range map[string]struct {
			form   string
			header []string
			want   int
		}{
			"no decision": {"comment=x", nil, 400},
			"cross-site":  {"decision=" + decision, []string{"Sec-Fetch-Site", "cross-site"}, 403},
			"long note":   {"decision=" + decision + "&comment=" + strings.Repeat("x", 2500), nil, 400},
		} {
			if a := form(s, path, c.form, append(c.header, "X-Test-User", "boss")...); a.Status != c.want {
				t.Errorf("%s, %s: status %d, want %d", decision, rule, a.Status, c.want)
			}
		}
		a := form(s, path, "decision="+decision+"&comment=because+%3Cscript%3E", "X-Test-User", "boss")
		if a.Status != http.StatusOK || !strings.Contains(a.Body, `role="status"`) || !strings.Contains(a.Body, "Nothing waits") {
			t.Errorf("%s: status %d, %s", decision, a.Status, a.Body)
		}
		if a := s.Request("POST", "/trips", `{"to":"`+to+`"}`, "X-Test-User", "ada"); a.Status != want {
			t.Errorf("%s: the repeated call has status %d, want %d: %s", decision, a.Status, want, a.Body)
		}
	}
	if a := s.Request("GET", "/console/api/oagent/0/reviews", "", "X-Test-User", "boss"); a.Status != 200 || !strings.Contains(a.Body, `"reviews":[]`) {
		t.Errorf("the endpoint for programs: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/console/api/oagent/1/reviews", "/console/api/oagent/00/reviews", "/console/api/oagent/-1/reviews", "/console/api/oagent/0/agents", "/console/api/oagent", "/console/api/oagent/0"} {
		if a := s.Request("GET", path, "", "X-Test-User", "boss"); a.Status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, a.Status)
		}
	}
}

// TestConsole_paths_of_reviews checks that a slash at the end changes nothing, and that a review needs an id.
func TestConsole_paths_of_reviews(t *testing.T) {
	s := governedConsole(t)
	sitetest.ReviewsOf(s).Ask("Bern")
	if list := sitetest.ConsoleJSON[consoleReviews](s, "boss", "/console/api/reviews/"); len(list.Reviews) != 1 {
		t.Errorf("with a slash at the end: %+v", list)
	}
	for _, path := range []string{"/console/reviews/%3Flimit=1", "/console/api/reviews/%3Flimit=1", "/console/reviews/%2e%2e", "/console/reviews/%23"} {
		if a := s.Request("GET", path, "", "X-Test-User", "boss"); a.Status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, a.Status)
		}
	}
}

// TestConsole_agents checks who sees agents and Engagements, and who ends them.
func TestConsole_agents(t *testing.T) {
	s := governedConsole(t)
	sitetest.ReviewsOf(s).Ask("Bern")
	if a := s.Request("GET", "/trips/7", "", "X-Test-User", "bob"); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	page := s.View("eve", "/console/agents/desk").Body
	checkHTML(t, "agent", page)
	for _, part := range []string{"history._total &lt; 100", "boss must approve the call", "Results are not recorded", "GET /trips/{id}", "has no problems"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of the agent lacks %q: %s", part, page)
		}
	}
	if a := s.Request("GET", "/console/agents/desk", "", "X-Test-User", "ada"); a.Status != http.StatusNotFound {
		t.Errorf("a user sees the document of the agent: status %d", a.Status)
	}
	type engagements struct {
		Engagements []struct {
			Key  string
			User struct{ ID string }
		}
	}
	all := sitetest.ConsoleJSON[engagements](s, "eve", "/console/api/agents").Engagements
	own := sitetest.ConsoleJSON[engagements](s, "ada", "/console/api/agents").Engagements
	if len(all) != 2 || len(own) != 1 || own[0].User.ID != "ada" {
		t.Fatalf("the auditor sees %+v, ada sees %+v", all, own)
	}
	path := "/console/engagements/" + own[0].Key
	for user, want := range map[string]int{"ada": 200, "eve": 200, "bob": 404} {
		a := s.Request("GET", path, "", "X-Test-User", user)
		if a.Status != want {
			t.Errorf("%s gets the Engagement of ada with status %d, want %d", user, a.Status, want)
		}
		checkHTML(t, path, a.Body)
		if want == 200 && (!strings.Contains(a.Body, "Review requested") || !strings.Contains(a.Body, `<a href="/console/calls?text=`)) {
			t.Errorf("%s: no timeline with the ids of calls: %s", user, a.Body)
		}
		if a := s.Request("GET", "/console/api/engagements/"+own[0].Key, "", "X-Test-User", user); a.Status != want {
			t.Errorf("%s gets the JSON of the Engagement of ada with status %d, want %d", user, a.Status, want)
		}
	}
	for user, want := range map[string]int{"ada": 409, "bob": 404} {
		if a := form(s, path, "do=end", "X-Test-User", user); a.Status != want {
			t.Errorf("%s ends the Engagement with status %d, want %d", user, a.Status, want)
		}
	}
	if a := form(s, path, "do=end", "X-Test-User", "eve", "Origin", "https://attacker.example"); a.Status != http.StatusForbidden {
		t.Errorf("a page of another site ends the Engagement: status %d", a.Status)
	}
	if a := form(s, path, "do=end", "X-Test-User", "eve"); a.Status != http.StatusOK || !strings.Contains(a.Body, "Timeline") {
		t.Errorf("the auditor ends the Engagement with status %d: %s", a.Status, a.Body)
	}
	if a := s.View("eve", path); !strings.Contains(a.Body, "Renewed") {
		t.Error("the timeline does not show that the Engagement was ended")
	}
}

// TestConsole_lists_own_Engagements checks that the list of a user has all of them on one page, and no key of
// others.
func TestConsole_lists_own_Engagements(t *testing.T) {
	s := governedConsole(t)
	for _, user := range []string{"ann", "bob", "carl", "dora", "ada", "fred", "gus", "hal"} {
		if a := s.Request("GET", "/trips/7", "", "X-Test-User", user); a.Status != 200 {
			t.Fatal(a.Status, a.Body)
		}
	}
	type list struct {
		Engagements []struct{ User struct{ ID string } }
		Next        string
	}
	for _, user := range []string{"ann", "ada", "hal"} {
		const path = "/console/api/oagent/0/engagements?limit=1"
		got := sitetest.ConsoleJSON[list](s, user, path)
		if len(got.Engagements) != 1 || got.Engagements[0].User.ID != user || got.Next != "" {
			t.Errorf("%s: got %+v, want the one Engagement and no next page", user, got)
		}
	}
	if got := sitetest.ConsoleJSON[list](s, "boss", "/console/api/oagent/0/engagements?limit=1"); len(got.Engagements) != 0 || got.Next != "" {
		t.Errorf("a user without Engagements gets %+v", got)
	}
	found, path := 0, "/console/api/oagent/0/engagements?limit=3"
	for path != "" {
		page := sitetest.ConsoleJSON[list](s, "eve", path)
		found, path = found+len(page.Engagements), page.Next
	}
	if found != 8 {
		t.Errorf("the auditor finds %d Engagements, want 8", found)
	}
}

// TestConsole_calls checks who sees which calls and arguments.
func TestConsole_calls(t *testing.T) {
	s := governedConsole(t)
	for user, arguments := range map[string]string{"ada": `{"id":"ada-7"}`, "bob": `{"id":"bob-7"}`} {
		r := s.CallRequest("getTrip", arguments)
		r.Header.Set("X-Test-User", user)
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		s.Do(r)
		r = s.CallRequest("createTrip", `{"to":"secret-`+user+`"}`)
		r.Header.Set("X-Test-User", user)
		s.Do(r)
	}
	type calls struct {
		Calls []struct {
			User, Tool, Outcome, Protocol, Trace string
			Status                               int
			Arguments                            map[string]string
		}
	}
	count := func(user, query string) int {
		t.Helper()
		body := s.View(user, "/console/api/calls"+query).Body
		if strings.Contains(body, "secret-") {
			t.Errorf("%s sees an argument that the operator does not allow: %s", user, body)
		}
		list := sitetest.ConsoleJSON[calls](s, user, "/console/api/calls"+query)
		for _, c := range list.Calls {
			if user != "eve" && c.User != user {
				t.Errorf("%s sees a call of %s", user, c.User)
			}
			if c.Tool == "getTrip" && (c.Outcome != "ok" || c.Status != 200 || c.Protocol != "mcp" || c.Trace != "0af7651916cd43dd8448eb211c80319c" || c.Arguments["id"] != c.User+"-7") {
				t.Errorf("got %+v", c)
			}
			if c.Tool == "createTrip" && c.Outcome != "pending" {
				t.Errorf("got %+v", c)
			}
		}
		return len(list.Calls)
	}
	for _, c := range []struct {
		user, query string
		want        int
	}{
		{"ada", "", 2},
		{"bob", "", 2},
		{"eve", "", 4},
		{"eve", "?user=ada", 2},
		{"eve", "?tool=getTrip", 2},
		{"eve", "?outcome=pending&user=bob", 1},
		{"eve", "?protocol=otc", 0},
		{"ada", "?user=bob", 0},
		{"eve", "?limit=1", 1},
		{"eve", "?trace=0af7651916cd43dd8448eb211c80319c", 2},
		{"mallory", "", 0},
	} {
		if got := count(c.user, c.query); got != c.want {
			t.Errorf("%s %s: got %d calls, want %d", c.user, c.query, got, c.want)
		}
	}
	page := s.View("ada", "/console/calls?tool=getTrip").Body
	if checkHTML(t, "calls", page); !strings.Contains(page, "ada-7") || strings.Contains(page, "bob") {
		t.Errorf("the page: %s", page)
	}
	for part, want := range map[string]bool{"rows": true, "running": false} {
		body := s.Request("GET", "/console/calls?part="+part, "", "X-Test-User", "ada", "Hx-Request", "true").Body
		if strings.Contains(body, "<html") || strings.Contains(body, "getTrip") != want {
			t.Errorf("the part %s: %s", part, body)
		}
	}
	for _, query := range []string{"limit=0", "limit=100000", "since=yesterday", "until=x", "cursor=x"} {
		if a := s.Request("GET", "/console/api/calls?"+query, "", "X-Test-User", "ada"); a.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", query, a.Status)
		}
	}
}

// TestConsole_call shows one call to its user, to an auditor and to an operator.
func TestConsole_call(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", consoleAgent))
	s.Start("agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments *\n\t\tresults\n\t}\n}",
		"route {\ntest_user\nagents_console {\noperators oscar\n}\nmcp trips\noagent DIR/agent.yaml {\nauditors eve\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	for _, arguments := range []string{`{"id":"ada-7"}`, `{"id":["<b>"]}`} {
		r := s.CallRequest("getTrip", arguments)
		r.Header.Set("X-Test-User", "ada")
		s.Do(r)
	}
	r := s.CallRequest("<i>get</i>", `{}`)
	r.Header.Set("X-Test-User", "ada")
	s.Do(r)
	type call struct {
		ID, Tool, Outcome, Reason, Request, Engagement, Result string
		Arguments                                              map[string]any
	}
	type shown struct {
		Call    call
		Earlier []call
	}
	list := sitetest.ConsoleJSON[struct{ Calls []call }](s, "eve", "/console/api/calls")
	if len(list.Calls) != 3 {
		t.Fatalf("got %+v", list)
	}
	unknown, invalid, made := list.Calls[0], list.Calls[1], list.Calls[2]
	if unknown.Outcome != "unknown_tool" || !strings.Contains(unknown.Reason, "<i>get</i>") {
		t.Errorf("the call of an unknown tool: %+v", unknown)
	}
	if invalid.Outcome != "invalid" || !strings.Contains(invalid.Reason, "id") || invalid.Request != "GET /trips/{id}" {
		t.Errorf("the call with an invalid argument: %+v", invalid)
	}
	if made.Engagement == "" || made.Result == "" {
		t.Errorf("the call that was made: %+v", made)
	}
	for _, c := range list.Calls {
		path := "/calls/" + c.ID
		if a := s.Request("GET", "/console/api"+path, "", "X-Test-User", "bob"); a.Status != http.StatusNotFound {
			t.Errorf("bob gets %s with status %d", path, a.Status)
		}
		for user, all := range map[string]bool{"ada": true, "eve": true, "oscar": false} {
			page := s.View(user, "/console"+path).Body
			if checkHTML(t, path, page); strings.Contains(page, "<b>") || strings.Contains(page, "<i>get") {
				t.Errorf("%s gets unescaped text: %s", user, page)
			}
			got := sitetest.ConsoleJSON[shown](s, user, "/console/api"+path)
			if (got.Call.Result != "" || len(got.Call.Arguments) > 0) != (all && c.Tool != "") {
				t.Errorf("%s gets arguments %v and result %q", user, got.Call.Arguments, got.Call.Result)
			}
		}
	}
	if got := sitetest.ConsoleJSON[shown](s, "ada", "/console/api/calls/"+invalid.ID); len(got.Earlier) != 1 || got.Earlier[0].Outcome != "ok" {
		t.Errorf("earlier calls: %+v", got.Earlier)
	}
	for _, query := range []string{"text=" + made.ID, "id=" + made.ID} {
		if found := sitetest.ConsoleJSON[struct{ Calls []call }](s, "ada", "/console/api/calls?"+query); len(found.Calls) != 1 || found.Calls[0].ID != made.ID {
			t.Errorf("%s finds %+v, want the call", query, found.Calls)
		}
	}
	if found := sitetest.ConsoleJSON[struct{ Calls []call }](s, "ada", "/console/api/calls?text="+made.ID[:5]); len(found.Calls) != 0 {
		t.Errorf("a part of an id finds %+v, want nothing: it is in many ids", found.Calls)
	}
	for _, id := range []string{"x", "x.1", callid.New().String(), strings.Repeat("x", 3000) + ".1"} {
		if a := s.Request("GET", "/console/calls/"+id, "", "X-Test-User", "eve"); a.Status != http.StatusNotFound {
			t.Errorf("%.10s: status %d, want 404", id, a.Status)
		}
	}
}

// TestConsole_calls_in_progress looks at a call while the API works on it, and after it has ended.
func TestConsole_calls_in_progress(t *testing.T) {
	working := make(chan struct{})
	s := consoleSite(t, "auditors eve", "mcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		<-working
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	ended := make(chan sitetest.Response, 1)
	r := s.CallRequest("getTrip", `{"id":"7"}`)
	r.Header.Set("X-Test-User", "ada")
	go func() { ended <- s.Do(r) }()
	type calls struct {
		Running, Calls []struct {
			User, Tool, Protocol, Outcome string
			Began, Ended                  time.Time
		}
	}
	var list calls
	sitetest.Eventually(t, "the call in progress", func() bool {
		list = sitetest.ConsoleJSON[calls](s, "eve", "/console/api/calls")
		return len(list.Running) == 1
	})
	c := list.Running[0]
	if got, want := [...]string{c.User, c.Tool, c.Protocol, c.Outcome}, [...]string{"ada", "getTrip", "mcp", ""}; got != want {
		t.Errorf("got the call %q, want %q", got, want)
	}
	if c.Began.IsZero() || !c.Ended.IsZero() || len(list.Calls) != 0 {
		t.Errorf("got a call from %s to %s, and the ended calls %+v; want a beginning, no end, and none", c.Began, c.Ended, list.Calls)
	}
	if page := s.View("ada", "/console/calls").Body; !strings.Contains(page, "in progress") {
		t.Errorf("the page: %s", page)
	}
	for query, want := range map[string]int{"": 1, "?tool=getTrip": 1, "?tool=createTrip": 0, "?outcome=ok": 0, "?user=bob": 0} {
		if list := sitetest.ConsoleJSON[calls](s, "eve", "/console/api/calls"+query); len(list.Running) != want {
			t.Errorf("%q: %d calls in progress, want %d", query, len(list.Running), want)
		}
	}
	if list := sitetest.ConsoleJSON[calls](s, "bob", "/console/api/calls"); len(list.Running) != 0 {
		t.Errorf("bob sees a call of ada: %+v", list)
	}
	close(working)
	if a := <-ended; a.Status != http.StatusOK {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	list = sitetest.ConsoleJSON[calls](s, "eve", "/console/api/calls")
	if len(list.Running) != 0 || len(list.Calls) != 1 {
		t.Fatalf("after the call: got %+v, want one ended call", list)
	}
	if c := list.Calls[0]; c.Outcome != "ok" || c.Ended.Before(c.Began) {
		t.Errorf("after the call: got the outcome %q from %s to %s, want ok, and an end after the beginning", c.Outcome, c.Began, c.Ended)
	}
	if page := s.View("ada", "/console/calls").Body; strings.Contains(page, "in progress") || !strings.Contains(page, "getTrip") {
		t.Errorf("the page after the call: %s", page)
	}
}

// TestConsole_calls_of_another_port checks that the consoles of two sites with the same host and different
// ports do not show each other's calls.
func TestConsole_calls_of_another_port(t *testing.T) {
	s := sitetest.NewSite(t)
	port := testkit.FreePort(t)
	site := "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp TRIPS\nreverse_proxy " + sitetest.Upstream(t, sitetest.Echo) + "\n}"
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", fmt.Sprintf("%s\n}\nhttp://127.0.0.1:%d {\n%s", site, port, site))
	other := s.With(t)
	other.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if a := form(s, "/console/tools/mcp/getTrip", "do=send&arg.id=7", "X-Test-User", "ada"); a.Status != http.StatusOK {
		t.Fatal(a.Status, a.Body)
	}
	type list struct{ Calls []struct{ Tool string } }
	sitetest.Eventually(t, "the call", func() bool { return len(sitetest.ConsoleJSON[list](s, "eve", "/console/api/calls").Calls) == 1 })
	for _, user := range []string{"eve", "ada"} {
		if got := sitetest.ConsoleJSON[list](other, user, "/console/api/calls"); len(got.Calls) != 0 {
			t.Errorf("%s sees the calls of the other site: %+v", user, got)
		}
	}
}

// TestConsole_connect checks the kinds of logins.
func TestConsole_connect(t *testing.T) {
	for login, auth := range map[string]string{
		"none": "", "other": "agent_auth /mcp* {\napi_key {\nkey bob bobs-secret-key\n}\n}",
		"basic": "basic_auth /mcp* {\nbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}",
	} {
		t.Run(login, func(t *testing.T) {
			s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\n"+auth+"\nagents_console\nmcp TRIPS\nrespond ok\n}")
			body := s.View("ada", "/console/api/connect").Body
			for _, part := range []string{`"login":"` + login + `"`, s.URL + "/mcp", "claude mcp add", "mcpServers", "inspector"} {
				if !strings.Contains(body, part) {
					t.Errorf("lacks %s: %s", part, body)
				}
			}
			if strings.Contains(body, "bobs-secret-key") {
				t.Error("the response has a secret")
			}
		})
	}
}

// TestConsole_calls_of_hosted_agents checks the list of calls while an agent calls another one, which calls
// a tool.
func TestConsole_calls_of_hosted_agents(t *testing.T) {
	for name, c := range map[string]struct {
		restriction, capability string
		want                    []string // newest first
	}{
		"allowed":                {"", "", []string{"manager oagent://clerk ok", "clerk createTrip ok"}},
		"input of the agent":     {`input_restriction: {assertion: 'recent.clerk.inputs.input == "other"'}`, "", []string{"manager oagent://clerk restricted"}},
		"output of the agent":    {`output_restriction: {assertion: 'recent.clerk.outputs.text == "other"'}`, "", []string{"manager oagent://clerk restricted", "clerk createTrip ok"}},
		"input of the tool":      {"", `input_restriction: {assertion: 'recent["create-trip"].inputs.to == "other"'}`, []string{"manager oagent://clerk ok", "clerk createTrip restricted"}},
		"no identity for a tool": {"", "user_identity: false", []string{"manager oagent://clerk ok", "clerk createTrip ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewManaged(t, c.restriction, c.capability)
			s.Start("agents {\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments input\n\t}\n}", strings.Replace(s.Block("auditors eve"), "oagent DIR", "agents_console\noagent DIR", 1))
			if v := s.State("ann", s.Begin("ann", "manager", "Go")); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			list := sitetest.ConsoleJSON[sitetest.AgentCalls](s.Site, "eve", "/console/api/calls")
			got := make([]string, len(list.Calls))
			for i, c := range list.Calls {
				got[i] = c.String()
				if c.User != "ann" || c.Protocol != "oagent" {
					t.Errorf("got %+v", c)
				}
				if c.Agent == "manager" && c.Arguments["input"] != "A trip to Bern" {
					t.Errorf("arguments of %+v", c)
				}
			}
			if !slices.Equal(got, c.want) || len(list.Running) != 0 {
				t.Errorf("calls %q, want %q; in progress %v", got, c.want, list.Running)
			}
			if len(got) == 2 && list.Calls[0].Took < list.Calls[1].Took {
				t.Errorf("the call of the agent took %g ms, and that of its tool %g ms", list.Calls[0].Took, list.Calls[1].Took)
			}
			if list := sitetest.ConsoleJSON[sitetest.AgentCalls](s.Site, "eve", "/console/api/calls?agent=manager"); len(list.Calls) != 1 {
				t.Errorf("calls of the manager: %v", list.Calls)
			}
			if list := sitetest.ConsoleJSON[sitetest.AgentCalls](s.Site, "bob", "/console/api/calls"); len(list.Calls) != 0 {
				t.Errorf("bob sees calls for ann: %v", list.Calls)
			}
			page := s.Site.View("ann", "/console/calls").Body
			if checkHTML(t, "calls", page); !strings.Contains(page, "tool=oagent%3a%2f%2fclerk") || !strings.Contains(page, "agent=manager") {
				t.Errorf("the page: %s", page)
			}
		})
	}
}

// TestConsole_hosted_agents shows the run of a hosted agent and stops it.
func TestConsole_hosted_agents(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  get-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"), func(*modelserver.Request) modelserver.Step {
		return modelserver.Step{Calls: []modelserver.Call{{Name: "get-trip", Arguments: `{"id":"7"}`}}}
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", strings.Replace(s.Block("auditors eve\nreview_wait off"), "oagent DIR", "agents_console\noagent DIR", 1))
	id := strings.TrimPrefix(s.Begin("ada", "desk", "Book it."), "/engagements/")
	path := "/console/engagements/" + id
	sitetest.Eventually(t, "the review", func() bool { return strings.Contains(s.Site.View("boss", "/console/reviews").Body, "get-trip") })
	sitetest.Eventually(t, "the state", func() bool { return strings.Contains(s.Site.View("ada", path).Body, "awaiting-verification") }) // is stored after the review
	for user, want := range map[string]int{"ada": 200, "eve": 200, "bob": 404} {
		if a := s.Request("GET", path, "", "X-Test-User", user); a.Status != want || want == 200 && !strings.Contains(a.Body, "awaiting-verification") {
			t.Errorf("%s: status %d, want %d: %s", user, a.Status, want, a.Body)
		}
	}
	list := sitetest.ConsoleJSON[struct {
		Engagements []struct{ Key string }
	}](s.Site, "eve", "/console/api/agents")
	if len(list.Engagements) != 1 {
		t.Fatalf("got %+v", list)
	}
	if a := form(s.Site, "/console/engagements/"+list.Engagements[0].Key, "do=end", "X-Test-User", "ada"); a.Status != 200 || !strings.Contains(a.Body, "canceled") {
		t.Errorf("the run is not stopped: %d %s", a.Status, a.Body)
	}
}

// TestConsole_shows_the_faults_of_the_current_document reloads an agent document, whose faults are computed once.
func TestConsole_shows_the_faults_of_the_current_document(t *testing.T) {
	s := sitetest.NewSite(t)
	document := func(argument string) string {
		return sitetest.AgentDocument("desk", `  get-trip: {input_restriction: {assertion: 'recent["get-trip"].inputs.`+argument+` != "7"'}}`)
	}
	s.Write("agent.yaml", document("idd"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp TRIPS\noagent DIR/agent.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	type agent struct{ Lint []string }
	show := func() agent { return sitetest.ConsoleJSON[agent](s, "eve", "/console/api/agents/desk") }
	for range 2 {
		if got := show(); len(got.Lint) != 1 || !strings.Contains(got.Lint[0], "idd") {
			t.Fatalf("got the faults %q, want one about idd", got.Lint)
		}
	}
	s.Write("agent.yaml", document("id"))
	sitetest.Eventually(t, "the end of the faults", func() bool { return len(show().Lint) == 0 })
	if page := s.View("eve", "/console/agents/desk").Body; strings.Contains(page, "inputs.idd") {
		t.Error("the page shows a fault that is corrected")
	}
}
