package route

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
)

// tracedSite is an endpoint whose requests have a span, as with Caddy's handler tracing.
type tracedSite struct {
	spans    *tracetest.SpanRecorder
	provider *sdk.TracerProvider
	request  http.Header // of the latest request to the API
	status   int         // of the API; 0 means 200
	observed []mcpadapter.Operation
}

func newTracedSite() *tracedSite {
	s := &tracedSite{spans: tracetest.NewSpanRecorder()}
	s.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(s.spans))
	return s
}

// ServeHTTP is the API. Its guard reports a decision, as oagent does.
func (s *tracedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	s.request = r.Header.Clone()
	calltrace.Decision(r.Context(), calltrace.EventDecision, "clerk", "allowed", "")
	if s.status != 0 {
		w.WriteHeader(s.status)
		return nil
	}
	return sitetest.HandlerAPI(w, r)
}

// call makes a call over a protocol, MCP with the message as body, and returns the HTTP span.
func (s *tracedSite) call(t *testing.T, protocol, message string, traced bool) trace.SpanContext {
	t.Helper()
	toolset, err := tools.Build([]byte(benchDocument), tools.BuildOptions{Name: "trips"})
	if err != nil {
		t.Fatal(err)
	}
	of := &app.Toolset{Name: "trips", Limits: app.Limits{Timeout: app.DefaultTimeout, MaxResponse: app.DefaultMaxResponse}}
	part := &Part{Toolset: of, metrics: metrics.All.Of("trips", protocol)}
	endpoint := &Endpoint{Protocol: protocol, Logger: zap.NewNop(), Parts: &Parts{All: []*Part{part}, whole: part}, calls: noCalls{}}
	r := sitetest.EndpointRequest()
	var client trace.SpanContext
	if traced {
		ctx, span := s.provider.Tracer("http").Start(r.Context(), "POST /mcp", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		r, client = r.WithContext(ctx), span.SpanContext()
	}
	h := &benchHost{tools: toolset}
	h.caller.init(endpoint, part, caddyhttp.HandlerFunc(s.ServeHTTP), r, toolset, &h.caller.only)
	if protocol != "mcp" {
		h.caller.Call(r.Context(), "getTrip", []byte(message)).Release()
		return client
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(message)), int64(len(message))
	w := httptest.NewRecorder()
	server := mcpadapter.New(mcpadapter.Options{Observe: func(o mcpadapter.Operation) { s.observed = append(s.observed, o) }})
	server.ServeHTTP(w, r, mcpadapter.Site{Host: h})
	return client
}

// span returns the only ended span with the name.
func (s *tracedSite) span(t *testing.T, name string) sdk.ReadOnlySpan {
	t.Helper()
	var names []string
	var found []sdk.ReadOnlySpan
	for _, span := range s.spans.Ended() {
		if names = append(names, span.Name()); span.Name() == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q, want 1; the spans are %q", len(found), name, names)
	}
	return found[0]
}

// value returns an attribute of a span as text, "" if it is absent.
func value(span sdk.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

const tracedMessage = `{"jsonrpc":"2.0","id":"q-1","method":"tools/call","params":{"name":"getTrip","arguments":{"id":"secret-7","limit":10}}}`

func TestTrace_call_by_MCP(t *testing.T) {
	s := newTracedSite()
	client := s.call(t, "mcp", tracedMessage, true)
	call, request := s.span(t, "tools/call getTrip"), s.span(t, "GET /trips/{id}")
	for key, want := range map[attribute.Key]string{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "getTrip",
		"mcp.protocol.version": "2025-06-18", "jsonrpc.request.id": "q-1", "error.type": "",
	} {
		if got := value(call, key); got != want {
			t.Errorf("the span of the call has %s = %q, want %q", key, got, want)
		}
	}
	for key, want := range map[attribute.Key]string{
		"http.request.method": "GET", "url.template": "/trips/{id}", "http.response.status_code": "200", "error.type": "",
	} {
		if got := value(request, key); got != want {
			t.Errorf("the span of the request has %s = %q, want %q", key, got, want)
		}
	}
	if call.SpanKind() != trace.SpanKindServer || request.SpanKind() != trace.SpanKindClient {
		t.Errorf("the spans have the kinds %v and %v", call.SpanKind(), request.SpanKind())
	}
	if call.Parent().SpanID() != client.SpanID() || request.Parent().SpanID() != call.SpanContext().SpanID() {
		t.Error("the spans are not below each other")
	}
	if want := "00-" + client.TraceID().String() + "-" + request.SpanContext().SpanID().String() + "-01"; s.request.Get("Traceparent") != want {
		t.Errorf("the API got traceparent %q, want %q", s.request.Get("Traceparent"), want)
	}
	if events := call.Events(); len(events) != 1 || events[0].Name != calltrace.EventDecision {
		t.Errorf("the events of the call are %v, want the decision", events)
	}
}

func TestTrace_parent_in_meta(t *testing.T) {
	const (
		traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
		valid   = "00-" + traceID + "-00f067aa0ba902b7-01"
	)
	for name, c := range map[string]struct {
		parent string
		used   bool
	}{
		"valid":      {valid, true},
		"zero":       {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
		"text":       {"hello", false},
		"too long":   {valid + "-" + strings.Repeat("0", 4096), false},
		"upper case": {strings.ToUpper(valid), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTracedSite()
			meta := `"params":{"_meta":{"traceparent":"` + c.parent + `","tracestate":"rojo=00f067aa0ba902b7"},`
			client := s.call(t, "mcp", strings.Replace(tracedMessage, `"params":{`, meta, 1), true)
			call := s.span(t, "tools/call getTrip")
			want := client.TraceID().String()
			if c.used {
				want = traceID
			}
			if got := call.SpanContext().TraceID().String(); got != want {
				t.Errorf("the span belongs to the trace %s, want %s", got, want)
			}
			linked := slices.ContainsFunc(call.Links(), func(l sdk.Link) bool { return l.SpanContext.SpanID() == client.SpanID() })
			if linked != c.used {
				t.Errorf("the span links to the HTTP request: %v, want %v", linked, c.used)
			}
			if state := s.request.Get("Tracestate"); (state != "") != c.used {
				t.Errorf("the API got tracestate %q", state)
			}
		})
	}
}

func TestTrace_failures(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		status  int
		span    string
		failed  string
		metric  mcpadapter.Operation
	}{
		"API":       {tracedMessage, 503, "tools/call getTrip", "api_error", mcpadapter.Operation{Tool: "getTrip", Error: "api_error"}},
		"arguments": {strings.Replace(tracedMessage, `"limit":10`, `"limit":"x"`, 1), 0, "tools/call getTrip", "invalid", mcpadapter.Operation{Tool: "getTrip", Error: "invalid"}},
		"unknown":   {strings.Replace(tracedMessage, "getTrip", "noSuchTool", 1), 0, "tools/call", "unknown_tool", mcpadapter.Operation{Error: "unknown_tool"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTracedSite()
			s.status = c.status
			s.call(t, "mcp", c.message, true)
			call := s.span(t, c.span)
			if got := value(call, "error.type"); got != c.failed || call.Status().Code != codes.Error {
				t.Errorf("error.type is %q and the status is %v, want %q and an error", got, call.Status(), c.failed)
			}
			if len(s.observed) != 1 {
				t.Fatalf("observed %+v, want %+v", s.observed, c.metric)
			}
			if got, want := s.observed[0], c.metric; got.Tool != want.Tool || got.Error != want.Error || got.Method != "tools/call" {
				t.Errorf("observed %+v, want tools/call with %+v", got, want)
			}
			if c.status != 0 {
				if request := s.span(t, "GET /trips/{id}"); value(request, "error.type") == "" {
					t.Error("the span of the request has no error.type")
				}
			}
		})
	}
}

func TestTrace_call_by_OTC(t *testing.T) {
	s := newTracedSite()
	client := s.call(t, "otc", `{"id":"secret-7"}`, true)
	if call := s.span(t, "execute_tool getTrip"); call.Parent().SpanID() != client.SpanID() || value(call, "gen_ai.tool.name") != "getTrip" {
		t.Errorf("the span of the call is %v", call)
	}
}

func TestTrace_has_no_arguments(t *testing.T) {
	s := newTracedSite()
	s.call(t, "mcp", tracedMessage, true)
	s.call(t, "otc", `{"id":"secret-7"}`, true)
	for _, stub := range tracetest.SpanStubsFromReadOnlySpans(s.spans.Ended()) {
		texts := []string{stub.Name, stub.Status.Description}
		for _, a := range stub.Attributes {
			texts = append(texts, a.Value.String())
		}
		for _, text := range texts {
			if strings.Contains(text, "secret") {
				t.Errorf("the span %q has the argument: %q", stub.Name, text)
			}
		}
	}
}

func TestTrace_off(t *testing.T) {
	s := newTracedSite()
	s.call(t, "mcp", tracedMessage, false)
	if ended := s.spans.Ended(); len(ended) != 0 {
		t.Errorf("%d spans were made without tracing", len(ended))
	}
	if parent := s.request.Get("Traceparent"); parent != "" {
		t.Errorf("the API got traceparent %q", parent)
	}
	ctx := context.WithValue(sitetest.EndpointRequest().Context(), caddy.CtxKey("x"), 1)
	if n := testing.AllocsPerRun(100, func() {
		if trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the context has no span")
		}
		calltrace.Decision(ctx, calltrace.EventDecision, "clerk", "allowed", "")
	}); n != 0 {
		t.Errorf("the check allocates %v times", n)
	}
}
