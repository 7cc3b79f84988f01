package ocp

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// noise is text that gzip cannot make shorter.
func noise(r *rand.Rand, characters int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	b := make([]byte, characters)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// TestFitSession: detail is removed in the order that is documented, and no more of
// it than is needed.
func TestFitSession(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	base := func() *Context {
		c := exampleContext()
		c.ContextID = "ocp-a1b2c3d4"
		return c
	}
	entries := func(n, size int) (list []HistoryEntry) {
		for i := range n {
			list = append(list, HistoryEntry{Timestamp: at("2025-11-16T10:25:00Z"), Action: "a", Result: noise(r, size), Operation: fmt.Sprint(i)})
		}
		return list
	}
	for _, test := range []struct {
		name   string
		change func(*Context)
		shed   int
		kept   func(*Context) bool
	}{
		{"fits", func(*Context) {}, 0, func(c *Context) bool { return reflect.DeepEqual(c, base()) }},
		{"metadata", func(c *Context) {
			c.History[0].Metadata = jsontext.Value(`{"trace":"` + noise(r, 9000) + `"}`)
		}, 1, func(c *Context) bool {
			return len(c.History) == 2 && c.History[0].ToolName != "" && len(c.APISpecs) == 2
		}},
		{"history", func(c *Context) { c.History = entries(100, 200) }, 2, func(c *Context) bool {
			return len(c.History) == 25 && c.History[24].Operation == "99" && len(c.RecentChanges) == 2
		}},
		{"changes", func(c *Context) { c.RecentChanges = []string{noise(r, 5000), noise(r, 5000), "last"} }, 3, func(c *Context) bool {
			return len(c.RecentChanges) == 1 && c.RecentChanges[0] == "last" && len(c.APISpecs) == 2 && len(c.History) == 1
		}},
		{"specifications", func(c *Context) { c.APISpecs["x"] = "https://example.com/" + noise(r, 9000) }, 4, func(c *Context) bool {
			return c.APISpecs == nil && c.Session != nil && c.Session.Extra == nil && c.CurrentFile != ""
		}},
		{"texts", func(c *Context) { c.ContextSummary = noise(r, 9000) }, 5, func(c *Context) bool {
			return len(c.ContextSummary) == 256 && c.ErrorContext != "" && c.CurrentGoal == base().CurrentGoal
		}},
		{"lesser fields", func(c *Context) { c.Session.AgentType = noise(r, 9000) }, 6, func(c *Context) bool {
			return c.Session == nil && c.ErrorContext == "" && c.ContextSummary != "" && c.History[0].Action == "note"
		}},
		{"last entry", func(c *Context) {
			c.History = []HistoryEntry{{Timestamp: c.CreatedAt, Action: "a", Result: noise(r, 250), APIEndpoint: noise(r, 250)}}
		}, 7, func(c *Context) bool { return c.User != "" && len(c.History) == 1 && c.History[0].Result == "" }},
		{"everything", func(*Context) {}, 8, func(c *Context) bool {
			return c.User == "" && c.History == nil && c.AgentType == "ide_coding_assistant"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := base()
			test.change(c)
			before := string(c.AppendJSON(nil))
			limit := MaxSession
			switch test.shed {
			case 7:
				limit = 700
			case 8:
				limit = 250
			}
			session, shed := c.FitSession(limit)
			if shed != test.shed || len(session) > limit {
				t.Errorf("step %d, %d bytes; want step %d", shed, len(session), test.shed)
			}
			if read := readSession(t, session); read.context == nil || !test.kept(read.context) {
				t.Errorf("left is %s", read.context.AppendJSON(nil))
			}
			if got := string(c.AppendJSON(nil)); got != before {
				t.Error("the context itself has changed")
			}
		})
	}
}

// TestFitSession_always: whatever headers can carry fits.
func TestFitSession_always(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		text := func() string { return strings.Repeat(noise(r, r.IntN(3000)), 1+r.IntN(3)) }
		c := randomContext(r)
		c.ContextID, c.AgentType = noise(r, maxContextID), noise(r, maxAgentType)
		c.User, c.Workspace, c.CurrentGoal, c.ContextSummary, c.CurrentFile, c.ErrorContext = text(), text(), text(), text(), text(), text()
		for i := range c.History {
			c.History[i].Action, c.History[i].Operation, c.History[i].ToolName = text(), text(), text()
		}
		session, shed := c.FitSession(MaxSession)
		if len(session) > MaxSession {
			t.Errorf("%d bytes after step %d", len(session), shed)
		}
		if _, err := c.EncodeSession(); (err == nil) != (shed == 0) {
			t.Errorf("step %d, yet EncodeSession says %v", shed, err)
		}
		small, shed := c.FitSession(600)
		if len(small) > 600 || shed != len(shedding) {
			t.Errorf("the least is %d bytes, after step %d", len(small), shed)
		}
	}
}

func TestReply(t *testing.T) {
	c := exampleContext()
	header := make(http.Header)
	if err := c.SetHeaders(header); err != nil {
		t.Fatal(err)
	}
	in := ReadIncoming(header, ReadOptions{})
	in.Context() // a reply repeats created_at of a session that was read
	now := at("2026-01-02T03:04:05.6789Z")
	update := Update{
		At:             now,
		Entries:        []HistoryEntry{CallEntry(now, "https://api.example.com/trips", "listTrips", "trains.listTrips", 404)},
		CurrentGoal:    "take another train",
		ContextSummary: "no such trip",
		RecentChanges:  []string{"looked for trips"},
	}
	update.Only([]string{"current_goal", "history"})
	answer := make(http.Header)
	if shed := in.Reply(update).SetReplyHeaders(answer); shed != 0 {
		t.Errorf("step %d", shed)
	}
	if len(answer) != 3 || answer.Get(HeaderContextID) != c.ContextID || answer.Get(HeaderVersion) != Version {
		t.Errorf("%v", answer)
	}
	read := readSession(t, answer.Get(HeaderSession))
	want := `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","current_goal":"take another train",` +
		`"history":[{"timestamp":"2026-01-02T03:04:05.678900Z","action":"api_call","api_endpoint":"https://api.example.com/trips",` +
		`"result":"error: 404 Not Found","metadata":{"operation":"listTrips","tool_name":"trains.listTrips"}}],` +
		`"created_at":"2025-11-16T10:20:00.123456Z","last_updated":"2026-01-02T03:04:05.678900Z"}`
	if got := string(read.context.AppendJSON(nil)); got != want || read.judgement.Verdict != Conforming {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A reply decompresses nothing: it is its own time of creation then.
func TestReply_decompresses_no_session(t *testing.T) {
	cache := new(SessionCache)
	in := ReadIncoming(http.Header{
		HeaderContextID: {exampleContext().ContextID}, HeaderAgentType: {exampleContext().AgentType}, HeaderSession: {repetitiveSession(t, 256<<10)},
	}, ReadOptions{Cache: cache})
	if err := in.Session.Screen(); err != nil {
		t.Fatal(err)
	}
	now := at("2026-01-02T03:04:05Z")
	if reply := in.Reply(Update{At: now}); !reply.CreatedAt.Equal(now) || cache.Inflations() != 0 {
		t.Errorf("created at %v, %d sessions decompressed", reply.CreatedAt, cache.Inflations())
	}
	if in.Session.Text("context_id") == "" || cache.Inflations() != 1 {
		t.Errorf("%d sessions decompressed, want 1", cache.Inflations())
	}
	if reply := in.Reply(Update{At: now}); reply.CreatedAt.Year() != 2025 || cache.Inflations() != 1 {
		t.Errorf("created at %v, %d sessions decompressed", reply.CreatedAt, cache.Inflations())
	}
}

func TestReply_to_headers_alone(t *testing.T) {
	in := ReadIncoming(http.Header{HeaderContextID: {"ocp-1"}, HeaderAgentType: {"cli"}}, ReadOptions{})
	now := at("2026-01-02T03:04:05Z")
	if faults := in.Reply(Update{At: now}).Validate(false); len(faults) > 0 {
		t.Error(faults)
	}
	if in = ReadIncoming(http.Header{HeaderContextID: {"ocp-1"}}, ReadOptions{}); in.Reply(Update{At: now}) != nil {
		t.Error("a reply to a message that is not valid")
	}
}

func TestReply_time_never_goes_back(t *testing.T) {
	in := ReadIncoming(http.Header{
		HeaderContextID: {"ocp-a1b2c3d4"}, HeaderAgentType: {"cli_tool"},
		HeaderSession: {encoded(strings.ReplaceAll(minimal, "2025", "2099"))},
	}, ReadOptions{})
	if got := in.Reply(Update{At: at("2026-01-02T03:04:05Z")}).LastUpdated; got.Year() != 2099 {
		t.Errorf("last_updated is %v", got)
	}
}

// Times that Python has no year for come back neither in a reply nor in a context.
func TestReply_unwritable_times(t *testing.T) {
	for _, text := range []string{"0000-05-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"} {
		in := ReadIncoming(http.Header{
			HeaderContextID: {"ocp-a1b2c3d4"}, HeaderAgentType: {"cli_tool"},
			HeaderSession: {encoded(strings.ReplaceAll(minimal, "2025-11-16T10:30:00Z", text))},
		}, ReadOptions{})
		reply := in.Reply(Update{At: at("2026-01-02T03:04:05Z")})
		if faults := reply.Validate(false); len(faults) > 0 || reply.LastUpdated.Year() != 2026 || reply.CreatedAt.Year() != 2026 {
			t.Errorf("%s: %v, %s", text, faults, reply.AppendJSON(nil))
		}
	}
	if faults := (&Context{ContextID: "a", AgentType: "b", CreatedAt: at("0000-05-01T00:00:00Z"), LastUpdated: at("2026-01-02T03:04:05Z")}).Validate(false); len(faults) != 1 {
		t.Errorf("year 0: %v", faults)
	}
}

func TestCallEntry(t *testing.T) {
	for status, want := range map[int]string{200: "success", 302: "success", 404: "error: 404 Not Found", 599: "error: 599", 0: "error"} {
		if got := CallEntry(at("2026-01-02T03:04:05Z"), "", "", "", status).Result; got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func BenchmarkReply(b *testing.B) {
	in := ReadIncoming(plainFive, ReadOptions{})
	now := at("2026-01-02T03:04:05.6789Z")
	header := make(http.Header)
	b.ReportAllocs()
	for b.Loop() {
		entry := CallEntry(now, "https://api.example.com/trips", "listTrips", "trains.listTrips", 200)
		in.Reply(Update{At: now, Entries: []HistoryEntry{entry}}).SetReplyHeaders(header)
	}
}
