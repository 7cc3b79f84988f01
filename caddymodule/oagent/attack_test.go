package oagent_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_no_bypass_on_the_wire requests a forbidden operation in requests that no
// good client sends.
func TestOAgent_no_bypass_on_the_wire(t *testing.T) {
	var reached atomic.Int64
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n  create-trip: {user_identity: false, input_restriction: {assertion: recent.create-trip.inputs.to == \"Bern\"}}\n"),
		"", func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			sitetest.Echo(w, r)
		})
	host := strings.TrimPrefix(s.URL, "http://")
	const zug = `{"to":"Zug"}`
	line := func(line string) string { return sitetest.RawRequest(line, "", "") }
	list := func(headers string) string { return sitetest.RawRequest("GET /trips HTTP/1.1", headers, "") }
	for name, raw := range map[string]string{
		"an absolute target":              line("DELETE http://127.0.0.1/trips/1 HTTP/1.1"),
		"an absolute target with a port":  line("DELETE http://" + host + "/trips/1 HTTP/1.1"),
		"an absolute target of a user":    line("DELETE http://u:p@127.0.0.1/trips/1 HTTP/1.1"),
		"an absolute target in TLS":       line("DELETE https://127.0.0.1/trips/1 HTTP/1.1"),
		"an absolute target twice":        line("DELETE http://127.0.0.1/http://127.0.0.1/trips/1 HTTP/1.1"),
		"an absolute target elsewhere":    line("DELETE http://example.com/trips/1 HTTP/1.1"),
		"an authority":                    line("CONNECT 127.0.0.1:80 HTTP/1.1"),
		"an asterisk":                     line("OPTIONS * HTTP/1.1"),
		"no slash":                        line("DELETE trips/1 HTTP/1.1"),
		"an opaque target":                line("DELETE http:trips/1 HTTP/1.1"),
		"a fragment":                      line("DELETE /trips/1#/x HTTP/1.1"),
		"a fragment behind a good path":   line("DELETE /trips#/1 HTTP/1.1"),
		"a space in the target":           line("GET /trips /1 HTTP/1.1"),
		"HTTP/1.0":                        line("DELETE /trips/1 HTTP/1.0"),
		"HTTP/0.9":                        "DELETE /trips/1\r\n\r\n" + sitetest.Unfinished,
		"an encoded dot":                  line("GET /trips/%2e HTTP/1.1"),
		"encoded dots to another":         line("GET /trips/1/%2e%2e/2 HTTP/1.1"),
		"dots encoded twice":              line("GET /x/%252e%252e/trips/1 HTTP/1.1"),
		"dots in a parameter":             line("GET /trips/..;/trips/1 HTTP/1.1"),
		"an encoded semicolon":            line("GET /trips%3bx/1 HTTP/1.1"),
		"an encoded question mark":        line("GET /trips%3f/1 HTTP/1.1"),
		"an encoded hash":                 line("GET /trips%23/1 HTTP/1.1"),
		"an encoded digit":                line("GET /trips/%31 HTTP/1.1"),
		"an encoded letter of the list":   line("GET /%74rips HTTP/1.1"),
		"a null byte at the end":          line("GET /trips%00 HTTP/1.1"),
		"no UTF-8":                        line("GET /trips/%ff HTTP/1.1"),
		"no UTF-8, as it is":              line("GET /trips/\xff HTTP/1.1"),
		"an overlong slash":               line("GET /trips%c0%af1 HTTP/1.1"),
		"a wide letter":                   line("GET /%ef%bd%94rips HTTP/1.1"),
		"a long s":                        line("GET /trip%c5%bf HTTP/1.1"),
		"half an escape":                  line("GET /trips%2 HTTP/1.1"),
		"an escape of IIS":                line("GET /%u0074rips/1 HTTP/1.1"),
		"a tab":                           line("GET /trips%09 HTTP/1.1"),
		"a line in the path":              line("GET /trips%0d%0aX:%20y HTTP/1.1"),
		"a slash at the end, encoded":     line("GET /trips%2f HTTP/1.1"),
		"a backslash":                     line(`GET \trips\1 HTTP/1.1`),
		"a line that is folded":           list("X-A: b\r\n X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method-Override: DELETE\r\n"),
		"an override with a space":        list("X-HTTP-Method-Override : DELETE\r\n"),
		"an override in odd case":         list("x-hTTp-mETHOD-oVERRIDE: DELETE\r\n"),
		"an override twice":               list("X-HTTP-Method-Override: GET\r\nX-HTTP-Method-Override: DELETE\r\n"),
		"an override in the query":        line("GET /trips?X-HTTP-Method-Override=DELETE HTTP/1.1"),
		"an encoded override":             line("GET /trips?%5fmethod=DELETE HTTP/1.1"),
		"another path in a header":        list("X-Original-URL: /trips/1\r\n"),
		"another path rewritten":          list("X-Rewrite-URL: /trips/1\r\n"),
		"a name of the script":            list("Script-Name: /trips/1\r\n"),
		"an upgrade to HTTP/2":            strings.Replace(list("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), "Connection: close", "Connection: Upgrade, HTTP2-Settings", 1) + sitetest.Unfinished,
		"a HEAD of the list":              line("HEAD /trips HTTP/1.1"),
		"a HEAD of another":               line("HEAD /trips/1 HTTP/1.1"),
		"a body in a form":                sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/x-www-form-urlencoded\r\n", "to=Bern&to=Zug"),
		"a body of another type":          sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: text/plain\r\n", zug),
		"a body of two types":             sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\nContent-Type: text/plain\r\n", zug),
		"a body in another character set": sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json; charset=utf-7\r\n", `{"to":"Bern","+AHQ-o":"Zug"}`),
		"a compressed body":               sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", sitetest.Gzipped(t, zug)),
		"a body with a name twice":        sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\n", `{"to":"Bern","\u0074o":"Zug"}`),
		"a body with another case":        sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\n", `{"to":"Bern","To":"Zug"}`),
		"a length and chunks":             sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(zug), zug)),
		"chunks that are said oddly":      sitetest.RawRequest("POST /trips HTTP/1.1", "Content-Type: application/json\r\nTransfer-Encoding: xchunked\r\n", zug),
		"a request behind a request":      sitetest.RawRequest("GET /trips HTTP/1.1", "Content-Length: 0, 30\r\n", "DELETE /trips/1 HTTP/1.1\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			before := reached.Load()
			answer := s.Wire(raw)
			if n := reached.Load() - before; n != 0 {
				t.Errorf("the API was called %d times: %.2000s", n, answer)
			}
		})
	}
	for name, test := range map[string]struct{ raw, want string }{
		"plain":                {list(""), `"uri":"/trips"`},
		"another host":         {strings.Replace(list(""), "Host: 127.0.0.1", "Host: "+host, 1), `"uri":"/trips"`},
		"an absolute target":   {line("GET http://127.0.0.1/trips HTTP/1.1"), `"uri":"/trips"`},
		"a port of one's own":  {strings.Replace(list(""), "Host: 127.0.0.1", "Host: 127.0.0.1:1", 1), `"uri":"/trips"`},
		"a header with _":      {list("X_HTTP_METHOD_OVERRIDE: DELETE\r\nX_Original_URL: /trips/1\r\n"), `"header":{"Accept-Encoding":["identity"],"Via"`}, // without it
		"a prefix of a header": {list("X-Forwarded-Prefix: /trips/1\r\n"), `"uri":"/trips"`},
	} {
		t.Run("passes/"+name, func(t *testing.T) {
			if answer := s.With(t).Wire(test.raw); !testkit.ContainsAll(answer, test.want) {
				t.Error(answer)
			}
		})
	}
}

// TestOAgent_no_bypass_by_protocol calls a forbidden tool in every way that there is to
// call one.
func TestOAgent_no_bypass_by_protocol(t *testing.T) {
	var reached atomic.Int64
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"), "", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/trips" {
			reached.Add(1)
		}
		_, _ = io.WriteString(w, "fine")
	})
	message := func(id int, tool, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"id":"1"}%s}}`, id, tool, meta)
	}
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	mcp := func(header map[string]string, body string) func(*sitetest.Site) string {
		return func(s *sitetest.Site) string { return s.Post("/mcp", body, header).Body }
	}
	session := s.Begin("/mcp")
	otc := func(path, body string) func(*sitetest.Site) string {
		return func(s *sitetest.Site) string { return s.Request("POST", path, body).Body }
	}
	for name, call := range map[string]func(*sitetest.Site) string{
		"mcp/2025-03-26":        mcp(map[string]string{"MCP-Protocol-Version": "2025-03-26"}, message(1, "deleteTrip", "")),
		"mcp/2025-03-26, batch": mcp(map[string]string{"MCP-Protocol-Version": "2025-03-26"}, "["+message(1, "listTrips", "")+","+message(2, "deleteTrip", "")+"]"),
		"mcp/2025-06-18":        mcp(map[string]string{"MCP-Protocol-Version": "2025-06-18"}, message(1, "deleteTrip", "")),
		"mcp/2025-11-25":        mcp(map[string]string{"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session}, message(1, "deleteTrip", "")),
		"mcp/2026-07-28": mcp(map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "deleteTrip"},
			message(1, "deleteTrip", meta)),
		"mcp/2026-07-28, of another name": mcp(map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "listTrips"},
			message(1, "deleteTrip", meta)),
		"mcp/no version":      mcp(nil, message(1, "deleteTrip", "")),
		"mcp/2024-11-05, SSE": func(s *sitetest.Site) string { return callSSE(s, message(1, "deleteTrip", "")) },
		"otc":                 otc("/otc/call", `{"request":{"tool_id":"Trips.deleteTrip","input":{"id":"1"}}}`),
		"otc/with a version":  otc("/otc/call", `{"request":{"tool_id":"Trips.deleteTrip@1.2.3","input":{"id":"1"}}}`),
		"otc/OXP":             otc("/otc/tools/call", `{"request":{"tool_id":"Trips.deleteTrip","input":{"id":"1"}}}`),
		"http":                func(s *sitetest.Site) string { return s.Request("DELETE", "/trips/1", "").Body },
	} {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			if answer := call(s); !strings.Contains(answer, "capability") && !strings.Contains(answer, "Mcp-Name") {
				t.Error(answer)
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("the API was called %d times", n)
			}
		})
	}
}

// callSSE sends a message over HTTP+SSE, the transport of 2024-11-05, and returns
// what answers it.
func callSSE(s *sitetest.Site, message string) string {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, s.URL+"/mcp/sse", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	stream, err := sitetest.Client.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	next := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return text
			}
		}
		s.T.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
	endpoint := next()
	s.Post(endpoint, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
	next()
	s.Post(endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	s.Post(endpoint, message, nil)
	return next()
}

// TestOAgent_review_over_reload loads another configuration while a client waits for
// a review: it gets its answer, or a refusal, and the call is made once at most.
func TestOAgent_review_over_reload(t *testing.T) {
	for name, test := range map[string]struct {
		wait, store string // review_wait before; the store after
		block       string
		made        bool
	}{
		"the same":            {"5m", "store.db", reviewedBlock("5m"), true},
		"another review_wait": {"5m", "store.db", reviewedBlock("off"), true},
		"another store":       {"5m", "other.db", reviewedBlock("off"), false},
		"no guard at all":     {"6s", "store.db", "respond gone 410", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, reached := reviewSite(t)
			s.Start(reviewGlobal("store.db"), s.behind(reviewedBlock(test.wait)))
			var waited sitetest.Response
			var group sync.WaitGroup
			group.Go(func() { waited = s.createBern() })
			review := s.firstReview()
			const waiting = "oagent.(*Handler).guardRequest" // in the stack of a call that waits
			if !strings.Contains(sitetest.Goroutines(), waiting) {
				t.Fatalf("no goroutine runs %s", waiting)
			}
			if err := s.Load(reviewGlobal(test.store), s.behind(test.block)); err != nil {
				t.Fatal(err)
			}
			s.approve(review)
			group.Wait()
			switch {
			case test.made && (waited.Status != 200 || waited.Body != "made" || reached.Load() != 1):
				t.Errorf("who waited got %+v; the API was called %d times", waited, reached.Load())
			case !test.made && (waited.Status < 400 || reached.Load() != 0):
				t.Errorf("who waited got %+v; the API was called %d times", waited, reached.Load())
			}
			sitetest.Eventually(t, "the end of the goroutines", func() bool { return !strings.Contains(sitetest.Goroutines(), waiting) })
		})
	}
}

// TestOAgent_approval_over_reload loads configurations between the call, its review
// and its repetition: it passes once.
func TestOAgent_approval_over_reload(t *testing.T) {
	s, reached := reviewSite(t)
	s.Start(reviewGlobal("store.db"), s.behind(reviewedBlock("off")))
	reload := func(wait string) {
		if err := s.Load(reviewGlobal("store.db"), s.behind(reviewedBlock(wait))); err != nil {
			t.Fatal(err)
		}
	}
	if p := s.Problem(s.createBern()); p.Kind != "review_pending" {
		t.Fatalf("%+v", p)
	}
	reload("1ms")
	if p := s.Problem(s.createBern()); p.Kind != "review_pending" {
		t.Errorf("after a reload: %+v", p)
	}
	s.approve(s.firstReview())
	reload("off")
	if a := s.createBern(); a.Status != 200 || a.Body != "made" {
		t.Errorf("approved: %+v", a)
	}
	reload("1ms")
	if p := s.Problem(s.createBern()); p.Kind != "review_pending" || reached.Load() != 1 {
		t.Errorf("once more: %+v; the API was called %d times", p, reached.Load())
	}
}

// reviewSite is a site whose agent has boss decide about new trips.
func reviewSite(t *testing.T) (s *reviewing, reached *atomic.Int64) {
	s = &reviewing{Site: sitetest.NewSite(t)}
	reached = new(atomic.Int64)
	s.api = sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = io.WriteString(w, "made")
	})
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  create-trip: {input_restriction: {require_review: boss}}\n"))
	return s, reached
}

type reviewing struct {
	*sitetest.Site
	api string
}

func reviewGlobal(store string) string {
	return "agents {\n\tstore bolt DIR/" + store + "\n\ttoolset trips TRIPS\n}\norder test_user first"
}

func reviewedBlock(wait string) string {
	return "test_user\noagent DIR/agent.yaml {\ntoolset trips\nreview_wait " + wait + "\nreviews /reviews\n}\nreverse_proxy API"
}

func (s *reviewing) behind(block string) string { return strings.ReplaceAll(block, "API", s.api) }

func (s *reviewing) createBern() sitetest.Response {
	return s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada")
}

// firstReview waits for a review, and returns its id.
func (s *reviewing) firstReview() (id string) {
	s.T.Helper()
	sitetest.Eventually(s.T, "the review", func() bool {
		_, after, found := strings.Cut(s.Request("GET", "/reviews", "", "X-Test-User", "boss").Body, `"id":"`)
		id, _, _ = strings.Cut(after, `"`)
		return found
	})
	return id
}

func (s *reviewing) approve(id string) {
	s.Request("POST", "/reviews/"+id, `{"decision":"approve"}`, "X-Test-User", "boss")
}
