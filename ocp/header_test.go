package ocp

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// minimal is the smallest context that conforms (OCP 1.0, Minimal Valid Context).
const minimal = `{"context_id":"ocp-a1b2c3d4","agent_type":"cli_tool","created_at":"2025-11-16T10:30:00Z","last_updated":"2025-11-16T10:30:00Z"}`

func encoded(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func TestHeaders(t *testing.T) {
	for _, test := range []struct {
		name, key, value string
		want             Reason // "" if the header is good
	}{
		{"context-id", HeaderContextID, "ocp-a1b2c3d4", ""},
		{"context-id-of-the-text", HeaderContextID, "ocp-debug-123", ""},
		{"context-id-shortest", HeaderContextID, "A", ""},
		{"context-id-longest", HeaderContextID, strings.Repeat("a", 64), ""},
		{"context-id-too-long", HeaderContextID, strings.Repeat("a", 65), ReasonTooLong},
		{"context-id-empty", HeaderContextID, "", ReasonEmpty},
		{"context-id-space-only", HeaderContextID, " \t", ReasonEmpty},
		{"context-id-space-around", HeaderContextID, " ocp-1 ", ""},
		{"context-id-underscore", HeaderContextID, "ocp_1", ReasonPattern},
		{"context-id-comma", HeaderContextID, "ocp-1,ocp-2", ReasonPattern},
		{"context-id-not-ascii", HeaderContextID, "ocp-é", ReasonPattern},
		{"context-id-newline", HeaderContextID, "ocp-1\nx", ReasonPattern},

		{"agent-type", HeaderAgentType, "ide_coding-assistant.v2", ""},
		{"agent-type-longest", HeaderAgentType, strings.Repeat("a", 128), ""},
		{"agent-type-too-long", HeaderAgentType, strings.Repeat("a", 129), ReasonTooLong},
		{"agent-type-empty", HeaderAgentType, "", ReasonEmpty},
		{"agent-type-space", HeaderAgentType, "ide assistant", ReasonPattern},

		{"current-goal", HeaderCurrentGoal, "fix the payment error, now", ""},
		{"current-goal-characters-not-bytes", HeaderCurrentGoal, strings.Repeat("目", 256), ""},
		{"current-goal-too-long", HeaderCurrentGoal, strings.Repeat("目", 257), ReasonTooLong},
		{"current-goal-empty", HeaderCurrentGoal, "", ReasonEmpty},
		{"current-goal-latin-1", HeaderCurrentGoal, "d\xe9bogage", ReasonUTF8},
		{"current-goal-replacement-character", HeaderCurrentGoal, "a\ufffdb", ""},
		{"current-goal-newline", HeaderCurrentGoal, "a\nb", ReasonControl},
		{"current-goal-C1", HeaderCurrentGoal, "a\u0085b", ReasonControl},
		{"current-goal-tab", HeaderCurrentGoal, "a\tb", ""},

		{"user-longest", HeaderUser, strings.Repeat("ü", 64), ""},
		{"user-too-long", HeaderUser, strings.Repeat("u", 65), ReasonTooLong},
		{"user-empty", HeaderUser, "", ReasonEmpty},
		{"workspace-longest", HeaderWorkspace, strings.Repeat("ß", 128), ""},
		{"workspace-too-long", HeaderWorkspace, strings.Repeat("w", 129), ReasonTooLong},
		{"workspace-empty", HeaderWorkspace, "", ReasonEmpty},

		{"version", HeaderVersion, "1.0", ""},
		{"version-patch", HeaderVersion, "1.0.2", ""},
		{"version-suffix", HeaderVersion, "1.1.0-rc.1+build", ""},
		{"version-one-number", HeaderVersion, "1", ReasonPattern},
		{"version-four-numbers", HeaderVersion, "1.0.0.0", ReasonPattern},
		{"version-word", HeaderVersion, "v1.0", ReasonPattern},
		{"version-dot-at-end", HeaderVersion, "1.0.", ReasonPattern},
		{"version-empty-suffix", HeaderVersion, "1.0-", ReasonPattern},
		{"version-empty", HeaderVersion, "", ReasonEmpty},
		{"version-too-long", HeaderVersion, "1.0-" + strings.Repeat("a", 32), ReasonTooLong},

		{"session", HeaderSession, encoded(minimal), ""},
		{"session-empty", HeaderSession, "", ReasonEmpty},
		{"session-longest", HeaderSession, encoded("{" + strings.Repeat(" ", MaxSession/4*3-1)), ""},
		{"session-too-long", HeaderSession, encoded("{"+strings.Repeat(" ", MaxSession/4*3-1)) + "A", ReasonTooLong},
		{"session-space-first", HeaderSession, encoded(" \n\t {}"), ""},
		{"session-empty-object", HeaderSession, "e30=", ""},
		{"session-not-base64", HeaderSession, "{}{}{}", ReasonBase64},
		{"session-one-character", HeaderSession, "e", ReasonBase64},
		{"session-list", HeaderSession, encoded("[{}]"), ReasonObject},
		{"session-text", HeaderSession, encoded(`"abc"`), ReasonObject},
		{"session-null", HeaderSession, encoded(`null`), ReasonObject},
		{"session-not-JSON", HeaderSession, encoded(`hello`), ReasonJSON},
		{"session-prefix-without-gzip", HeaderSession, "gzip:" + encoded(minimal), ReasonGzip},
		{"session-prefix-alone", HeaderSession, "gzip:", ReasonBase64},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{test.key: {test.value}}
			h := ReadHeaders(header, ReadOptions{})
			if !h.Present() {
				t.Fatal("not present")
			}
			if test.want != "" {
				if want := []Fault{{Field: HeaderName(test.key), Reason: test.want}}; !slices.Equal(h.Faults, want) {
					t.Fatalf("got %v, want %v", h.Faults, want)
				}
				if again := h; again.hasValue() {
					t.Errorf("the value of an ignored header is kept: %+v", h)
				}
				h.DropIgnored(header)
				if len(header) != 0 {
					t.Errorf("an ignored header would be passed on: %v", header)
				}
				return
			}
			if len(h.Faults) > 0 || !h.hasValue() {
				t.Fatalf("ignored: %v", h.Faults)
			}
			h.DropIgnored(header)
			if len(header) != 1 {
				t.Error("a good header was dropped")
			}
			passed := http.Header{HeaderUser: {"left over"}}
			h.Set(passed)
			if got := passed.Get(test.key); len(passed) != 1 || got != strings.TrimSpace(test.value) {
				t.Errorf("Set writes %v", passed)
			}
		})
	}
}

func (h *Headers) hasValue() bool {
	bare := *h
	bare.Faults = nil
	return bare.Present()
}

func TestHeaders_repeated(t *testing.T) {
	header := http.Header{
		HeaderContextID: {"ocp-a1b2c3d4"},
		HeaderAgentType: {"cli", "cli"},
		HeaderUser:      {"alice", "bob"},
	}
	h := ReadHeaders(header, ReadOptions{})
	want := []Fault{{Field: "OCP-Agent-Type", Reason: ReasonRepeated}, {Field: "OCP-User", Reason: ReasonRepeated}}
	if !slices.Equal(h.Faults, want) || h.ContextID == "" || h.Valid() {
		t.Errorf("got %+v, want %v", h, want)
	}
	h.DropIgnored(header)
	if len(header) != 1 {
		t.Errorf("left: %v", header)
	}
	DeleteHeaders(header)
	if len(header) != 0 {
		t.Errorf("left: %v", header)
	}
}

func TestHeaders_strict(t *testing.T) {
	for id, good := range map[string]bool{
		"ocp-a1b2c3d4": true, "ocp-a1b2c3d4e5f60718": true,
		"ocp-debug-123": false, "ocp-a1b2c3d": false, "ocp-A1B2C3D4": false, "a1b2c3d4": false,
		"ocp-" + strings.Repeat("a", 61): false,
	} {
		h := ReadHeaders(http.Header{HeaderContextID: {id}}, ReadOptions{Strict: true})
		if good != (h.ContextID == id) {
			t.Errorf("%s: got %q, %v", id, h.ContextID, h.Faults)
		}
	}
}

// TestHeaderKeys: each key is what net/http makes of the protocol's spelling.
func TestHeaderKeys(t *testing.T) {
	for _, h := range headerNames {
		if http.CanonicalHeaderKey(h.name) != h.key || HeaderName(h.key) != h.name {
			t.Errorf("%s is not the key of %s", h.key, h.name)
		}
	}
	if HeaderName("User") != "" {
		t.Error("any key has a name")
	}
}

// TestReason_message checks that each reason has a message, which Fault combines with the field and
// the detail.
func TestReason_message(t *testing.T) {
	for _, reason := range []Reason{
		ReasonRepeated, ReasonEmpty, ReasonTooLong, ReasonUTF8, ReasonControl, ReasonPattern, ReasonBase64, ReasonGzip,
		ReasonInflated, ReasonJSON, ReasonObject, ReasonDepth, ReasonMissing, ReasonType, ReasonTimestamp, ReasonURI,
		ReasonNegative, ReasonTooMany, ReasonUnknown, ReasonDisagrees,
	} {
		if messages[reason] == "" {
			t.Errorf("%s has no message", reason)
		}
	}
	if got, want := (Fault{"OCP-Session", ReasonBase64, "at character 3"}).Error(), "OCP-Session: Base64 3"; !testkit.ContainsAll(got, want) {
		t.Errorf("got %s, want the words %s", got, want)
	}
}

// FuzzReadHeaders: whatever comes, a header is taken as it keeps to its limits, or
// ignored for one reason.
func FuzzReadHeaders(f *testing.F) {
	f.Add("ocp-a1b2c3d4", "cli_tool", "a goal", "alice", "shop", "1.0", encoded(minimal))
	f.Add("", "\x00", "\xff", "a\nb", "目", "1", "gzip:")
	f.Fuzz(func(t *testing.T, id, agent, goal, user, workspace, version, session string) {
		header := http.Header{
			HeaderContextID: {id}, HeaderAgentType: {agent}, HeaderCurrentGoal: {goal}, HeaderUser: {user},
			HeaderWorkspace: {workspace}, HeaderVersion: {version}, HeaderSession: {session},
		}
		in := ReadIncoming(header, ReadOptions{})
		taken := 0
		for _, v := range []struct {
			value   string
			longest int
		}{
			{in.ContextID, 64}, {in.AgentType, 128}, {in.CurrentGoal, 256}, {in.User, 64}, {in.Workspace, 128}, {in.Version, 32},
		} {
			if v.value != "" {
				taken++
			}
			if utf8.RuneCountInString(v.value) > v.longest || !utf8.ValidString(v.value) || strings.ContainsAny(v.value, "\r\n\x00") {
				t.Errorf("%q was taken", v.value)
			}
		}
		if in.Session != nil {
			taken++
		}
		if taken+len(in.Faults) != len(headerNames) {
			t.Errorf("%d taken and %d ignored of %d", taken, len(in.Faults), len(headerNames))
		}
		if (in.Context() != nil) != in.Valid() {
			t.Error("a context without the required headers, or none with them")
		}
		in.DropIgnored(header)
		if len(header) != taken {
			t.Errorf("%d headers would be passed on of %d that are good", len(header), taken)
		}
	})
}

var plainFive = http.Header{
	"Accept":          {"*/*"},
	"User-Agent":      {"agent/1"},
	HeaderContextID:   {"ocp-a1b2c3d4"},
	HeaderAgentType:   {"ide_coding_assistant"},
	HeaderCurrentGoal: {"debug_payment_error"},
	HeaderUser:        {"alice"},
	HeaderWorkspace:   {"payment-service"},
}

func TestReadHeaders_allocates_nothing(t *testing.T) {
	none := http.Header{"Accept": {"*/*"}, "User-Agent": {"agent/1"}, "Content-Type": {"application/json"}}
	for name, header := range map[string]http.Header{"none": none, "five": plainFive} {
		got := testing.AllocsPerRun(100, func() {
			if h := ReadHeaders(header, ReadOptions{}); h.Valid() != (name == "five") {
				t.Error(name)
			}
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	if got := testing.AllocsPerRun(100, func() { _ = ReadIncoming(none, ReadOptions{}) }); got != 0 {
		t.Errorf("ReadIncoming: %v allocations without OCP headers", got)
	}
}

func BenchmarkReadHeaders(b *testing.B) {
	none := http.Header{
		"Accept": {"*/*"}, "User-Agent": {"agent/1"}, "Content-Type": {"application/json"}, "Content-Length": {"12"},
		"Accept-Encoding": {"gzip"}, "X-Request-Id": {"7"}, "Authorization": {"Bearer x"}, "Connection": {"keep-alive"}, "Cookie": {"a=b"},
	}
	session := http.Header{HeaderSession: {bigSession(b)}}
	maps.Copy(session, plainFive)
	for _, bench := range []struct {
		name   string
		header http.Header
	}{{"none", none}, {"five plain", plainFive}, {"session untouched", session}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = ReadIncoming(bench.header, ReadOptions{})
			}
		})
	}
	b.Run("session fields", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if ReadIncoming(session, ReadOptions{}).Session.Text("current_goal") == "" {
				b.Fatal("no goal")
			}
		}
	})
	b.Run("session cached", func(b *testing.B) {
		b.ReportAllocs()
		options := ReadOptions{Cache: new(SessionCache)}
		for b.Loop() {
			if in := ReadIncoming(session, options); len(in.Context().History) == 0 {
				b.Fatal(in.Judge())
			}
		}
	})
	b.Run("session decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if in := ReadIncoming(session, ReadOptions{}); len(in.Context().History) == 0 {
				b.Fatal(in.Judge())
			}
		}
	})
}
