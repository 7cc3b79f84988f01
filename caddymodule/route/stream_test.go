package route

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// invocation runs a tool against a handler, without a server around it.
type invocation struct {
	method     string // GET if empty
	toolset    app.Toolset
	listener   func(tools.Event)
	supplement *security.Supplement
	handler    func(w http.ResponseWriter, r *http.Request) error
}

func (i invocation) run(t *testing.T) (*tools.Result, error) {
	t.Helper()
	document := strings.Replace(benchDocument, "get:", strings.ToLower(i.method)+":", 1)
	if i.method == "" {
		document = benchDocument
	}
	toolset, err := tools.Build([]byte(document), tools.BuildOptions{Name: "trips"})
	if err != nil {
		t.Fatal(err)
	}
	called, _ := toolset.Tool("getTrip")
	call, err := called.Bind([]byte(`{"id":"7","limit":10}`))
	if err != nil {
		t.Fatal(err)
	}
	if i.toolset.Limits.MaxResponse == 0 {
		i.toolset.Limits.MaxResponse = 1000
	}
	var d dispatch
	d.init(caddyhttp.HandlerFunc(i.handler), sitetest.EndpointRequest(), &Endpoint{Protocol: "mcp", Logger: zap.NewNop()}, &i.toolset)
	ctx := d.client.Context()
	if i.listener != nil {
		ctx = tools.ContextWithListener(ctx, i.listener)
	}
	if i.supplement != nil {
		ctx = security.ContextWithSupplement(ctx, i.supplement)
	}
	return d.Invoke(ctx, call)
}

// answers returns a handler that writes the pieces, each with a flush.
func answers(status int, contentType string, pieces ...string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		for _, piece := range pieces {
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

const events = "text/event-stream"

func TestStreamedAnswer(t *testing.T) {
	const lines = "application/x-ndjson"
	withHeader := func(name, value string, then func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set(name, value)
			return then(w, r)
		}
	}
	for name, test := range map[string]struct {
		method   string
		handler  func(http.ResponseWriter, *http.Request) error
		body     string
		as       string // media type
		received int
	}{
		"result":         {"", answers(200, events, "event: progress\ndata: 1\n\nevent: res", "ult\ndata: {\"a\":1}\n\n"), `{"a":1}`, "application/json", 1},
		"one event":      {"", answers(201, "text/event-stream; charset=utf-8", "data: {\"a\":1}\n\n"), `{"a":1}`, "application/json", 1},
		"several events": {"", answers(200, events, "data: a\n\n", "data: b\n\n"), "a\nb", "text/plain", 2},
		"native result":  {"", answers(200, events, "event: mcp-result\ndata: {\"content\":[]}\n\n"), `{"content":[]}`, "application/vnd.mcp.result+json", 0},
		"lines":          {"", answers(200, lines, "{\"progress\":1}\n{\"type\":\"result\",", "\"result\":7}"), "7", "application/json", 1},
		"jsonl":          {"", answers(200, "application/jsonl", "1\n2\n"), "1\n2", "text/plain", 2},
		"nothing":        {"", answers(200, events, ": hello\n\n"), "", "", 0},
		"identity":       {"", withHeader("Content-Encoding", "identity", answers(200, events, "data: 1\n\n")), "1", "application/json", 1},
		"length":         {"", withHeader("Content-Length", "5000", answers(200, events, "data: 1\n\n")), "1", "application/json", 1},
		"of an error":    {"", answers(422, events, "data: 1\n\n"), "data: 1\n\n", events, 0},
		"no stream":      {"", answers(200, "application/json", "{\"progress\":1}"), `{"progress":1}`, "application/json", 0},
		"without a body": {"HEAD", answers(200, events, "data: 1\n\n"), "", events, 0},
		"from a reader": {"", func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", events)
			_, err := io.Copy(w, io.MultiReader(strings.NewReader("data"), strings.NewReader(": x\n\n")))
			return err
		}, "x", "text/plain", 1},
	} {
		t.Run(name, func(t *testing.T) {
			received := 0
			for _, listener := range []func(tools.Event){nil, func(tools.Event) { received++ }} {
				result, err := invocation{method: test.method, handler: test.handler, listener: listener}.run(t)
				if err != nil {
					t.Fatal(err)
				}
				if string(result.Body) != test.body || result.MediaType() != test.as {
					t.Errorf("got %s: %q, want %s: %q", result.MediaType(), result.Body, test.as, test.body)
				}
				if length := result.Header.Get("Content-Length"); length != "" {
					t.Errorf("Content-Length is %s", length)
				}
				result.Release()
			}
			if received != test.received {
				t.Errorf("got %d events, want %d", received, test.received)
			}
		})
	}
}

// TestStreamedListener: an event is reported while the API still has the next one.
func TestStreamedListener(t *testing.T) {
	received := 0
	result, err := invocation{
		listener: func(tools.Event) { received++ },
		handler: func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", events)
			for i := range 3 {
				if received != i {
					t.Errorf("got %d before event %d", received, i)
				}
				if _, err := io.WriteString(w, "data: x\n\n"); err != nil {
					return err
				}
			}
			return nil
		},
	}.run(t)
	if err != nil || received != 3 {
		t.Fatalf("got %d, %v", received, err)
	}
	result.Release()
}

func TestStreamedFailures(t *testing.T) {
	x := strings.Repeat("x", 600)
	abort := func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }
	fault := func(http.ResponseWriter, *http.Request) error { panic("a fault") }
	then := func(handlers ...func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			for _, handler := range handlers {
				if err := handler(w, r); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const result = "event: result\ndata: {\"a\":1}\n\n"
	for name, test := range map[string]struct {
		handler func(http.ResponseWriter, *http.Request) error
		limit   int64             // max_response; 0 is 1000
		kind    tools.FailureKind // "" if it succeeds
		message string            // of the failure, or the body
	}{
		"too much content":            {answers(200, events, "data: "+x+"\n\n", "data: "+x+"\n\n"), 0, tools.TooLarge, "limit max_response"},
		"too large in the last line":  {answers(200, "application/jsonl", x+"\n", x), 0, tools.TooLarge, "max_response"},
		"a log line that is too long": {answers(200, events, "event: log\ndata: "+strings.Repeat("x", 256<<10+1)+"\n\n"), 1 << 20, tools.TooLarge, "256 KiB"},
		"events without an end":       {answers(200, "application/jsonl", strings.Repeat("{\"progress\":1}\n", 100_001)), 0, tools.TooLarge, "many events"},
		"cut off":                     {answers(200, events, "data: half"), 0, tools.Unreachable, "middle event"},
		"broken off":                  {then(answers(200, events, "data: 1\n\n"), abort), 0, tools.Unreachable, "closed"},
		"broken off after the result": {then(answers(200, events, result), abort), 0, "", `{"a":1}`},
		"a fault after the result":    {then(answers(200, events, result), fault), 0, tools.Internal, "log"},
		"an error in the middle":      {then(answers(200, events, "data: 1\n\n"), func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, nil) }), 0, tools.Unreachable, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			i := invocation{handler: test.handler}
			i.toolset.Limits.MaxResponse = test.limit
			result, err := i.run(t)
			defer result.Release()
			if test.kind == "" {
				if err != nil || string(result.Body) != test.message {
					t.Fatalf("got %+v, %v", result, err)
				}
				return
			}
			failure, ok := errors.AsType[*tools.Failure](err)
			if !ok || failure.Kind != test.kind || !testkit.ContainsAll(failure.Message, test.message) {
				t.Errorf("got %v, want %s with %q", err, test.kind, test.message)
			}
		})
	}
}

// TestStreamedTimeout measures with a clock that needs no time.
func TestStreamedTimeout(t *testing.T) {
	const timeout = time.Second
	every := func(pause time.Duration, times int, piece string, after ...string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", events)
			for range times {
				if _, err := io.WriteString(w, piece); err != nil {
					return err
				}
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
				}
				if r.Context().Err() != nil {
					return nil //nolint:nilerr // as a handler may that thinks nothing of it
				}
			}
			for _, piece := range after {
				if _, err := io.WriteString(w, piece); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		handler  func(http.ResponseWriter, *http.Request) error
		listener func(tools.Event)
		message  string        // of the failure, or the body
		after    time.Duration // 0 if it succeeds
	}{
		"silence before it":             {func(_ http.ResponseWriter, r *http.Request) error { <-r.Context().Done(); return nil }, nil, "within 1s", timeout},
		"silence in the middle":         {every(2*timeout, 1, "data: 1\n\n"), nil, "nothing 1s", timeout},
		"events in time":                {every(timeout-1, 5, "event: log\ndata: 1\n\n", "data: 7\n\n"), nil, "7", 0},
		"keep-alives in time":           {every(timeout-1, 5, ":\n", "data: 7\n\n"), nil, "7", 0},
		"for ever":                      {every(timeout/2, 1000, ":\n"), nil, "more 10s", 10 * timeout},
		"silence after the result":      {every(2*timeout, 1, "event: result\ndata: 7\n\n"), nil, "7", 0},
		"for ever with the result said": {every(timeout/2, 1000, "event: result\ndata: 7\n\n"), nil, "7", 0},
		"a listener that takes long":    {every(0, 2, "data: 7\n\n"), func(tools.Event) { time.Sleep(3 * timeout) }, "7\n7", 0},
		"one that takes for ever":       {every(0, 1000, "data: 7\n\n"), func(tools.Event) { time.Sleep(3 * timeout) }, "more 10s", 12 * timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				i := invocation{handler: test.handler, listener: test.listener}
				i.toolset.Limits.Timeout = timeout
				result, err := i.run(t)
				defer result.Release()
				failure, failed := errors.AsType[*tools.Failure](err)
				switch {
				case test.after == 0 && (err != nil || string(result.Body) != test.message):
					t.Errorf("got %+v, %v", result, err)
				case test.after == 0:
				case !failed || failure.Kind != tools.TimedOut || !testkit.ContainsAll(failure.Message, test.message):
					t.Errorf("got %+v, %v; want %q", result, err, test.message)
				case time.Since(start) != test.after:
					t.Errorf("after %s, want %s", time.Since(start), test.after)
				}
			})
		})
	}
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			result, err := invocation{handler: every(time.Hour, 3, ":\n", "data: 7\n\n")}.run(t)
			if err != nil || string(result.Body) != "7" {
				t.Errorf("got %+v, %v", result, err)
			}
			result.Release()
		})
	})
}

// TestStreamedCancel: what came of a stream that the client gave up is no result.
func TestStreamedCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
	toolset, err := tools.Build([]byte(benchDocument), tools.BuildOptions{Name: "trips"})
	if err != nil {
		t.Fatal(err)
	}
	called, _ := toolset.Tool("getTrip")
	call, err := called.Bind([]byte(`{"id":"7"}`))
	if err != nil {
		t.Fatal(err)
	}
	next := func(w http.ResponseWriter, r *http.Request) error {
		err := answers(200, events, "data: 1\n\n")(w, r)
		cancel()
		<-r.Context().Done()
		return err
	}
	var d dispatch
	d.init(caddyhttp.HandlerFunc(next), r, &Endpoint{Protocol: "mcp", Logger: zap.NewNop()}, &app.Toolset{Limits: app.Limits{MaxResponse: 100}})
	result, err := d.Invoke(r.Context(), call)
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Kind != tools.Canceled {
		t.Errorf("got %+v, %v", result, err)
	}
}

// TestStreamRecorded: documents of the site are recorded as they are.
func TestStreamRecorded(t *testing.T) {
	rec, _ := testRecorder("GET", 100)
	rec.Header().Set("Content-Type", events)
	if _, err := rec.Write([]byte("data: 1\n\n")); err != nil || string(rec.TakeBody().B) != "data: 1\n\n" {
		t.Errorf("got %v", err)
	}
}
