package mcpadapter

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

func TestOnlyPOST(t *testing.T) {
	for method, want := range map[string]int{
		"HEAD": 405, "PUT": 405, "PATCH": 405, "OPTIONS": 204,
	} {
		t.Run(method, func(t *testing.T) {
			w := httptest.NewRecorder()
			New(Options{}).ServeHTTP(w, httptest.NewRequest(method, "/mcp", nil), siteOf(trains(), echo))
			if w.Code != want || w.Header().Get("Allow") != "POST, GET, DELETE" {
				t.Errorf("status %d, Allow %q", w.Code, w.Header().Get("Allow"))
			}
			checkAnswer(t, w)
			if want == 405 && parse(t, w).ID != nil {
				t.Error("an id where nothing was read")
			}
		})
	}
}

func TestHead_of_request(t *testing.T) {
	for _, c := range []struct {
		rule   string
		header map[string]string
		want   int
	}{
		{"content-type/parameters", map[string]string{"Content-Type": "Application/JSON; charset=utf-8"}, 200},
		{"content-type/missing", map[string]string{"Content-Type": ""}, 415},
		{"content-type/other", map[string]string{"Content-Type": "text/plain"}, 415},
		{"content-type/lookalike", map[string]string{"Content-Type": "application/jsonx"}, 415},
		{"content-encoding/gzip", map[string]string{"Content-Encoding": "gzip"}, 415},
		{"content-encoding/identity", map[string]string{"Content-Encoding": "identity"}, 200},
		{"accept/missing", map[string]string{"Accept": ""}, 200},
		{"accept/any", map[string]string{"Accept": "*/*"}, 200},
		{"accept/range", map[string]string{"Accept": "text/html, application/*;q=0.1"}, 200},
		{"accept/json", map[string]string{"Accept": "application/json"}, 200},
		{"accept/stream-only", map[string]string{"Accept": "text/event-stream"}, 406},
		{"accept/weight-zero", map[string]string{"Accept": "text/event-stream, application/json;q=0.0"}, 406},
		{"origin/absent", nil, 200},
		{"origin/own", map[string]string{"Origin": "http://api.example.com"}, 200},
		{"origin/own-tls", map[string]string{"Origin": "https://API.example.com"}, 200},
		{"origin/own-default-port", map[string]string{"Origin": "https://api.example.com:443"}, 200},
		{"origin/own-other-port", map[string]string{"Origin": "https://api.example.com:8443"}, 403},
		{"origin/foreign", map[string]string{"Origin": "https://evil.example"}, 403},
		{"origin/suffix", map[string]string{"Origin": "https://api.example.com.evil.example"}, 403},
		{"origin/null", map[string]string{"Origin": "null"}, 403},
		{"origin/garbage", map[string]string{"Origin": "::::"}, 403},
		{"origin/allowed", map[string]string{"Origin": "https://app.example.com"}, 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := conformant(protocol.V20251125, "ping", "")
			r.server = New(Options{AllowedOrigins: []string{"https://App.example.com/"}})
			r.header = c.header
			w := r.Send(t)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if c.want != 200 && parse(t, w).Error.Message == "" {
				t.Error("no reason given")
			}
			if c.want == 403 && parse(t, w).ID != nil {
				t.Error("a 403 has no id")
			}
		})
	}
}

func TestTwo_origins_are_refused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", strings.NewReader("{}"))
	r.Header["Origin"] = []string{"http://api.example.com", "http://evil.example"}
	w := httptest.NewRecorder()
	New(Options{}).ServeHTTP(w, r, siteOf(trains(), echo))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

func TestDNSRebinding(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	loopback6 := &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	outside := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080}
	for _, c := range []struct {
		rule  string
		local net.Addr
		host  string
		allow []string
		want  int
	}{
		{"loopback/localhost", loopback, "localhost:8080", nil, 200},
		{"loopback/address", loopback, "127.0.0.1:8080", nil, 200},
		{"loopback/ipv6", loopback6, "[::1]:8080", nil, 200},
		{"loopback/subdomain", loopback, "api.localhost", nil, 200},
		{"loopback/foreign", loopback, "evil.example", nil, 403},
		{"loopback6/foreign", loopback6, "evil.example:8080", nil, 403},
		{"loopback/lookalike", loopback, "localhost.evil.example", nil, 403},
		{"loopback/allowed", loopback, "API.example.com:8080", []string{"api.example.com"}, 200},
		{"loopback/all-allowed", loopback, "evil.example", []string{"*"}, 200},
		{"outside/any", outside, "api.example.com", nil, 200},
		{"no page, behind a proxy on this machine", loopback, "api.example.com", nil, 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			r.Host = c.host
			r.Header.Set("Content-Type", "application/json")
			if !strings.HasPrefix(c.rule, "no page") {
				r.Header.Set("Origin", "http://"+c.host) // the attacker's page agrees with the name
			}
			w := httptest.NewRecorder()
			ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, c.local)
			New(Options{AllowedHosts: c.allow}).ServeHTTP(w, r.WithContext(ctx), siteOf(trains(), echo))
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

func TestBodyLimit(t *testing.T) {
	const limit = 1000
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		rule     string
		size     int
		declared bool
		want     int
	}{
		{"exact/declared", limit, true, 200},
		{"exact/chunked", limit, false, 200},
		{"over/declared", limit + 1, true, 413},
		{"over/chunked", limit + 1, false, 413},
		{"far-over/chunked", 1 << 20, false, 413},
	} {
		t.Run(c.rule, func(t *testing.T) {
			body := &counted{r: strings.NewReader(ping + strings.Repeat(" ", c.size-len(ping)))}
			r := httptest.NewRequest(http.MethodPost, "/mcp", body)
			r.ContentLength = -1
			if c.declared {
				r.ContentLength = int64(c.size)
			}
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			New(Options{MaxBody: limit}).ServeHTTP(w, r, siteOf(trains(), echo))
			checkAnswer(t, w)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if c.want == 413 && !strings.Contains(w.Body.String(), "1000 bytes") {
				t.Errorf("the limit is not in the message: %s", w.Body)
			}
			if c.want == 413 && c.declared && body.read > 0 {
				t.Errorf("%d bytes read of a body that is refused", body.read)
			}
			if body.read > 64<<10 {
				t.Errorf("%d bytes read for a limit of %d", body.read, limit)
			}
		})
	}
}

type counted struct {
	r    io.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += n
	return n, err
}

func TestBrokenBody(t *testing.T) {
	for rule, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"client-leaves":  {io.MultiReader(strings.NewReader(`{"jsonrpc"`), failing{io.ErrUnexpectedEOF}), 400},
		"limit-in-front": {failing{&http.MaxBytesError{Limit: 10}}, 413},
	} {
		t.Run(rule, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/mcp", c.body)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			New(Options{}).ServeHTTP(w, r, siteOf(trains(), echo))
			checkAnswer(t, w)
			if w.Code != c.want {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Revisions before 2025-11-25 require the id of the request in each error, also if the request is refused by its headers.
// Later ones want none in these errors.
func TestRefusal_before_the_message_has_its_id(t *testing.T) {
	foreign := map[string]string{"Origin": "https://evil.example"}
	lost := map[string]string{sessionHeader: "lost"}
	for rule, c := range map[string]struct {
		path   string
		header map[string]string
		status int
	}{
		"foreign origin":  {"/mcp", foreign, 403},
		"unknown session": {"/mcp", lost, 404},
		"media type":      {"/mcp", map[string]string{"Content-Type": "text/plain"}, 415},
		"accepts no JSON": {"/mcp", map[string]string{"Accept": "text/html"}, 406},
		"unknown path":    {"/mcp/other", nil, 404},
		"unknown stream":  {"/mcp/message?sessionId=lost", nil, 404},
		"no stream":       {"/mcp/message", nil, 400},
	} {
		for body, id := range map[string]string{
			`{"jsonrpc":"2.0","id":"q","method":"tools/list"}`: `"q"`,
			`{"jsonrpc":"2.0","method":"tools/list","id":`:     "null",
		} {
			for _, v := range []protocol.Revision{protocol.V20250326, protocol.V20250618, protocol.V20251125} {
				e := serveEndpoint(t, Options{}, echo)
				header := map[string]string{versionHeader: v.String()}
				maps.Copy(header, c.header)
				response := e.do(t, "POST", c.path, body, header)
				text, _ := io.ReadAll(response.Body)
				want := `{"jsonrpc":"2.0","id":` + id + `,"error"`
				if v.OmitsUnreadID() {
					want = `{"jsonrpc":"2.0","error"`
				}
				if response.StatusCode != c.status || !strings.HasPrefix(string(text), want) {
					t.Errorf("%s, %v: status %d, %s, want %d, %s", rule, v, response.StatusCode, text, c.status, want)
				}
			}
		}
	}
}
