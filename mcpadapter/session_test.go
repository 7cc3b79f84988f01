package mcpadapter

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

var secret = []byte("a secret that two servers share")

// begin initializes and returns the session's id.
func begin(t *testing.T, s *Server, v revision.Revision) string {
	t.Helper()
	r := conformant(revision.Unknown, "initialize", `"protocolVersion":"`+v.String()+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`)
	r.server = s
	return r.Send(t).Header().Get(sessionHeader)
}

func TestSessionOfRequest(t *testing.T) {
	first, second := New(Options{Secret: secret}), New(Options{Secret: secret})
	id := begin(t, first, revision.V20250618)
	for rule, c := range map[string]struct {
		server *Server
		id     string
		status int
		code   int
	}{
		"same-server":  {first, id, 200, 0},
		"other-server": {second, id, 200, 0},
		"foreign":      {New(Options{}), id, 404, jsonrpc.SessionNotFound},
		"garbage":      {first, "garbage", 404, jsonrpc.SessionNotFound},
		"none":         {first, "", 200, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			r := conformant(revision.V20250618, "tools/list", "")
			r.server, r.header[sessionHeader] = c.server, c.id
			r.fault(t, c.status, c.code)
		})
	}
	t.Run("settles-the-revision", func(t *testing.T) {
		r := conformant(revision.Unknown, "tools/list", "")
		r.server, r.header[sessionHeader] = first, id
		if w := r.Send(t); !strings.Contains(w.Body.String(), `"title":"Get a trip"`) {
			t.Errorf("not listed as in 2025-06-18: %s", w.Body)
		}
	})
	t.Run("not-in-2026-07-28", func(t *testing.T) {
		r := conformant(revision.V20260728, "tools/list", "")
		r.server, r.header[sessionHeader] = first, "garbage"
		r.fault(t, 200, 0)
	})
}

func TestSession_header_of_another_revision_is_refused(t *testing.T) {
	for _, begun := range revisions {
		for _, sent := range revisions {
			if begun.Stateless() || sent.Stateless() { // which have no sessions
				continue
			}
			t.Run(begun.String()+" with "+sent.String(), func(t *testing.T) {
				e := serveEndpoint(t, Options{}, echo)
				header := map[string]string{sessionHeader: begin(t, e.server, begun), versionHeader: sent.String()}
				for _, c := range []struct {
					method string
					want   int
				}{{"POST", 200}, {"GET", 200}, {"DELETE", 204}} {
					method, want := c.method, c.want
					if begun != sent {
						want = 400
					}
					response := e.do(t, method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header)
					if response.StatusCode != want {
						t.Errorf("%s: status %d, want %d", method, response.StatusCode, want)
					}
				}
			})
		}
	}
}

func TestSessionEnds(t *testing.T) {
	s := New(Options{})
	id := begin(t, s, revision.V20251125)
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
	r := conformant(revision.V20251125, "tools/list", "")
	r.server, r.header[sessionHeader] = s, id
	r.fault(t, 404, jsonrpc.SessionNotFound)
	if n := s.states.Len(); n != 0 {
		t.Errorf("%d sessions are remembered", n)
	}
}

func TestSessionExpires(t *testing.T) {
	s := New(Options{SessionTTL: time.Nanosecond})
	r := conformant(revision.V20251125, "tools/list", "")
	r.server, r.header[sessionHeader] = s, begin(t, s, revision.V20251125)
	r.fault(t, 404, jsonrpc.SessionNotFound)
}

func TestVersionsAreLimited(t *testing.T) {
	s := New(Options{Versions: []string{"2025-11-25", "2025-06-18"}})
	for _, v := range revisions {
		r := conformant(v, "tools/list", "")
		r.server = s
		switch v {
		case revision.V20250618, revision.V20251125:
			r.fault(t, 200, 0)
		case revision.V20260728:
			r.fault(t, 400, jsonrpc.UnsupportedVersion)
		default:
			r.fault(t, 400, jsonrpc.UnsupportedVersion)
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
	r := conformant(revision.Unknown, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	r.server = newest
	r.fault(t, 400, jsonrpc.UnsupportedVersion)
}

// A stream is part of its session and ends with it, so that its client begins anew.
func TestStreamEndsWithItsSession(t *testing.T) {
	tools := trains()
	site := siteOf(tools, echo)
	h := httpExchange{exchange: exchange{message: message{
		server: New(Options{}), site: &site, tools: tools, ctx: t.Context(), version: revision.V20251125, out: bufferOf(),
		peer: peer{session: &session.Session{Version: revision.V20251125, Expires: time.Now().Add(-time.Second)}},
	}}}
	if f := h.serveStream(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/mcp", nil)); f != nil {
		t.Errorf("refused: %v", f.Message)
	}
	t.Run("HTTP+SSE", func(t *testing.T) {
		e := serveEndpoint(t, Options{SessionTTL: 2 * time.Second}, echo)
		stream := e.open(t, "GET", "/mcp/sse", "", map[string]string{"Accept": "text/event-stream"})
		stream.ends()
	})
}
