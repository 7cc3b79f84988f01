package caddymodule_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanCollector receives the spans that Caddy exports over OTLP.
type spanCollector struct {
	t     *testing.T
	mu    sync.Mutex
	spans []*tracepb.Span
}

// collectSpans makes the tracing of the sites that the test starts export to the collector.
func collectSpans(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "5") // milliseconds
	return c
}

func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			c.t.Errorf("the export is not gzip: %v", err)
			return
		}
		body = unzipped
	}
	encoded, err := io.ReadAll(body)
	request := new(collector.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(encoded, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("export to %s: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// exportedSpan is a span that the collector has received.
type exportedSpan struct {
	*tracepb.Span
	trace, id, parent string // in hexadecimal digits
	attributes        map[string]string
}

func exported(s *tracepb.Span) exportedSpan {
	return exportedSpan{s, hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), attributesOf(s.GetAttributes())}
}

func attributesOf(list []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		default:
			all[a.GetKey()] = fmt.Sprint(v)
		}
	}
	return all
}

// all returns the spans so far.
func (c *spanCollector) all() (spans []exportedSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		spans = append(spans, exported(s))
	}
	return spans
}

// named waits for count spans with the name, and returns them in the order of their beginnings.
func (c *spanCollector) named(name string, count int) (found []exportedSpan) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d spans %q", count, name), func() bool {
		found = slices.DeleteFunc(c.all(), func(s exportedSpan) bool { return s.GetName() != name })
		return len(found) >= count
	})
	if len(found) > count {
		c.t.Fatalf("%d spans are called %q, want %d", len(found), name, count)
	}
	slices.SortFunc(found, func(a, b exportedSpan) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) }) //nolint:gosec // a time
	return found
}

// span waits for the only span with the name.
func (c *spanCollector) span(name string) exportedSpan {
	c.t.Helper()
	return c.named(name, 1)[0]
}

// below checks that a span is a child of another one.
func (s exportedSpan) below(t *testing.T, parent exportedSpan) {
	t.Helper()
	if s.parent != parent.id || s.trace != parent.trace {
		t.Errorf("the parent of %q is %s of trace %s, want %q, which is %s of %s", s.GetName(), s.parent, s.trace, parent.GetName(), parent.id, parent.trace)
	}
}

// has checks attributes of a span. The value "" means that it has no such attribute.
func (s exportedSpan) has(t *testing.T, attributes map[string]string) {
	t.Helper()
	for key, want := range attributes {
		if got := s.attributes[key]; got != want {
			t.Errorf("%q has %s = %q, want %q", s.GetName(), key, got, want)
		}
	}
}

// event returns the attributes of the only event with the name.
func (s exportedSpan) event(t *testing.T, name string) map[string]string {
	t.Helper()
	var found []map[string]string
	for _, e := range s.GetEvents() {
		if e.GetName() == name {
			found = append(found, attributesOf(e.GetAttributes()))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q has %d events %s, want 1", s.GetName(), len(found), name)
	}
	return found[0]
}

// without checks that no name, attribute, event or link of a span has the text.
func (c *spanCollector) without(text string) {
	c.t.Helper()
	for _, s := range c.all() {
		if strings.Contains(s.String(), text) {
			c.t.Errorf("the span %q has %q: %s", s.GetName(), text, s)
		}
	}
}
