package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestCall_in_an_expired_session opens another session and sends the call once more.
func TestCall_in_an_expired_session(t *testing.T) {
	for name, reject := range map[string]func(w http.ResponseWriter, q *received){
		"404":        func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusNotFound) },
		"400 -32001": func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusBadRequest, -32001, "gone") },
		"session not found": func(w http.ResponseWriter, q *received) {
			q.fault(w, http.StatusBadRequest, -32000, "Session not found")
		},
		"no valid session": func(w http.ResponseWriter, q *received) {
			q.fault(w, http.StatusBadRequest, -32000, "No valid session ID")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &legacy{reject: reject}
			f := newFake(t, l.respond)
			s := serve(t, f.URL)
			wantDone(t, s, "u:a")
			l.end()
			f.got()
			wantDone(t, s, "u:a")
			if got := f.got(); strings.Count(got, methodCallTool) != 2 || strings.Count(got, "initialize") != 2 { // with notifications/initialized
				t.Errorf("the server got %q", got)
			}
			f.becomes(func(w http.ResponseWriter, q *received) {
				if l.end(); q.Called == methodInitialize {
					l.respond(w, q)
				} else if reject(w, q); q.Called == methodInitialized {
					return
				}
			})
			if _, err := callTool(t, s, "u:a"); err == nil {
				t.Error("a call succeeded at a server that ends all sessions")
			}
			if n := f.count(methodCallTool); n > 2 {
				t.Errorf("the server got %d calls, want 2 at most", n)
			}
		})
	}
}

// TestCall_that_may_have_been_processed is sent once.
func TestCall_that_may_have_been_processed(t *testing.T) {
	abort := func(http.ResponseWriter, *received) { panic(http.ErrAbortHandler) }
	for name, respond := range map[string]func(w http.ResponseWriter, q *received){
		"no response": abort,
		"broken stream": func(w http.ResponseWriter, q *received) {
			events(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			abort(w, q)
		},
		"stream without response": func(w http.ResponseWriter, _ *received) { events(w, ": hello") },
		"500":                     func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusInternalServerError) },
		"502":                     func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusBadGateway) },
		"503":                     func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusServiceUnavailable) },
		"other media type":        func(w http.ResponseWriter, _ *received) { w.Header().Set("Content-Type", "text/html") },
		"other id": func(w http.ResponseWriter, _ *received) {
			(&received{ID: []byte("4711")}).result(w, done)
		},
		"no JSON":          func(w http.ResponseWriter, _ *received) { events(w, "data: hello") },
		"a JSON-RPC error": func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusOK, -32603, "failed") },
	} {
		for _, era := range []string{"modern", "legacy"} {
			t.Run(name+" "+era, func(t *testing.T) {
				f := newFake(t, func(w http.ResponseWriter, q *received) {
					if q.Called == methodCallTool {
						respond(w, q)
						return
					}
					modern(w, q)
				})
				if era == "legacy" {
					f.becomes((&legacy{call: respond}).respond)
				}
				if result, err := callTool(t, serve(t, f.URL), "u:a"); err == nil {
					t.Errorf("the call returned %s", result)
				}
				if n := f.count(methodCallTool); n != 1 {
					t.Errorf("the server got %d calls", n)
				}
			})
		}
	}
}

// TestCall_limits tests what a server may send.
func TestCall_limits(t *testing.T) {
	large := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 2000) + `"}]}`
	for name, respond := range map[string]func(w http.ResponseWriter, q *received){
		"large response": func(w http.ResponseWriter, q *received) { q.result(w, large) },
		"large event": func(w http.ResponseWriter, q *received) {
			events(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, large))
		},
		"endless line": func(w http.ResponseWriter, q *received) {
			w.Header().Set("Content-Type", "text/event-stream")
			for q.Context().Err() == nil {
				_, _ = w.Write([]byte(strings.Repeat("x", 1000)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, (&legacy{call: respond}).respond)
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			_, err := serve(t, f.URL).Call(ctx, &Call{Tool: "t", Arguments: jsontext.Value("{}"), MaxMessage: 1000})
			if err == nil || ctx.Err() != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCall_without_end ends with its context, and the server learns it.
func TestCall_without_end(t *testing.T) {
	flood := func(w http.ResponseWriter, q *received) {
		for q.Context().Err() == nil {
			events(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
	}
	silent := func(w http.ResponseWriter, q *received) {
		events(w, ": open")
		<-q.Context().Done()
	}
	for name, respond := range map[string]func(w http.ResponseWriter, q *received){"endless notifications": flood, "silent stream": silent} {
		for _, era := range []string{"modern", "legacy"} {
			t.Run(name+" "+era, func(t *testing.T) {
				begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
				call := func(w http.ResponseWriter, q *received) {
					begun <- struct{}{}
					respond(w, q)
					ended <- struct{}{}
				}
				f := newFake(t, func(w http.ResponseWriter, q *received) {
					if q.Called == methodCallTool {
						call(w, q)
						return
					}
					modern(w, q)
				})
				if era == "legacy" {
					f.becomes((&legacy{call: call}).respond)
				}
				s := serve(t, f.URL)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-begun; cancel() }()
				_, err := s.Call(ctx, &Call{Tool: "t", Arguments: jsontext.Value("{}"), Notify: func(string, jsontext.Value) {}})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				select {
				case <-ended:
				case <-time.After(testkit.Patience):
					t.Fatal("the server still works")
				}
				if era == "legacy" {
					testkit.Eventually(t, "the server is notified", func() bool { return f.count(methodCancelled) == 1 })
				}
			})
		}
	}
}

// TestCall_resumes_a_stream continues a stream that breaks off after an event with an id.
func TestCall_resumes_a_stream(t *testing.T) {
	var id string
	f := newFake(t, (&legacy{call: func(w http.ResponseWriter, q *received) {
		if q.Method == http.MethodGet {
			events(w, fmt.Sprintf("id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, done))
			return
		}
		id = string(q.ID)
		events(w, "id: 1\nretry: 1\ndata:")
	}}).respond)
	wantDone(t, serve(t, f.URL), "u:a")
	last := f.requests[len(f.requests)-1]
	if got := last.Header.Get(headerLastID); got != "1" || last.Header.Get(headerSession) == "" {
		t.Errorf("the stream was continued with Last-Event-ID %q and %v", got, last.Header)
	}
	if n := f.count(methodCallTool); n != 1 {
		t.Errorf("the server got %d calls", n)
	}
}

// TestDiscover_keeps_what_it_can_use of a list that goes wrong, and of the lists beside it.
func TestDiscover_keeps_what_it_can_use(t *testing.T) {
	const hello = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}}}`
	lists := map[string]string{methodListTools: "tools", methodListResources: "resources", methodListTemplates: "resourceTemplates", methodListPrompts: "prompts"}
	page := func(cursor string) func(http.ResponseWriter, *received) {
		return func(w http.ResponseWriter, q *received) {
			q.result(w, `{"`+lists[q.Called]+`":[{"name":"t"}],"nextCursor":`+cursor+`}`)
		}
	}
	for name, c := range map[string]struct {
		respond func(w http.ResponseWriter, q *received) // to the list of wrong
		items   int
		warning string // "" for none
	}{
		"same cursor":   {page(`"again"`), 2, "nextCursor"},
		"empty cursor":  {page(`""`), 2, "nextCursor"},
		"null cursor":   {page(`null`), 1, ""},
		"number cursor": {page(`7`), 1, "nextCursor"},
		"object cursor": {page(`{}`), 1, "nextCursor"},
		"long cursor":   {page(`"` + strings.Repeat("x", maxListCursor) + `"`), 1, "nextCursor"},
		"two cursors": {func(w http.ResponseWriter, q *received) { // that follow each other for ever
			page(map[bool]string{true: `"b"`, false: `"a"`}[q.Params.Cursor == "a"])(w, q)
		}, 3, "nextCursor"},
		"endless pages": {func(w http.ResponseWriter, q *received) { page(`"`+q.Params.Cursor+`x"`)(w, q) }, maxPages, "pages"},
		"cursor refused": {func(w http.ResponseWriter, q *received) {
			if q.Params.Cursor != "" {
				q.fault(w, http.StatusOK, -32602, "unknown cursor")
				return
			}
			page(`"next"`)(w, q)
		}, 1, "unknown cursor"},
		"cursor refused with a status": {func(w http.ResponseWriter, q *received) {
			if q.Params.Cursor != "" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			page(`"next"`)(w, q)
		}, 1, "400"},
		"long list": {func(w http.ResponseWriter, q *received) {
			q.result(w, `{"`+lists[q.Called]+`":[{}`+strings.Repeat(",{}", maxListed)+`]}`)
		}, maxListed, "5000"},
		"null":    {func(w http.ResponseWriter, q *received) { q.result(w, `{"`+lists[q.Called]+`":null}`) }, 0, ""},
		"unknown": {func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusOK, codeMethodNotFound, "unknown") }, 0, ""},
	} {
		for wrong := range lists {
			t.Run(name+" "+wrong, func(t *testing.T) {
				f := newFake(t, func(w http.ResponseWriter, q *received) {
					switch q.Called {
					case methodDiscover:
						q.result(w, hello)
					case wrong:
						c.respond(w, q)
					default:
						q.result(w, `{"`+lists[q.Called]+`":[{"name":"t"}]}`)
					}
				})
				d, err := serve(t, f.URL).Discover(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				items := map[string]int{methodListTools: len(d.Tools), methodListResources: len(d.Resources), methodListTemplates: len(d.Templates), methodListPrompts: len(d.Prompts)}
				for method, n := range items {
					if want := map[bool]int{true: c.items, false: 1}[method == wrong]; n != want {
						t.Errorf("%s has %d items, want %d", method, n, want)
					}
				}
				warnings := strings.Join(d.Warnings, "\n")
				if c.warning != "" && (!strings.Contains(warnings, wrong) || !strings.Contains(warnings, c.warning)) {
					t.Errorf("the warnings are %q, want %s", warnings, c.warning)
				}
			})
		}
	}
}

// TestDiscover_fails_without_tools, so that the tools of before stay, while the server cannot list them.
func TestDiscover_fails_without_tools(t *testing.T) {
	for name, respond := range map[string]func(w http.ResponseWriter, q *received){
		"error":   func(w http.ResponseWriter, q *received) { q.fault(w, http.StatusOK, codeInternal, "broken") },
		"500":     func(w http.ResponseWriter, _ *received) { w.WriteHeader(http.StatusInternalServerError) },
		"an item": func(w http.ResponseWriter, q *received) { q.result(w, `{"tools":{"name":"t"}}`) },
	} {
		f := newFake(t, func(w http.ResponseWriter, q *received) {
			if q.Called == methodListTools {
				respond(w, q)
				return
			}
			modern(w, q)
		})
		if _, err := serve(t, f.URL).Discover(t.Context(), nil); err == nil {
			t.Errorf("%s: the list was accepted", name)
		}
	}
}

// TestDiscover_finds_tools_that_are_not_declared by the capabilities of the server.
func TestDiscover_finds_tools_that_are_not_declared(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, q *received) {
		if q.Called == methodDiscover {
			q.result(w, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
			return
		}
		modern(w, q)
	})
	if d, err := serve(t, f.URL).Discover(t.Context(), nil); err != nil || len(d.Tools) != 1 {
		t.Errorf("got %d tools, %v", len(d.Tools), err)
	}
}

// TestServer_waits_after_failures does not connect to a server that is down with each call.
func TestServer_waits_after_failures(t *testing.T) {
	var up atomic.Bool
	f := newFake(t, func(w http.ResponseWriter, q *received) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		modern(w, q)
	})
	s := serve(t, f.URL)
	began := time.Now()
	for range 20 {
		if _, err := callTool(t, s, "u:a"); !errors.As(err, new(*UnavailableError)) {
			t.Errorf("got %v", err)
		}
	}
	limit := defaultMaxFails + int(time.Since(began)/minBackoff) // on a slow machine, the wait ends during the calls
	if n := f.count(methodDiscover); n < defaultMaxFails || n > limit {
		t.Errorf("the gateway connected %d times, want %d to %d", n, defaultMaxFails, limit)
	}
	up.Store(true)
	testkit.Eventually(t, "the server is used again", func() bool {
		_, err := callTool(t, s, "u:a")
		return err == nil
	})
}

// TestServer_keeps_owners_apart gives owners sessions of their own if the server keeps state.
func TestServer_keeps_owners_apart(t *testing.T) {
	for name, c := range map[string]struct {
		respond  func(w http.ResponseWriter, q *received)
		sessions int
	}{
		"sessions": {new(legacy).respond, 3}, "stateless": {modern, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.respond)
			s := serve(t, f.URL)
			for range 2 {
				for _, owner := range []share.Owner{"u:a", "u:b", "n:127.0.0.1"} {
					wantDone(t, s, owner)
				}
			}
			if n := f.count(methodInitialize); n != c.sessions {
				t.Errorf("%d sessions, want %d", n, c.sessions)
			}
			used := map[string]int{}
			for _, q := range f.requests {
				if q.Called == methodCallTool {
					used[q.Header.Get(headerSession)]++
				}
			}
			if len(used) != max(c.sessions, 1) {
				t.Errorf("calls by session: %v", used)
			}
		})
	}
}

// TestServer_Close ends what the server began, also while a session is being opened.
func TestServer_Close(t *testing.T) {
	before := runtime.NumGoroutine()
	hang := func(_ http.ResponseWriter, q *received) { <-q.Context().Done() }
	for name, respond := range map[string]func(w http.ResponseWriter, q *received){
		"modern": modern, "legacy": new(legacy).respond, "HTTP+SSE": new(oldSSE).respond, "opening": hang,
		"parked": (&legacy{call: asks(formRequest)}).respond,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, respond)
			transport := new(http.Transport)
			s := serve(t, f.URL)
			s.Use(s.logger.Load(), transport)
			result := make(chan error, 1)
			go func() {
				_, err := s.Call(t.Context(), &Call{Owner: "u:a", Tool: "t", Arguments: jsontext.Value("{}"), Capabilities: jsontext.Value(`{"elicitation":{}}`)})
				result <- err
			}()
			if name == "opening" {
				testkit.Eventually(t, "the server is asked", func() bool { return f.count(methodDiscover) == 1 })
			} else if err := <-result; err != nil {
				t.Error(err)
			}
			began := time.Now()
			s.Close()
			if took := time.Since(began); took > openTimeout/2 {
				t.Errorf("Close took %v", took)
			}
			if _, err := callTool(t, s, "u:a"); err == nil {
				t.Error("a call succeeded after Close")
			}
			transport.CloseIdleConnections()
			f.Server.Close()
		})
	}
	testkit.Eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestCall_error_that_names_a_lost_session is returned, because the server has read the call, and the next call opens a
// session. An error about an argument does not end the session.
func TestCall_error_that_names_a_lost_session(t *testing.T) {
	for message, c := range map[string]struct{ code, sessions int }{
		"The provided SessionId was not found or has expired, please re-initialize": {-30001, 2},
		"Session not found":          {-32000, 2},
		"unknown session":            {-32600, 2},
		"Invalid session ID":         {-32603, 2},
		"session abc is not found":   {-32602, 1},
		"no session of the tool yet": {-32000, 1},
	} {
		l := new(legacy)
		lost := true
		l.call = func(w http.ResponseWriter, q *received) {
			if lost {
				lost = false
				q.fault(w, http.StatusOK, c.code, message)
				return
			}
			q.result(w, done)
		}
		s := serve(t, newFake(t, l.respond).URL)
		if _, err := callTool(t, s, "u:a"); !errors.As(err, new(*Error)) {
			t.Errorf("%s: got %v", message, err)
		}
		wantDone(t, s, "u:a")
		l.mu.Lock()
		if l.sessions != c.sessions {
			t.Errorf("%s: %d sessions, want %d", message, l.sessions, c.sessions)
		}
		l.mu.Unlock()
	}
}
