package commands_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// agentsSite is a site with an agent and an admin endpoint.
type agentsSite struct {
	*sitetest.Site
	admin string
}

func newAgentsSite(t *testing.T) *agentsSite {
	t.Helper()
	s := &agentsSite{Site: sitetest.NewSite(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  list-trips: {user_identity: false}
`))
	s.admin = sitetest.StartAdmin(s.Site, strings.ReplaceAll(`{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
	agents {
		store bolt DIR/store.db
		toolset trips DIR/trips.yaml {
			allow_log_only "!has(arguments.limit) || arguments.limit != 777"
		}
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	route {
	test_user
	mcp /mcp trips
	oagent DIR/agent.yaml {
		guard       desk
		review_wait off
		reviews     /reviews
		engagements /engagements
		auditors    eve
		reviewer boss {
			people ann
		}
	}
	reverse_proxy UPSTREAM
	}
}
`, "UPSTREAM", sitetest.Upstream(t, sitetest.Echo)))
	return s
}

// call calls a tool by MCP, and returns the response.
func (s *agentsSite) call(user, name, arguments string) string {
	s.T.Helper()
	return s.Request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18", "X-Test-User", user).Body
}

// agents runs `caddy agents` with the admin endpoint of the site. It must succeed.
func (s *agentsSite) agents(arguments ...string) (stdout, stderr string) {
	s.T.Helper()
	stdout, stderr, err := command("agents", "", append(arguments, "--address", s.admin)...)
	if err != nil {
		s.T.Fatalf("caddy agents %q: %v", arguments, err)
	}
	return stdout, stderr
}

// TestAgentsCalls_finds_calls checks the order, the filters, the pages and the notes of `caddy agents calls`.
func TestAgentsCalls_finds_calls(t *testing.T) {
	s := newAgentsSite(t)
	const calls = 103 // more than a page of the admin endpoint
	for i := range calls {
		s.call("ada", "listTrips", fmt.Sprintf(`{"limit":%d}`, i+1))
	}
	s.call("grace", "noSuchTool", `{}`)
	out, notes := s.agents("calls", "--json=false", "--since", "1h")
	page := strings.Split(out, "\n")
	if len(page) != 51 {
		t.Fatalf("got %d lines, want 50:\n%s", len(page)-1, out)
	}
	if !strings.Contains(page[0], "unknown_tool") || !strings.Contains(page[0], "grace") || !strings.Contains(page[1], "listTrips") {
		t.Errorf("got the lines\n%s\n%s\nwant unknown_tool of grace before listTrips", page[0], page[1])
	}
	if !strings.Contains(notes, "--limit 50") {
		t.Errorf("the note is %q, want that there are more", notes)
	}
	all, notes := s.agents("calls", "--limit", "1000", "--user", "ada")
	lines := strings.Split(strings.TrimSpace(all), "\n")
	var call calllog.Call
	if len(lines) != calls || notes != "" {
		t.Errorf("got %d calls of ada and the note %q, want %d and none", len(lines), notes, calls)
	}
	if err := json.Unmarshal([]byte(lines[0]), &call); err != nil || call.User != "ada" {
		t.Errorf("the first is %s, %v; want a call of ada", lines[0], err)
	}
	if one, _ := s.agents("calls", "--id", call.ID); strings.TrimSpace(one) != lines[0] {
		t.Errorf("--id %s finds %s, want %s", call.ID, one, lines[0])
	}
	if out, notes := s.agents("calls", "--outcome", "api_error"); out != "" || notes != "No call fits.\n" {
		t.Errorf("a filter that nothing fits: %q, %q", out, notes)
	}
	for arguments, word := range map[string]string{"--since yesterday": "since", "--limit 0": "--limit", "--limit x": "limit", "--address 127.0.0.1:1": "reached"} {
		_, notes, err := command("agents", "", append([]string{"calls", "--address", s.admin}, strings.Fields(arguments)...)...)
		if err == nil || !strings.Contains(notes, word) {
			t.Errorf("%s: %v, printed %q, want %s", arguments, err, notes, word)
		}
		if !strings.HasPrefix(notes, "Error: ") || strings.Contains(notes, "{") {
			t.Errorf("%s: printed %q, want a sentence", arguments, notes)
		}
	}
}

// TestAgentsCalls_and_the_record_have_the_id_of_the_client makes a call that passes, and one that waits for a review.
func TestAgentsCalls_and_the_record_have_the_id_of_the_client(t *testing.T) {
	s := newAgentsSite(t)
	for tool, c := range map[string]struct {
		arguments string
		events    []string
	}{
		"listTrips":  {`{"limit":7}`, []string{"begun", "finished"}},
		"createTrip": {`{"to":"Bern"}`, []string{"review"}},
	} {
		_, id, found := strings.Cut(s.call("ada", tool, c.arguments), `"io.github.fairwayhq/call":"`)
		if !found {
			t.Fatalf("%s: the response has no id", tool)
		}
		id = id[:16]
		out, _ := s.agents("calls", "--id", id)
		var call calllog.Call
		if err := json.Unmarshal([]byte(out), &call); err != nil || call.Tool != tool {
			t.Fatalf("%s: --id %s finds %q, %v", tool, id, out, err)
		}
		record := sitetest.Decode[struct {
			Entries []struct {
				What   string
				CallID string `json:"call_id"`
			}
		}](t, s.Request("GET", "/engagements/"+call.Engagement+"/audit", "", "X-Test-User", "ada"))
		var got []string
		for _, e := range record.Entries {
			if e.CallID == id {
				got = append(got, e.What)
			}
		}
		if !slices.Equal(got, c.events) {
			t.Errorf("%s: the record has the id %s in the entries %q, want %q: %+v", tool, id, got, c.events, record)
		}
	}
}

// TestAgentsCalls_finds_calls_that_would_have_been_refused makes a call that a rule in log only does not allow, and another one.
func TestAgentsCalls_finds_calls_that_would_have_been_refused(t *testing.T) {
	s := newAgentsSite(t)
	s.call("ada", "listTrips", `{"limit":777}`)
	s.call("grace", "listTrips", `{"limit":7}`)
	out, _ := s.agents("calls", "--would-refuse", "--wide", "--json=false")
	if strings.Count(out, "\n") != 1 || !testkit.ContainsAll(out, "ada would been refused trips.allow_log_only") {
		t.Errorf("got %s", out)
	}
	encoded, _ := s.agents("calls", "--would-refuse")
	var call calllog.Call
	if err := json.Unmarshal([]byte(encoded), &call); err != nil || call.Would.Rule != "trips.allow_log_only" || call.Outcome != "ok" {
		t.Errorf("got %s, %v", encoded, err)
	}
}

// TestAgentsTop_counts_calls checks the statistics of `caddy agents top`, as a table and as JSON.
func TestAgentsTop_counts_calls(t *testing.T) {
	s := newAgentsSite(t)
	s.call("ada", "listTrips", `{}`)
	s.call("ada", "noSuchTool", `{}`)
	table, _ := s.agents("top", "--once", "--json=false")
	for _, want := range []string{"last 1h: 2 calls", "failed 50.0 %", "listTrips", "(unknown tool)", "ada"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	encoded, _ := s.agents("top", "--range", "24h")
	var stats calllog.Stats
	if err := json.Unmarshal([]byte(encoded), &stats); err != nil || stats.Total.Calls != 2 {
		t.Errorf("%v, %s", err, encoded)
	}
	if _, notes, err := command("agents", "", "top", "--range", "2h", "--address", s.admin); err == nil || !strings.Contains(notes, "24h") {
		t.Errorf("another range: %v, %q", err, notes)
	}
}

// TestAgentsReport_says_what_to_mend checks the report as a table and as JSON.
func TestAgentsReport_says_what_to_mend(t *testing.T) {
	s := newAgentsSite(t)
	s.call("ada", "listTrips", `{}`)
	s.call("ada", "listTrips", `{"limit":"\u001b[31m"}`)
	table, notes := s.agents("report", "--json=false")
	for _, want := range []string{"TOOL", "listTrips", "/limit"} {
		if !strings.Contains(table, want) || strings.Contains(table, "\x1b[31m") {
			t.Errorf("no %q in\n%s%s", want, table, notes)
		}
	}
	encoded, _ := s.agents("report", "--range", "7d", "--tool", "listTrips")
	var tool calllog.ToolReport
	if err := json.Unmarshal([]byte(encoded), &tool); err != nil || [...]int{tool.Calls, tool.Failures, len(tool.Weeks)} != [...]int{2, 1, 1} {
		t.Errorf("%v, %s", err, encoded)
	}
	if out, notes := s.agents("report", "--tool", "none"); out != "" || notes != "No call fits.\n" {
		t.Errorf("a tool without calls: %q, %q", out, notes)
	}
	if _, notes, err := command("agents", "", "report", "--range", "2h", "--address", s.admin); err == nil || !strings.Contains(notes, "28d") {
		t.Errorf("another range: %v, %q", err, notes)
	}
}

// TestAgents_without_agents checks that lists are empty if the configuration has no agents.
func TestAgents_without_agents(t *testing.T) {
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	sitetest.StartJSON(t, []byte(`{"admin":{"listen":"`+admin+`","config":{"persist":false}}}`))
	for command, note := range map[string]string{"runs": "No run fits.\n", "reviews": "No review waits.\n"} {
		s := &agentsSite{&sitetest.Site{T: t}, admin}
		if out, notes := s.agents(command); out != "" || notes != note {
			t.Errorf("%s: %q, %q, want %q", command, out, notes, note)
		}
	}
}

// TestAgentsReviews_decide checks that reviews can be listed and decided by the admin endpoint, and that the record has
// the user and the endpoint. It also checks `caddy agents runs`.
func TestAgentsReviews_decide(t *testing.T) {
	s := newAgentsSite(t)
	ask := func(to string) string {
		t.Helper()
		p := s.Problem(s.Request("POST", "/trips", `{"to":"`+to+`"}`, "X-Test-User", "ada"))
		if p.Review == "" {
			t.Fatalf("got %+v, want a review", p)
		}
		return p.Review
	}
	id := ask("Bern")
	var list string
	sitetest.Eventually(t, "the review is listed", func() bool {
		list, _ = s.agents("reviews", "list", "--json=false")
		return strings.Contains(list, id)
	})
	if !strings.Contains(list, "boss") || !strings.Contains(list, "desk") || !strings.Contains(list, "ada") {
		t.Errorf("the list is %q", list)
	}
	for arguments, word := range map[string]string{
		"approve " + id:               "--as",
		"approve " + id + " --as ada": "cannot decide",
		"approve none --as ann":       "no review",
	} {
		_, notes, err := command("agents", "", append([]string{"reviews", "--address", s.admin}, strings.Fields(arguments+" --address "+s.admin)...)...)
		if err == nil || !strings.HasPrefix(notes, "Error: ") || !strings.Contains(notes, word) {
			t.Errorf("%s: %v, printed %q, want %q", arguments, err, notes, word)
		}
	}
	out, _ := s.agents("reviews", "approve", id, "--as", "ann", "--comment", "by phone")
	if !strings.Contains(out, "approved") || !strings.Contains(out, "create-trip") {
		t.Errorf("the command prints %q", out)
	}
	if a := s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada"); a.Status != 200 {
		t.Errorf("the approved call: %d %s", a.Status, a.Body)
	}
	denied := ask("Basel")
	sitetest.Eventually(t, "the second review is listed", func() bool {
		list, _ = s.agents("reviews")
		return strings.Contains(list, denied)
	})
	s.agents("reviews", "deny", denied, "--as", "ann")
	if p := s.Problem(s.Request("POST", "/trips", `{"to":"Basel"}`, "X-Test-User", "ada")); p.Kind != "review_denied" {
		t.Errorf("the denied call: %+v", p)
	}
	runs, _ := s.agents("runs", "--user", "ada")
	var run struct{ Key string }
	if err := json.Unmarshal([]byte(runs), &run); err != nil {
		t.Fatalf("%v: %s, want one run", err, runs)
	}
	const by = `"decided_by":{"user":"ann","entry":"admin endpoint"}`
	if audit := s.Request("GET", "/engagements/"+run.Key+"/audit", "", "X-Test-User", "eve").Body; strings.Count(audit, by) != 2 {
		t.Errorf("the record is %s, want %s twice", audit, by)
	}
	if out, notes := s.agents("runs", "--agent", "other"); out != "" || notes != "No run fits.\n" {
		t.Errorf("another agent: %q, %q", out, notes)
	}
	if out, _ := s.agents("runs", "--json=false"); !strings.Contains(out, "desk") || !strings.Contains(out, "ada") {
		t.Errorf("the runs are %q", out)
	}
}
