package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCP_session_lasts wants sessions to go on where the storage or the secret is
// the same, and nowhere else.
func TestMCP_session_lasts(t *testing.T) {
	s := sitetest.NewSite(t)
	stored := filepath.Join(s.Dir, "storage", "fairway", "secret")
	block := "mcp /mcp TRIPS\nmcp /other TRIPS\nrespond ok"
	s.Start("", block)
	if _, err := os.Stat(stored); err == nil {
		t.Error("the secret was stored before there was a session")
	}
	session := s.Begin("/mcp")
	if info, err := os.Stat(stored); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the stored secret: %v, %v", info, err)
	}
	for name, step := range map[string]struct {
		path string
		want int
	}{
		"same endpoint":  {"/mcp", 200},
		"other endpoint": {"/other", 404},
	} {
		if status := sitetest.SessionsOf(s).Ping(step.path, session); status != step.want {
			t.Errorf("%s: status %d, want %d", name, status, step.want)
		}
	}
	for _, step := range []struct {
		name, block string
		want        int
	}{
		{"reload", "mcp /mcp TRIPS {\ninstructions new\n}\nrespond ok", 200},
		{"other secret", "mcp /mcp TRIPS {\nsecret 0123456789abcdef\n}\nrespond ok", 404},
		{"first secret", block, 200},
	} {
		if err := s.Load("", step.block); err != nil {
			t.Fatal(err)
		}
		if status := sitetest.SessionsOf(s).Ping("/mcp", session); status != step.want {
			t.Errorf("%s: status %d, want %d", step.name, status, step.want)
		}
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("", block); err != nil {
		t.Fatal(err)
	}
	if status := sitetest.SessionsOf(s).Ping("/mcp", session); status != 200 {
		t.Errorf("after a restart: status %d", status)
	}
}

// TestMCP_stream_notifies_of_document expects an open stream to notify of a document that
// changes, and to end with its configuration though Caddy waits for it.
func TestMCP_stream_notifies_of_document(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nmax_streams 1\n}\nrespond ok")
	r, err := http.NewRequest(http.MethodGet, s.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", s.Begin("/mcp"))
	ctx, giveUp := context.WithTimeout(t.Context(), testkit.Patience)
	defer giveUp()
	stream, err := sitetest.Client.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if a := s.Do(r); a.Status != http.StatusTooManyRequests {
		t.Errorf("one stream too many: %d %s", a.Status, a.Body)
	}

	s.Write("trips.yaml", sitetest.Trips+"  /stations:\n    get:\n      operationId: listStations\n      responses: {\"200\": {description: ok}}\n")
	s.Logged("loaded", "tools", `"tools":6`)
	// The log has the change before the stream does.
	reader, text := bufio.NewReader(stream.Body), ""
	for !strings.Contains(text, `"method":"notifications/tools/list_changed"`) {
		line, err := reader.ReadString('\n')
		if text += line; err != nil {
			t.Fatalf("the stream does not notify of the change: %v: %q", err, text)
		}
	}
	if err := s.Load("", "respond gone"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	if text += string(rest); err != nil || !strings.HasSuffix(text, "\n\n") {
		t.Errorf("the stream ended with %v: %q", err, text)
	}
}

// TestMCPVersions wants the revisions that are chosen, and no others.
func TestMCPVersions(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nversions 2025-06-18\nlist_ttl off\n}\nrespond ok")
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, nil)
	if !strings.Contains(a.Body, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("initialize: %s", a.Body)
	}
	r, err := http.NewRequest(http.MethodGet, s.URL+"/mcp/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if a := s.Do(r); a.Status != http.StatusMethodNotAllowed {
		t.Errorf("HTTP+SSE: %d %s", a.Status, a.Body)
	}
}

// TestMCP_output_schema wants schemas of answers where a handler asks for them, of
// its own document and of a toolset that others offer without.
func TestMCP_output_schema(t *testing.T) {
	s := sitetest.Run(t, "agents {\ntoolset trips TRIPS\n}", `
		mcp /plain trips
		mcp /loose trips {
			output_schema loose
		}
		mcp /strict TRIPS {
			output_schema strict
		}
		mcp /off TRIPS {
			output_schema off
		}
		respond ok`)
	for path, want := range map[string]bool{"/plain": false, "/loose": true, "/strict": true, "/off": false} {
		a := s.Post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-06-18"})
		if got := strings.Contains(a.Body, `"outputSchema"`); got != want || !strings.Contains(a.Body, "listTrips") {
			t.Errorf("%s: outputSchema %t, want %t: %s", path, got, want, a.Body)
		}
	}
}

// TestMCP_large_structure wants a warning, once, of an answer that is large for a
// model.
func TestMCP_large_structure(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\nheader Content-Type application/json\nrespond `{\"note\":\""+strings.Repeat("x", 11<<10)+"\"}`")
	for range 2 {
		s.Succeed("listTrips", "")
	}
	s.Logged(`"level":"warn"`, `"tool":"listTrips"`, `"size":11296`)
	if n := strings.Count(s.Log(), `"size":11296`); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}
