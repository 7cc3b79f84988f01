package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// reloadRevisions are those with sessions.
var reloadRevisions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// listMethods are the notifications of changed lists.
var listMethods = []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}

// reloadBlocks are two configurations with different tools, prompts and resources.
const (
	reloadBefore = "mcp /mcp TRIPS\nrespond ok"
	reloadAfter  = "mcp /mcp TRIPS {\nexclude operation listTrips\nresources get operation getTrip\nprompts DIR/prompts.yaml\n}\nrespond ok"
)

// wantLists checks how often a stream reported each changed list.
func wantLists(t *testing.T, what, text string, want int) {
	t.Helper()
	for _, method := range listMethods {
		if got := strings.Count(text, `"`+method+`"`); got != want {
			t.Errorf("%s: %d times %s, want %d, in %q", what, got, method, want, text)
		}
	}
}

func newReloadSite(t *testing.T) *sitetest.Site {
	s := sitetest.NewSite(t)
	s.Write("prompts.yaml", greeting+"hello\n")
	s.Start("", reloadBefore)
	return s
}

func reload(s *sitetest.Site, block string) {
	s.T.Helper()
	if err := s.Load("", block); err != nil {
		s.T.Fatal(err)
	}
}

// TestMCPReload_open_streams_tell_of_changed_lists wants each kind of stream to say
// once that the lists changed, before it ends, and the next stream of a session not to
// repeat it.
func TestMCPReload_open_streams_tell_of_changed_lists(t *testing.T) {
	s := newReloadSite(t)
	streams := make(map[string]*http.Response)
	sessions := make(map[string][]string)
	for _, revision := range reloadRevisions {
		sessions[revision] = sitetest.SessionsOf(s).BeginIn(revision, `{}`)
		streams[revision] = sitetest.StreamsOf(s).Open(http.MethodGet, "", sessions[revision]...)
	}
	streams["2026-07-28"] = sitetest.StreamsOf(s).ListenTo(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	streams["2024-11-05"], _ = openLegacyStream(s, "2024-11-05")

	reload(s, reloadAfter)
	for revision, stream := range streams {
		text := sitetest.Rest(s.T, stream)
		wantLists(t, revision, text, 1)
		if result := strings.Index(text, `"resultType":"complete"`); revision == "2026-07-28" && result < strings.Index(text, "resources/list_changed") {
			t.Errorf("the subscription ended before it reported the changes: %q", text)
		}
	}
	for revision, session := range sessions {
		streams[revision] = sitetest.StreamsOf(s).Open(http.MethodGet, "", session...)
	}
	reload(s, reloadAfter+"\n") // nothing changes
	for revision := range sessions {
		wantLists(t, revision+", reported before", sitetest.Rest(s.T, streams[revision]), 0)
	}
}

// openLegacyStream opens the stream of HTTP+SSE and initializes its connection. Target
// is where messages go.
func openLegacyStream(s *sitetest.Site, revision string) (stream *http.Response, target string) {
	s.T.Helper()
	stream = sitetest.StreamsOf(s).Open(http.MethodGet, "")
	lines := bufio.NewReader(stream.Body)
	for target == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.T.Fatal(err)
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			target = strings.TrimSpace(data)
		}
	}
	a := s.Post(target, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`, nil)
	if a.Status != http.StatusAccepted {
		s.T.Fatalf("initialize: %d %s", a.Status, a.Body)
	}
	for line := ""; !strings.Contains(line, `"protocolVersion"`); {
		var err error
		if line, err = lines.ReadString('\n'); err != nil {
			s.T.Fatal(err)
		}
	}
	stream.Body = struct {
		io.Reader
		io.Closer
	}{lines, stream.Body}
	return stream, target
}

// TestMCPReload_next_stream_notifies_of_changed_lists wants a session that had no stream
// at the reload to be notified once, on its next stream.
func TestMCPReload_next_stream_notifies_of_changed_lists(t *testing.T) {
	s := newReloadSite(t)
	sessions, streams := make(map[string][]string), make(map[string]*http.Response)
	for _, revision := range reloadRevisions {
		sessions[revision] = sitetest.SessionsOf(s).BeginIn(revision, `{}`)
	}
	for round, want := range []int{1, 0} {
		reload(s, reloadAfter+strings.Repeat("\n", round))
		for revision, session := range sessions {
			streams[revision] = sitetest.StreamsOf(s).Open(http.MethodGet, "", session...)
		}
		reload(s, reloadAfter+strings.Repeat("\n", 10+round))
		for revision := range sessions {
			wantLists(t, fmt.Sprintf("%s, stream %d", revision, round+1), sitetest.Rest(s.T, streams[revision]), want)
		}
	}
}

// TestMCPReload_unchanged_lists_are_not_notified wants silence where a reload changes
// nothing that clients see.
func TestMCPReload_unchanged_lists_are_not_notified(t *testing.T) {
	s := newReloadSite(t)
	legacy, _ := openLegacyStream(s, "2024-11-05")
	streams := []*http.Response{
		sitetest.StreamsOf(s).ListenTo(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`),
		legacy,
	}
	for _, revision := range reloadRevisions {
		streams = append(streams, sitetest.StreamsOf(s).Open(http.MethodGet, "", sitetest.SessionsOf(s).BeginIn(revision, `{}`)...))
	}
	reload(s, "mcp /mcp TRIPS {\nkeep_alive 10s\n}\nrespond ok")
	for i, stream := range streams {
		wantLists(t, fmt.Sprintf("stream %d", i), sitetest.Rest(s.T, stream), 0)
	}
}

// askingBlock has a tool with a non-inferrable argument.
const askingBlock = "mcp /mcp TRIPS {\nnon_inferrable id\n}\nrespond {path}"

const callAsking = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"getTrip","arguments":{}}}`

// answerTo returns the client's answer to an elicitation.
func answerTo(t *testing.T, question string) string {
	t.Helper()
	if !strings.Contains(question, `"elicitation/create"`) {
		t.Fatalf("not an elicitation: %s", question)
	}
	_, id, _ := strings.Cut(question, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return `{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"accept","content":{"id":"42"}}}`
}

// TestMCPReload_waits_for_an_elicitation wants a call that waits for its user to go on
// over a reload, and the answer to reach it by the next configuration.
func TestMCPReload_waits_for_an_elicitation(t *testing.T) {
	for grace, global := range map[string]string{"grace_period 1m": "grace_period 1m", "no grace_period": ""} {
		t.Run(grace, func(t *testing.T) {
			s := sitetest.Run(t, global, askingBlock)
			headers := append(sitetest.SessionsOf(s).BeginIn("2025-06-18", `{"elicitation":{}}`), "Content-Type", "application/json")
			session := map[string]string{"Mcp-Session-Id": headers[1], "MCP-Protocol-Version": headers[3]}
			call := bufio.NewReader(sitetest.StreamsOf(s).Open(http.MethodPost, callAsking, headers...).Body)
			question := sitetest.Message(s.T, call)
			if err := s.Load(global, askingBlock+"\n"); err != nil {
				t.Fatal(err)
			}
			if a := s.Post("/mcp", answerTo(t, question), session); a.Status != http.StatusAccepted {
				t.Errorf("the answer: %d %s", a.Status, a.Body)
			}
			if result := sitetest.Message(s.T, call); !strings.Contains(result, `"id":7,"result"`) || !strings.Contains(result, "/trips/42") {
				t.Errorf("got %s", result)
			}
		})
	}
	t.Run("HTTP+SSE", func(t *testing.T) {
		s := sitetest.Run(t, "", askingBlock)
		stream, target := openLegacyStream(s, "2025-06-18")
		s.Post(target, callAsking, nil)
		lines := bufio.NewReader(stream.Body)
		question := sitetest.Message(s.T, lines)
		reload(s, askingBlock+"\n")
		sitetest.Eventually(t, "no more requests on the old stream", func() bool {
			return s.Post(target, `{"jsonrpc":"2.0","id":8,"method":"ping"}`, nil).Status == http.StatusNotFound
		})
		if a := s.Post(target, answerTo(t, question), nil); a.Status != http.StatusAccepted {
			t.Errorf("the answer: %d %s", a.Status, a.Body)
		}
		if rest := sitetest.Rest(s.T, &http.Response{Body: io.NopCloser(lines)}); !strings.Contains(rest, `"id":7,"result"`) || !strings.Contains(rest, "/trips/42") {
			t.Errorf("got %s", rest)
		}
	})
	t.Run("canceled after the reload", func(t *testing.T) {
		s := sitetest.Run(t, "", askingBlock)
		headers := append(sitetest.SessionsOf(s).BeginIn("2025-06-18", `{"elicitation":{}}`), "Content-Type", "application/json")
		stream := sitetest.StreamsOf(s).Open(http.MethodPost, callAsking, headers...)
		sitetest.Message(s.T, bufio.NewReader(stream.Body))
		reload(s, askingBlock+"\n")
		s.Post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
			map[string]string{"Mcp-Session-Id": headers[1], "MCP-Protocol-Version": headers[3]})
		if rest := sitetest.Rest(s.T, stream); strings.Contains(rest, `"id":7,`) {
			t.Errorf("a canceled call was answered: %s", rest)
		}
	})
}

// TestMCPReload_gives_up_after_grace_period wants a call whose user does not answer to
// end with the grace period, and at once where no configuration can take the answer.
func TestMCPReload_gives_up_after_grace_period(t *testing.T) {
	for rule, next := range map[string]string{"reload": askingBlock + "\n", "endpoint removed": "respond gone"} {
		t.Run(rule, func(t *testing.T) {
			global := "grace_period 1s"
			if rule != "reload" {
				global = "grace_period 10m"
			}
			s := sitetest.Run(t, global, askingBlock)
			headers := append(sitetest.SessionsOf(s).BeginIn("2025-06-18", `{"elicitation":{}}`), "Content-Type", "application/json")
			stream := sitetest.StreamsOf(s).Open(http.MethodPost, callAsking, headers...)
			lines := bufio.NewReader(stream.Body)
			sitetest.Message(s.T, lines)
			if err := s.Load(global, next); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(lines)
			if err != nil || !strings.Contains(string(text), `"id":7,"result"`) || !strings.Contains(string(text), `"isError":true`) {
				t.Errorf("ended with %v: %s", err, text)
			}
		})
	}
}
