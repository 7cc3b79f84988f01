package route

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/tools"
)

const benchDocument = `openapi: 3.1.0
info: {title: Trips, version: 1.0.0}
paths:
  /trips/{id}:
    get:
      operationId: getTrip
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: limit, in: query, schema: {type: integer}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
`

// BenchmarkDispatch measures one call by its parts: what Caddy takes to prepare a
// request at all, the dispatch of a call that is already bound, the call of a
// tool, and a whole tools/call.
func BenchmarkDispatch(b *testing.B) {
	toolset, err := tools.Build([]byte(benchDocument), tools.BuildOptions{Name: "trips"})
	if err != nil {
		b.Fatal(err)
	}
	t, _ := toolset.Tool("getTrip")
	arguments := []byte(`{"id":"7","limit":10}`)
	call, err := t.Bind(arguments)
	if err != nil {
		b.Fatal(err)
	}
	next := caddyhttp.HandlerFunc(sitetest.HandlerAPI)
	outer := sitetest.EndpointRequest()
	of := &app.Toolset{Name: "trips", Limits: app.Limits{Timeout: app.DefaultTimeout, MaxResponse: app.DefaultMaxResponse}}
	var d dispatch
	part := &Part{Toolset: of, metrics: metrics.All.Of("trips", "mcp")}
	endpoint := &Endpoint{Protocol: "mcp", Logger: zap.NewNop(), Parts: &Parts{All: []*Part{part}, whole: part}, calls: noCalls{}}
	d.init(next, outer, endpoint, of)

	b.Run("PrepareRequest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := &http.Request{Method: "GET", URL: outer.URL, Header: outer.Header, RemoteAddr: outer.RemoteAddr}
			caddyhttp.PrepareRequest(r.WithContext(b.Context()), caddy.NewReplacer(), nil, d.client.server)
		}
	})
	b.Run("Request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := call.Request(outer.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Invoke", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			result, err := d.Invoke(outer.Context(), call)
			if err != nil || len(result.Body) != len(sitetest.HandlerBody) {
				b.Fatal(err)
			}
			result.Release()
		}
	})
	records, err := embedded.Open(filepath.Join(b.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer records.Close()
	log := calllog.New("node", func(context.Context) (store.Store, error) { return records, nil }, false)
	log.Start(calllog.Options{})
	defer log.Close()
	kept := *endpoint
	kept.calls = log
	for name, e := range map[string]*Endpoint{"Call": endpoint, "Call-kept": &kept} {
		b.Run(name, func(b *testing.B) {
			c := new(Caller)
			c.init(e, part, next, outer, toolset, new(RequestCalls))
			b.ReportAllocs()
			for b.Loop() {
				outcome := c.Call(outer.Context(), "getTrip", arguments)
				if outcome.Failure != nil {
					b.Fatal(outcome.Failure)
				}
				outcome.Release()
			}
		})
	}
	b.Run("tools-call", func(b *testing.B) {
		const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTrip","arguments":{"id":"7","limit":10}}}`
		server := mcpadapter.New(mcpadapter.Options{})
		body := strings.NewReader(message)
		w := sitetest.NewDiscard()
		b.ReportAllocs()
		for b.Loop() {
			body.Reset(message)
			r := outer.Clone(outer.Context())
			r.Body, r.ContentLength = io.NopCloser(body), int64(len(message))
			h := &benchHost{tools: toolset}
			h.caller.init(endpoint, part, next, r, toolset, &h.caller.only)
			server.ServeHTTP(w, r, mcpadapter.Site{Host: h})
			if w.Status != 200 {
				b.Fatal(w.Status)
			}
		}
	})
}

// benchHost is a host with one caller. It does not call begin, because the same replacer would grow with
// every request.
type benchHost struct {
	tools  *tools.Toolset
	caller Caller
}

func (h *benchHost) Tools() *tools.Toolset              { return h.tools }
func (h *benchHost) Caller(*tools.Toolset) tools.Caller { return &h.caller }
func (h *benchHost) Identity() string                   { return "" }
