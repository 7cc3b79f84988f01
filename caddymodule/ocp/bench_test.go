package ocp

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

// benchOCP returns a handler without the app around it.
func benchOCP(tb testing.TB, change func(*Handler)) *Handler {
	tb.Helper()
	h := &Handler{Forward: forwardHeaders, MaxEnhanced: defaultMaxEnhanced, metrics: processMetrics, logger: zap.NewNop()}
	if change != nil {
		change(h)
	}
	var err error
	if h.enhancer, err = newEnhancer(h); err != nil {
		tb.Fatal(err)
	}
	h.setUpReading()
	return h
}

// benchContext is a context of about 1.7 KB in its header, as long sessions have.
func benchContext(tb testing.TB) string {
	tb.Helper()
	c := ocp.NewContext("ide_coding_assistant")
	c.ContextID = "ocp-debug-123"
	c.ContextSummary = "Debugging a payment validation error in a web shop"
	for len(encodeBench(tb, c)) < 1700 {
		entry := ocp.CallEntry(c.CreatedAt, "https://api.example.com/trips/"+ocp.NewContext("x").ContextID, "getTrip", "trains.getTrip", 200)
		c.Record(entry)
	}
	return encodeBench(tb, c)
}

func encodeBench(tb testing.TB, c *ocp.Context) string {
	encoded, err := c.EncodeSession()
	if err != nil {
		tb.Fatal(err)
	}
	return encoded
}

// BenchmarkOCP measures what the handler costs on top of the handlers after it.
func BenchmarkOCP(b *testing.B) {
	plain := http.Header{
		"Accept":     {"*/*"},
		"User-Agent": {"agent/1.0"},
	}
	five := plain.Clone()
	five.Set("OCP-Context-ID", "ocp-debug-123")
	five.Set("OCP-Agent-Type", "ide_coding_assistant")
	five.Set("OCP-Current-Goal", "debug_payment_error")
	five.Set("OCP-User", "alice")
	five.Set("OCP-Workspace", "payment-service")
	whole := five.Clone()
	whole.Set("OCP-Session", benchContext(b))
	noReply := func(h *Handler) { h.NoReply = true }
	enhancing := func(h *Handler) {
		h.Enhance = []enhance.Property{{Name: "next_actions", Expression: "['look at ' + ocp.current_goal]"}}
	}
	for _, c := range []struct {
		name   string
		header http.Header
		change func(*Handler)
		fresh  bool // no session is one that was seen before
	}{
		{"none", plain, nil, false},
		{"five/no-reply", five, noReply, false},
		{"five/reply", five, nil, false},
		{"session/untouched", whole, noReply, false},
		{"session/reply", whole, nil, false},
		{"session/reply,fresh", whole, nil, true},
		{"session/reply,enhanced", whole, enhancing, false},
		{"session/reply,enhanced,fresh", whole, enhancing, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := benchOCP(b, c.change)
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header()["Content-Type"] = []string{"application/json"}
				_, err := w.Write(sitetest.HandlerBody)
				return err
			})
			r, w := sitetest.HandlerRequest(c.header)
			repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
			pristine := *repl
			b.ReportAllocs()
			for b.Loop() {
				clear(w.Header())
				*repl = pristine
				if c.fresh {
					*h.readOptions.Cache = ocp.SessionCache{}
				}
				if err := h.ServeHTTP(w, r, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestOCP_costs_nothing_without_headers holds the handler to its budget.
func TestOCP_costs_nothing_without_headers(t *testing.T) {
	h := benchOCP(t, nil)
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	r, w := sitetest.HandlerRequest(http.Header{"Accept": {"*/*"}})
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	pristine := *repl
	if n := testing.AllocsPerRun(1000, func() {
		*repl = pristine
		_ = h.ServeHTTP(w, r, next)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
