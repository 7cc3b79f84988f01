package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// probe sends a request to the handler and returns the status and the body.
func probe(t *testing.T, h *Health, path string, shuttingDown bool) (int, string) {
	t.Helper()
	repl := caddy.NewEmptyReplacer()
	repl.Set("http.shutting_down", shuttingDown)
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), caddy.ReplacerCtxKey, repl), http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Error(err)
	}
	return w.Code, w.Body.String()
}

func TestHealth_states(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	var fault error
	h := &Health{Path: "/health", logger: zap.New(core), ready: func(context.Context) (string, error) {
		if fault != nil {
			return "store", fault
		}
		return "", nil
	}}
	for _, step := range []struct {
		name, path   string
		fault        error
		shuttingDown bool
		status       int
		body         string
	}{
		{"live", "/health/live", nil, false, 200, `{"status":"live"}`},
		{"ready", "/health/ready", nil, false, 200, `{"status":"ready"}`},
		{"not ready", "/health/ready", errors.New("redis at 10.0.0.1 is down"), false, 503, `{"status":"not ready","reason":"store"}`},
		{"still live", "/health/live", errors.New("redis at 10.0.0.1 is down"), false, 200, `{"status":"live"}`},
		{"ready again", "/health/ready", nil, false, 200, `{"status":"ready"}`},
		{"shutting down", "/health/ready", nil, true, 503, `{"status":"not ready","reason":"shutting down"}`},
		{"live while shutting down", "/health/live", nil, true, 200, `{"status":"live"}`},
		{"another path", "/health", nil, false, http.StatusTeapot, ""},
		{"a path below", "/health/ready/x", nil, false, http.StatusTeapot, ""},
	} {
		fault = step.fault
		h.expires.Store(1) // the last result has expired
		if status, body := probe(t, h, step.path, step.shuttingDown); status != step.status || body != step.body {
			t.Errorf("%s: %d %s, want %d %s", step.name, status, body, step.status, step.body)
		}
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("%d warnings for one change", n)
	}
}

// TestHealth_flood holds a check and sends further requests, which do not wait for it.
func TestHealth_flood(t *testing.T) {
	var checks atomic.Int64
	entered, release := make(chan struct{}), make(chan struct{})
	h := &Health{Path: "/health", logger: zap.NewNop(), ready: func(ctx context.Context) (string, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the check has no time limit")
		}
		if checks.Add(1) == 1 {
			close(entered)
		}
		<-release
		return "", nil
	}}
	var first sync.WaitGroup
	first.Go(func() {
		if status, _ := probe(t, h, "/health/ready", false); status != http.StatusOK {
			t.Errorf("the request that checks: %d", status)
		}
	})
	<-entered
	for range 100 {
		if status, _ := probe(t, h, "/health/ready", false); status != http.StatusServiceUnavailable {
			t.Fatalf("before the first result: %d", status)
		}
	}
	close(release)
	first.Wait()
	for range 100 {
		if status, _ := probe(t, h, "/health/ready", false); status != http.StatusOK {
			t.Fatalf("after the first result: %d", status)
		}
	}
	if n := checks.Load(); n > 2 {
		t.Errorf("%d checks within about a second", n)
	}
}
