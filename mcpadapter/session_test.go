package mcpadapter

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

var secret = []byte("a secret that two servers share")

// begin initializes and returns the session's id.
func begin(t *testing.T, s *Server, v protocol.Revision) string {
	t.Helper()
	r := conformant(protocol.Unknown, "initialize", `"protocolVersion":"`+v.String()+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`)
	r.server = s
	return r.Send(t).Header().Get(sessionHeader)
}

func TestSession_of_request(t *testing.T) {
	first, second := New(Options{Secrets: FixedSecrets(secret)}), New(Options{Secrets: FixedSecrets(secret)})
	id := begin(t, first, protocol.V20250618)
	for rule, c := range map[string]struct {
		server *Server
		id     string
		status int
		code   int
	}{
		"same-server":  {first, id, 200, 0},
		"other-server": {second, id, 200, 0},
		"foreign":      {New(Options{}), id, 404, protocol.SessionNotFound},
		"garbage":      {first, "garbage", 404, protocol.SessionNotFound},
		"none":         {first, "", 200, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			r := conformant(protocol.V20250618, "tools/list", "")
			r.server, r.header[sessionHeader] = c.server, c.id
			r.fault(t, c.status, c.code)
		})
	}
	t.Run("settles-the-revision", func(t *testing.T) {
		r := conformant(protocol.Unknown, "tools/list", "")
		r.server, r.header[sessionHeader] = first, id
		if w := r.Send(t); !strings.Contains(w.Body.String(), `"title":"Get a trip"`) {
			t.Errorf("not listed as in 2025-06-18: %s", w.Body)
		}
	})
	t.Run("sent-twice", func(t *testing.T) {
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, versionHeader: {protocol.V20250618.String()}, sessionHeader: {id, id}}
		w := httptest.NewRecorder()
		first.ServeHTTP(w, r, siteOf(trains(), echo))
		if w.Code != 400 || !strings.Contains(w.Body.String(), sessionHeader+" is sent 2 times") {
			t.Errorf("got %d %s, want 400 that names the header", w.Code, w.Body)
		}
	})
	t.Run("not-in-2026-07-28", func(t *testing.T) {
		r := conformant(protocol.V20260728, "tools/list", "")
		r.server, r.header[sessionHeader] = first, "garbage"
		r.fault(t, 200, 0)
	})
}

// TestSession_header_of_another_revision checks that a session keeps its revision if a header names another
// one that the server supports, and that one that it does not support is refused.
func TestSession_header_of_another_revision(t *testing.T) {
	for _, begun := range revisions {
		for _, sent := range revisions {
			if begun.Stateless() || sent.Stateless() { // which have no sessions
				continue
			}
			t.Run(begun.String()+" with "+sent.String(), func(t *testing.T) {
				e := serveEndpoint(t, Options{}, echo)
				header := map[string]string{sessionHeader: begin(t, e.server, begun), versionHeader: "1999-01-01"}
				if response := e.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header); response.StatusCode != 400 {
					t.Errorf("an unknown revision: status %d, want 400", response.StatusCode)
				}
				header[versionHeader] = sent.String()
				for _, c := range []struct {
					method string
					want   int
				}{{"POST", 200}, {"GET", 200}, {"DELETE", 204}} {
					if response := e.do(t, c.method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header); response.StatusCode != c.want {
						t.Errorf("%s: status %d, want %d", c.method, response.StatusCode, c.want)
					}
				}
			})
		}
	}
}

func TestSessionEnds(t *testing.T) {
	s := New(Options{})
	id := begin(t, s, protocol.V20251125)
	remove := func(id string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
		if id != "" {
			r.Header.Set(sessionHeader, id)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r, siteOf(trains(), echo))
		return w
	}
	if w := remove(""); w.Code != 400 {
		t.Errorf("DELETE without a session: %d %s", w.Code, w.Body)
	}
	if w := remove("garbage"); w.Code != 404 {
		t.Errorf("DELETE of an unknown one: %d %s", w.Code, w.Body)
	}
	if w := remove(id); w.Code != 204 || w.Body.Len() > 0 {
		t.Errorf("DELETE: %d %s", w.Code, w.Body)
	}
	if w := remove(id); w.Code != 404 {
		t.Errorf("a second DELETE: %d %s", w.Code, w.Body)
	}
	r := conformant(protocol.V20251125, "tools/list", "")
	r.server, r.header[sessionHeader] = s, id
	r.fault(t, 404, protocol.SessionNotFound)
	if n := s.memory.lives.Len(); n != 0 {
		t.Errorf("%d sessions are remembered", n)
	}
}

func TestSessionExpires(t *testing.T) {
	s := New(Options{SessionTTL: time.Nanosecond})
	r := conformant(protocol.V20251125, "tools/list", "")
	r.server, r.header[sessionHeader] = s, begin(t, s, protocol.V20251125)
	r.fault(t, 404, protocol.SessionNotFound)
}

func TestVersions_are_limited(t *testing.T) {
	s := New(Options{Versions: []string{"2025-11-25", "2025-06-18"}})
	for _, v := range revisions {
		r := conformant(v, "tools/list", "")
		r.server = s
		switch v {
		case protocol.V20250618, protocol.V20251125:
			r.fault(t, 200, 0)
		case protocol.V20260728:
			r.fault(t, 400, protocol.UnsupportedVersion)
		default:
			r.fault(t, 400, protocol.UnsupportedVersion)
		}
	}
	w := httptest.NewRecorder()
	get := httptest.NewRequest(http.MethodGet, "/mcp/sse", nil)
	get.Header.Set("Accept", "text/event-stream")
	site := siteOf(trains(), echo)
	site.Rest = "/sse"
	if s.ServeHTTP(w, get, site); w.Code != 405 {
		t.Errorf("HTTP+SSE: %d %s", w.Code, w.Body)
	}
	newest := New(Options{Versions: []string{"2026-07-28"}})
	r := conformant(protocol.Unknown, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	r.server = newest
	r.fault(t, 400, protocol.UnsupportedVersion)
}

// A stream is part of its session and ends with it, so that its client begins anew.
func TestStream_ends_with_its_session(t *testing.T) {
	tools := trains()
	site := siteOf(tools, echo)
	h := httpExchange{exchange: exchange{
		server: New(Options{}), site: &site, tools: tools, ctx: t.Context(), terms: protocol.Terms{Version: protocol.V20251125}, response: response{out: bufferOf()},
		client: client{session: &session.Session{Version: protocol.V20251125, Expires: time.Now().Add(-time.Second)}},
	}}
	if f := h.serveStream(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/mcp", nil)); f != nil {
		t.Errorf("refused: %v", f.Message)
	}
	t.Run("HTTP+SSE", func(t *testing.T) {
		e := serveEndpoint(t, Options{SessionTTL: 2 * time.Second}, echo)
		stream := e.open(t, "GET", "/mcp/sse", "", map[string]string{"Accept": "text/event-stream"})
		stream.ends()
	})
}
