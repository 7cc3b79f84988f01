package client

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestRetries_are_for_calls_that_only_read repeats a call while the server responds that it is not available, unless the
// server may have processed it.
func TestRetries_are_for_calls_that_only_read(t *testing.T) {
	for name, c := range map[string]struct {
		retries, failures, wantCalls int
		reads, succeeds              bool
	}{
		"by default":           {0, 1, 1, true, false},
		"a call that writes":   {2, 1, 1, false, false},
		"a call that reads":    {2, 2, 3, true, true},
		"not more than wanted": {2, 9, 3, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			failures := c.failures
			f := newFake(t, func(w http.ResponseWriter, q *received) {
				if q.Called == methodCallTool && failures > 0 {
					failures--
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				modern(w, q)
			})
			s := New(Options{Name: "test", Endpoint: f.URL, Version: "1", Retries: c.retries}, zap.NewNop())
			t.Cleanup(s.Close)
			_, err := s.Call(t.Context(), &Call{Tool: "t", Arguments: jsontext.Value("{}"), Reads: c.reads})
			if (err == nil) != c.succeeds {
				t.Errorf("the call returned %v", err)
			}
			if n := f.count(methodCallTool); n != c.wantCalls {
				t.Errorf("the server got %d calls, want %d", n, c.wantCalls)
			}
		})
	}
}

// TestFails_of_calls_end_attempts fails calls at once after a server that keeps no state could not be reached, and calls it
// again later.
func TestFails_of_calls_end_attempts(t *testing.T) {
	f := newFake(t, modern)
	s := New(Options{Name: "test", Endpoint: f.URL, Version: "1", MaxFails: 2, FailDuration: 1}, zap.NewNop())
	t.Cleanup(s.Close)
	wantDone(t, s, "u:a")
	attempts := 0
	s.Use(zap.NewNop(), roundTripper(func(r *http.Request) (*http.Response, error) {
		if attempts++; attempts <= 3 {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	for range 2 {
		if _, err := callTool(t, s, "u:a"); err == nil {
			t.Fatal("a call succeeded without a connection")
		}
	}
	s.mu.Lock()
	until, failures := s.backoff.until, s.backoff.failures
	s.mu.Unlock()
	if until.IsZero() || failures != 2 {
		t.Errorf("%d failures, until %v", failures, until)
	}
	testkit.Eventually(t, "the server is called again", func() bool {
		_, err := callTool(t, s, "u:a")
		return err == nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSession_gets_all_log_messages of a server that has levels, because clients choose their level at the gateway. A server
// may refuse.
func TestSession_gets_all_log_messages(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		l := new(legacy)
		f := newFake(t, func(w http.ResponseWriter, q *received) {
			switch {
			case q.Called == methodInitialize:
				w.Header().Set(headerSession, "session-1")
				l.sessions = 1
				q.result(w, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}}}`)
			case q.Called == methodSetLevel && refuses:
				w.WriteHeader(http.StatusForbidden)
			case q.Called == methodSetLevel:
				q.result(w, "{}")
			default:
				l.respond(w, q)
			}
		})
		wantDone(t, serve(t, f.URL), "u:a")
		if n := f.count(methodSetLevel); n != 1 {
			t.Errorf("the server got %d requests for a level", n)
		}
	}
}
