package commands_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/oagent/replay"
)

const replayedAgent = `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  list-trips: {user_identity: false, input_restriction: {assertion: recent.list-trips.inputs.limit < 50}}
`

// newReplaySite is a site with an agent for /mcp, tools without an agent at /plain, and a lock.
func newReplaySite(t *testing.T) *agentsSite {
	t.Helper()
	s := &agentsSite{Site: sitetest.NewSite(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", replayedAgent))
	trips := filepath.Join(s.Dir, "trips.yaml")
	if _, _, err := command("tools", "", "lock", trips, "--lock", filepath.Join(s.Dir, "trips.lock")); err != nil {
		t.Fatal(err)
	}
	s.admin = sitetest.StartAdmin(s.Site, strings.ReplaceAll(`{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
	agents {
		store bolt DIR/store.db
		calls {
			arguments limit
		}
		toolset trips DIR/trips.yaml {
			lock  DIR/trips.lock
			allow "tool.name != 'getTrip' || arguments.id != '1'"
		}
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	route {
		test_user
		handle /plain {
			mcp /plain trips
			reverse_proxy UPSTREAM
		}
		mcp /mcp trips {
			agent desk
		}
		oagent DIR/agent.yaml {
			review_wait off
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

// replay runs `caddy agents replay`, and returns its exit status.
func (s *agentsSite) replay(arguments ...string) (report *replay.Report, stdout, stderr string, status int) {
	s.T.Helper()
	stdout, stderr, err := command("agents", "", append([]string{"replay", "--address", s.admin}, arguments...)...)
	if err != nil {
		if status = 1; strings.HasPrefix(err.Error(), "exiting with status ") {
			_, _ = fmt.Sscanf(err.Error(), "exiting with status %d", &status)
		}
	}
	report = new(replay.Report)
	_ = json.Unmarshal([]byte(stdout), report)
	return report, stdout, stderr, status
}

// summary returns the counts of a report, and the exit status.
func summary(r *replay.Report, status int) string {
	return fmt.Sprintf("calls %d, reproduced %d, unchanged %d, refused %d, rules %d, status %d", r.Calls, r.Reproduced, r.Unchanged, r.NewRefused, len(r.Rules), status)
}

// TestAgentsReplay_documents replays documents of an agent over real calls.
func TestAgentsReplay_documents(t *testing.T) {
	s := newReplaySite(t)
	for _, limit := range []int{10, 20, 30, 90} {
		s.call("ada", "listTrips", fmt.Sprintf(`{"limit":%d}`, limit))
	}
	s.call("bob", "createTrip", `{"to":"Bern"}`)
	same, changed := filepath.Join(s.Dir, "agent.yaml"), filepath.Join(s.Dir, "changed.yaml")
	s.Write("changed.yaml", sitetest.AgentDocument("desk", strings.Replace(replayedAgent, "< 50", "< 25", 1)))
	r, out, notes, status := s.replay(same)
	if got := summary(r, status); got != "calls 5, reproduced 5, unchanged 5, refused 0, rules 0, status 0" || notes != "" {
		t.Errorf("the same document: %s, %q, %s", got, notes, out)
	}
	r, out, notes, status = s.replay(changed)
	if got := summary(r, status); got != "calls 5, reproduced 5, unchanged 4, refused 1, rules 1, status 4" || !strings.Contains(notes, "1 calls differently") {
		t.Fatalf("a changed document: %s, %q, %s", got, notes, out)
	}
	c := r.Rules[0].Examples[0]
	found, _ := s.agents("calls", "--tool", "listTrips")
	if c.User != "ada" || c.Arguments != `{"limit":30}` {
		t.Errorf("the call is %+v", c)
	}
	if !strings.Contains(found, `"id":"`+c.ID+`"`) {
		t.Errorf("the call has the id %s, want that of one of\n%s", c.ID, found)
	}
	if _, out, _, status = s.replay("--json=false", changed); status != 4 {
		t.Errorf("the text: status %d", status)
	}
	for _, want := range []string{"5 calls", "decide 5 of them", "refuse 1 more", "list-trips.input_restriction.assertion", "refused 2 (+1)", "ada 1", `list-trips {"limit":30}`, c.ID} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if r, out, _, status = s.replay("--user", "bob", changed); status != 0 || r.Calls != 1 {
		t.Errorf("another user: status %d, %s", status, out)
	}
	if r, out, _, status = s.replay("--until", "1h", changed); status != 0 || r.Calls != 0 {
		t.Errorf("earlier calls: status %d, %s", status, out)
	}
}

// TestAgentsReplay_bad_input checks that what cannot be replayed is a sentence on standard error, and the exit status 1.
func TestAgentsReplay_bad_input(t *testing.T) {
	s := newReplaySite(t)
	file := func(name, text string) string {
		s.Write(name, text)
		return filepath.Join(s.Dir, name)
	}
	good := filepath.Join(s.Dir, "agent.yaml")
	for name, test := range map[string]struct{ arguments, want string }{
		"nothing":           {"", "nothing to replay"},
		"no YAML":           {file("bad.yaml", "\t{"), "bad.yaml"},
		"no agent":          {filepath.Join(s.Dir, "trips.yaml"), "trips.yaml"},
		"another agent":     {file("dask.yaml", sitetest.AgentDocument("dask", replayedAgent)), "not in force did you mean desk"},
		"twice":             {good + " " + good, "two documents"},
		"no file":           {filepath.Join(s.Dir, "none.yaml"), "none.yaml check the path"},
		"a huge file":       {file("huge.yaml", strings.Repeat("# ", 1<<20)), "limit"},
		"too large":         {file("larger.yaml", strings.Repeat("# ", 8<<20+1)), "16 MiB"},
		"no time":           {"--since yesterday " + good, "since"},
		"no expression":     {"--allow user.name==1 --toolset trips", "--allow name"},
		"no toolset":        {"--allow true --toolset trip", "trip did you mean"},
		"only a toolset":    {"--toolset trips " + good, "--allow --lock"},
		"two of them":       {"--allow true --toolset trips " + good, "both"},
		"two API documents": {"--lock " + good + " " + good, "one OpenAPI document"},
		"no API document":   {"--lock " + good, "agent.yaml"},
		"no server":         {"--address 127.0.0.1:1 " + good, "reached"},
	} {
		_, out, notes, status := s.replay(strings.Fields(test.arguments)...)
		if status != 1 || out != "" || !strings.HasPrefix(notes, "Error: ") {
			t.Errorf("%s: status %d, %q, %q", name, status, out, notes)
		}
		for word := range strings.FieldsSeq(test.want) {
			if !strings.Contains(notes, word) {
				t.Errorf("%s: got %q, want %q", name, notes, test.want)
			}
		}
	}
	for method, want := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPost: http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.admin+"/agents/replay", strings.NewReader("["))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%s: status %d, want %d", method, a.StatusCode, want)
		}
	}
}

// TestAgentsReplay_allow replays a rule over kept calls and Engagements.
func TestAgentsReplay_allow(t *testing.T) {
	s := newReplaySite(t)
	s.call("ada", "listTrips", `{"limit":10}`)
	s.call("ada", "listTrips", `{"limit":90}`) // the agent's document refuses it; the rule of the toolset has allowed it
	plain := func(user, tool, arguments string) {
		s.Request("POST", "/plain", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18", "X-Test-User", user)
	}
	plain("bob", "listTrips", `{"limit":5}`)
	plain("bob", "createTrip", `{"to":"Bern"}`) // its arguments are not kept
	plain("bob", "getTrip", `{"id":"1"}`)       // the rule in force refuses it
	for rule, want := range map[string]string{
		`tool.name != 'getTrip'`:          "reproduced 4, unchecked 1, unchanged 5, refused 0, allowed 0, undecidable 0: 0",
		`true`:                            "reproduced 4, unchecked 1, unchanged 4, refused 0, allowed 1, undecidable 0: 4",
		`user.id == 'bob'`:                "reproduced 4, unchecked 1, unchanged 2, refused 2, allowed 1, undecidable 0: 4",
		`arguments.?limit.orValue(0) < 8`: "reproduced 4, unchecked 1, unchanged 1, refused 2, allowed 0, undecidable 2: 4",
		`tool.name == 'createTrip' || arguments.limit < 50`: "reproduced 4, unchecked 1, unchanged 3, refused 1, allowed 0, undecidable 1: 4",
		`!has(arguments.to) || arguments.to != 'Bern'`:      "reproduced 4, unchecked 1, unchanged 3, refused 0, allowed 0, undecidable 2: 0",
		`'staff' in user.groups`:                            "reproduced 4, unchecked 1, unchanged 0, refused 0, allowed 0, undecidable 5: 0",
	} {
		r, out, notes, status := s.replay("--allow", rule, "--toolset", "trips")
		got := fmt.Sprintf("reproduced %d, unchecked %d, unchanged %d, refused %d, allowed %d, undecidable %d: %d", r.Reproduced, r.Unchecked, r.Unchanged, r.NewRefused, r.NewAllowed, r.Undecidable, status)
		if got != want {
			t.Errorf("%s: got  %s\nwant %s\n%s %s", rule, got, want, notes, out)
		}
	}
}

// TestAgentsReplay_lock finds the calls of tools that a changed document changes or removes.
func TestAgentsReplay_lock(t *testing.T) {
	s := newReplaySite(t)
	s.call("ada", "listTrips", `{"limit":10}`)
	s.call("bob", "createTrip", `{"to":"Bern"}`)
	if r, out, notes, status := s.replay("--lock"); status != 0 || r.Calls != 0 {
		t.Errorf("nothing has changed: status %d, %q, %s", status, notes, out)
	}
	trips, err := os.ReadFile(filepath.Join(s.Dir, "trips.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(trips), "operationId: listTrips", "operationId: listAllTrips", 1)
	if changed == string(trips) {
		t.Fatal("the document has not changed")
	}
	s.Write("new.yaml", changed)
	r, out, notes, status := s.replay("--lock", filepath.Join(s.Dir, "new.yaml"))
	if got := summary(r, status); got != "calls 2, reproduced 2, unchanged 1, refused 1, rules 1, status 4" {
		t.Fatalf("a new document: %s, %q, %s", got, notes, out)
	}
	if r.Rules[0].Rule != "lock: gone" || r.Rules[0].Users["ada"] != 1 {
		t.Errorf("a new document: %s", out)
	}
	s.Write("trips.yaml", changed)
	sitetest.Eventually(t, "the document in force is reloaded", func() bool {
		r, _, _, status = s.replay("--lock")
		return status == 4
	})
	if r.NewRefused != 1 || r.Rules[0].Tool != "listTrips" {
		t.Errorf("the document in force: %+v", r)
	}
}
