package oagent

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/tools"
)

const benchAgentAPI = `{"openapi":"3.1.0","info":{"title":"Trips","version":"1"},"paths":{"/trips":{"get":{"operationId":"listTrips",
"parameters":[{"name":"limit","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}}}`

const benchAgent = `kind: "openagentspec:v1/agent"
name: desk
description: Is measured.
intent: You are measured.
owner: tests
capabilities:
  list-trips:
    user_identity: False
    input_restriction: {assertion: recent.list-trips.inputs.limit < 100}
    output_restriction: {assertion: size(recent.list-trips.outputs) > 0}
`

// benchOAgent returns a handler without the app around it.
func benchOAgent(tb testing.TB) *Handler {
	tb.Helper()
	set, err := tools.Build([]byte(benchAgentAPI), tools.BuildOptions{Name: "trips"})
	if err != nil {
		tb.Fatal(err)
	}
	read, err := oagent.ReadAgents([]byte(benchAgent), "bench.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	s, err := embedded.Open(filepath.Join(tb.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	guard, err := oagent.NewGuard(oagent.GuardOptions{Store: s})
	if err != nil {
		tb.Fatal(err)
	}
	linked, err := agentset.New(read, []agentset.Tools{{
		Toolset: &app.Toolset{Name: "trips", Document: &app.Document{Key: app.DocumentKey{Name: "trips"}}}, Tools: set, Matched: true,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	o := &Handler{logger: zap.NewNop(), metrics: processMetrics, Shared: Shared{Loader: agentset.Static(read, linked)}}
	o.setDefaults()
	o.openedGuard.Store(guard)
	if err := o.provisionRecords(caddy.Context{Context: tb.Context()}); err != nil {
		tb.Fatal(err)
	}
	return o
}

// BenchmarkOAgent measures what the handler costs on top of the handlers after it,
// with the record on disk.
func BenchmarkOAgent(b *testing.B) {
	o := benchOAgent(b)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header()["Content-Type"] = []string{"application/json"}
		_, err := w.Write(sitetest.HandlerBody)
		return err
	})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r, w := sitetest.HandlerRequest(http.Header{"Accept": {"*/*"}})
		r.URL.RawQuery = "limit=7"
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		pristine := *repl
		for pb.Next() {
			clear(w.Header())
			*repl = pristine
			if err := o.ServeHTTP(w, r, next); err != nil {
				b.Fatal(err)
			}
		}
	})
}
