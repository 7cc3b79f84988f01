package client

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// oldSSE is a server of 2024-11-05: messages go to /messages, responses come on the stream of a GET.
type oldSSE struct {
	endpoint string // "" for /messages
	mu       sync.Mutex
	stream   chan string
}

func (o *oldSSE) respond(w http.ResponseWriter, q *received) {
	switch {
	case q.Method == http.MethodGet:
		endpoint := o.endpoint
		if endpoint == "" {
			endpoint = "/messages?session=1"
		}
		stream := make(chan string, 16)
		o.mu.Lock()
		o.stream = stream
		o.mu.Unlock()
		events(w, "event: endpoint\ndata: "+endpoint)
		for {
			select {
			case m := <-stream:
				events(w, "event: message\ndata: "+m)
			case <-q.Context().Done():
				return
			}
		}
	case q.URL.Path != "/messages":
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.stream == nil { // a message of a session from before a restart
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		result := map[string]string{methodInitialize: `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}`, methodListTools: oneTool, methodCallTool: done}[q.Called]
		if result != "" {
			o.stream <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
		}
	}
}

// TestServer_negotiates_the_era opens a session with servers of each era.
func TestServer_negotiates_the_era(t *testing.T) {
	for _, c := range []struct {
		name    string
		respond func(w http.ResponseWriter, q *received)
		got     string
	}{
		{"modern", modern, "server/discover tools/call"},
		{"legacy", new(legacy).respond, "server/discover initialize notifications/initialized tools/call"},
		{"HTTP+SSE", new(oldSSE).respond, "server/discover initialize GET initialize notifications/initialized tools/call"},
		{"HTTP+SSE 404", func(w http.ResponseWriter, q *received) {
			if q.Method == http.MethodPost && q.URL.Path != "/messages" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			sse404.respond(w, q)
		}, "server/discover initialize GET initialize notifications/initialized tools/call"},
		{"other revisions only", func(w http.ResponseWriter, q *received) {
			if q.Called == methodDiscover {
				q.fault(w, http.StatusBadRequest, codeUnsupportedRevision, "unsupported")
				return
			}
			mixed.respond(w, q)
		}, "server/discover initialize notifications/initialized tools/call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, c.respond)
			s := serve(t, f.URL)
			wantDone(t, s, "u:a")
			if got := f.got(); got != c.got {
				t.Errorf("the server got %q, want %q", got, c.got)
			}
			wantDone(t, s, "u:a")
			if got := f.got(); got != methodCallTool {
				t.Errorf("the second call sent %q", got)
			}
		})
	}
}

var (
	sse404 = new(oldSSE)
	mixed  = new(legacy)
)

// TestServer_reports_what_only_modern_servers_say tests errors after which an older revision is of no use.
func TestServer_reports_what_only_modern_servers_say(t *testing.T) {
	for _, code := range []int{codeHeaderMismatch, codeMissingCapability} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusBadRequest, code, "modern") })
			_, err := callTool(t, serve(t, f.URL), "u:a")
			if fault, ok := errors.AsType[*Error](err); !ok || fault.Code != code {
				t.Errorf("got %v, want the error %d", err, code)
			}
			if got := f.got(); got != methodDiscover {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

// TestServer_initializes_after_any_refusal_of_discover uses servers that know initialize alone, whatever they respond to a
// method that they do not know.
func TestServer_initializes_after_any_refusal_of_discover(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *received) {
		return func(w http.ResponseWriter, _ *received) { w.WriteHeader(code) }
	}
	for name, refuse := range map[string]func(http.ResponseWriter, *received){
		"400": status(400), "401": status(401), "403": status(403), "404": status(404), "429": status(429),
		"500": status(500), "502": status(502), "503": status(503), "202": status(202), "302": status(302),
		"closed": func(http.ResponseWriter, *received) { panic(http.ErrAbortHandler) },
		"a page": func(w http.ResponseWriter, _ *received) { fmt.Fprint(w, "<html></html>") },
		"half":   func(w http.ResponseWriter, _ *received) { events(w, `data: {"jsonrpc":"2.0",`) },
		"no message": func(w http.ResponseWriter, _ *received) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		},
		"other id": func(w http.ResponseWriter, q *received) {
			q.ID = []byte("99")
			q.result(w, modernHello)
		},
		"an error": func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusOK, -32602, "not initialized") },
	} {
		t.Run(name, func(t *testing.T) {
			l := new(legacy)
			f := newFake(t, func(w http.ResponseWriter, q *received) {
				if q.Called == methodDiscover {
					refuse(w, q)
					return
				}
				l.respond(w, q)
			})
			wantDone(t, serve(t, f.URL), "u:a")
			if got := f.got(); got != "server/discover initialize notifications/initialized tools/call" {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

// TestServer_reports_the_first_refusal if no revision works. Another transport is not tried for credentials.
func TestServer_reports_the_first_refusal(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError} {
		f := newFake(t, func(w http.ResponseWriter, q *received) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			if q.Called == methodInitialize {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(status)
		})
		_, err := callTool(t, serve(t, f.URL), "u:a")
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Status != status {
			t.Errorf("%d: got %v", status, err)
		}
		if got := f.got(); got != "server/discover initialize" {
			t.Errorf("%d: the server got %q", status, got)
		}
	}
}

// TestServer_error_names_what_the_address_responds, not what the last of several attempts got.
func TestServer_error_names_what_the_address_responds(t *testing.T) {
	for name, c := range map[string]struct {
		respond func(w http.ResponseWriter, q *received)
		want    string
	}{
		"a page": {func(w http.ResponseWriter, _ *received) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html></html>")
		}, "text/html"},
		"no type": {func(w http.ResponseWriter, q *received) {
			if q.Method == http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "It works!")
		}, "without Content-Type"},
		"a stream for users": {func(w http.ResponseWriter, q *received) {
			if q.Method == http.MethodGet {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
		}, "401"},
		"moved": {func(w http.ResponseWriter, q *received) {
			http.Redirect(w, q.Request, "https://new.example/mcp?key=secret", http.StatusPermanentRedirect)
		}, `"https://new.example/mcp"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := callTool(t, serve(t, newFake(t, c.respond).URL), "u:a")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestServer_responds_in_other_forms has responses that are a little wrong, but cannot be misunderstood.
func TestServer_responds_in_other_forms(t *testing.T) {
	replace := func(pattern, by string) func(http.Header, string) string {
		return func(_ http.Header, body string) string { return regexp.MustCompile(pattern).ReplaceAllString(body, by) }
	}
	stream := func(format string) func(http.Header, string) string {
		return func(h http.Header, body string) string {
			h.Set("Content-Type", "text/event-stream")
			return fmt.Sprintf(format, body)
		}
	}
	for name, change := range map[string]func(h http.Header, body string) string{
		"id as text":          replace(`"id":(\d+)`, `"id":"$1"`),
		"id with a fraction":  replace(`"id":(\d+)`, `"id":$1.0`),
		"batch of one":        replace(`(?s)(.+)`, `[$1]`),
		"byte order mark":     replace(`(?s)(.+)`, "\ufeff$1"),
		"revision of later":   replace(`"2025-11-25"`, `"2030-01-01"`),
		"revision of earlier": replace(`"2025-11-25"`, `"2024-10-07"`),
		"no revision":         replace(`"protocolVersion":"2025-11-25",`, ``),
		"text/plain": func(h http.Header, body string) string {
			h.Set("Content-Type", "text/plain; charset=utf-8")
			return body
		},
		"no media type": func(h http.Header, body string) string {
			h["Content-Type"] = nil
			return body
		},
		"event of another name":  stream("event: response\ndata: %s\n\n"),
		"stream without its end": stream("data: %s"),
		"stream with one line":   stream("data: %s\n"),
	} {
		t.Run(name, func(t *testing.T) {
			server := new(legacy)
			f := newFake(t, func(w http.ResponseWriter, q *received) {
				recorder := httptest.NewRecorder()
				server.respond(recorder, q)
				body := recorder.Body.String()
				maps.Copy(w.Header(), recorder.Header())
				if body != "" && q.ID != nil {
					body = change(w.Header(), body)
				}
				w.WriteHeader(recorder.Code)
				fmt.Fprint(w, body)
			})
			wantDone(t, serve(t, f.URL), "u:a")
		})
	}
}

// TestServer_text_that_is_cut passes on a result whose text ends within a character.
func TestServer_text_that_is_cut(t *testing.T) {
	for _, end := range []string{`\ud83d`, "\xf0\x9f"} {
		server := &legacy{call: func(w http.ResponseWriter, q *received) {
			q.result(w, `{"content":[{"type":"text","text":"a`+end+`"}]}`)
		}}
		result, err := callTool(t, serve(t, newFake(t, server.respond).URL), "u:a")
		if err != nil || !strings.Contains(result, "\"text\":\"a\ufffd") {
			t.Errorf("got %s, %v", result, err)
		}
	}
}

// TestServer_follows_a_change_of_era restarts the server as one of another era.
func TestServer_follows_a_change_of_era(t *testing.T) {
	kinds := map[string]func() func(http.ResponseWriter, *received){
		"modern":   func() func(http.ResponseWriter, *received) { return modern },
		"legacy":   func() func(http.ResponseWriter, *received) { return new(legacy).respond },
		"HTTP+SSE": func() func(http.ResponseWriter, *received) { return new(oldSSE).respond },
	}
	for before, from := range kinds {
		for after, to := range kinds {
			t.Run(before+" to "+after, func(t *testing.T) {
				f := newFake(t, from())
				s := serve(t, f.URL)
				wantDone(t, s, "u:a")
				f.becomes(to())
				f.CloseClientConnections()
				if _, err := callTool(t, s, "u:a"); err != nil && !errors.As(err, new(*UnavailableError)) { // it may have been processed
					t.Error(err)
				}
				wantDone(t, s, "u:a")
				wantDone(t, s, "u:b")
			})
		}
	}
}

// TestServer_keeps_messages_at_the_origin refuses an address for messages elsewhere: credentials go there.
func TestServer_keeps_messages_at_the_origin(t *testing.T) {
	thief := newFake(t, func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusAccepted) })
	f := newFake(t, (&oldSSE{endpoint: thief.URL + "/messages"}).respond)
	if _, err := callTool(t, serve(t, f.URL), "u:a"); err == nil {
		t.Error("the call succeeded")
	}
	if got := thief.got(); got != "" {
		t.Errorf("the other origin got %q", got)
	}
}

// TestServer_follows_redirects_of_its_origin with the same message, over both transports, a few times.
func TestServer_follows_redirects_of_its_origin(t *testing.T) {
	for name, respond := range map[string]func(http.ResponseWriter, *received){"modern": modern, "legacy": new(legacy).respond, "HTTP+SSE": new(oldSSE).respond} {
		for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				f := newFake(t, func(w http.ResponseWriter, q *received) {
					if q.URL.Path == "/mcp" {
						http.Redirect(w, q.Request, "/mcp/", status)
						return
					}
					respond(w, q)
				})
				wantDone(t, serve(t, f.URL+"/mcp"), "u:a")
			})
		}
	}
	f := newFake(t, func(w http.ResponseWriter, q *received) {
		http.Redirect(w, q.Request, q.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	if _, err := callTool(t, serve(t, f.URL), "u:a"); err == nil || f.count(methodDiscover) != maxRedirects+1 {
		t.Errorf("redirects without end: %v after %d requests", err, f.count(methodDiscover))
	}
}

// TestServer_follows_no_redirect_elsewhere keeps credentials from where a redirect leads.
func TestServer_follows_no_redirect_elsewhere(t *testing.T) {
	thief := newFake(t, modern)
	f := newFake(t, func(w http.ResponseWriter, q *received) {
		http.Redirect(w, q.Request, thief.URL, http.StatusTemporaryRedirect)
	})
	s := serve(t, f.URL)
	_, err := s.Call(t.Context(), &Call{Tool: "t", Arguments: []byte("{}"), Header: http.Header{"Authorization": {"Bearer secret"}}})
	if err == nil || !strings.Contains(err.Error(), thief.URL) {
		t.Errorf("the error is %v, and must name where the redirect leads", err)
	}
	if got := thief.got(); got != "" {
		t.Errorf("the other server got %q", got)
	}
}

// TestCall_in_an_expired_session_of_HTTP_SSE opens another session and sends the call once more. Servers differ in what they
// respond to a message of a session that they do not know.
func TestCall_in_an_expired_session_of_HTTP_SSE(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			o, expired := new(oldSSE), false
			f := newFake(t, func(w http.ResponseWriter, q *received) {
				if q.Called == methodCallTool && expired {
					expired = false
					w.WriteHeader(status)
					return
				}
				o.respond(w, q)
			})
			s := serve(t, f.URL)
			wantDone(t, s, "u:a")
			expired = true
			wantDone(t, s, "u:a")
			if expired {
				t.Error("the second call was not sent in the first session")
			}
		})
	}
}
