package testkit

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// SpanCollector receives spans over OTLP.
type SpanCollector struct {
	URL string

	t     testing.TB
	mu    sync.Mutex
	spans []*tracepb.Span
}

// CollectSpans starts a SpanCollector, which runs until the end of the test.
func CollectSpans(t testing.TB) *SpanCollector {
	t.Helper()
	c := &SpanCollector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Environment returns the environment variables, NAME=value, with which Caddy exports to the Collector.
func (c *SpanCollector) Environment() []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL,
		"OTEL_BSP_SCHEDULE_DELAY=5", // milliseconds
	}
}

// ServeHTTP takes an export.
func (c *SpanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Span is a span that the Collector has received.
type Span struct {
	*tracepb.Span

	Trace, ID, Parent string // in hexadecimal digits
	Attributes        map[string]string
}

// All returns the spans so far.
func (c *SpanCollector) All() (spans []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		spans = append(spans, Span{s, hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), attributesOf(s.GetAttributes())})
	}
	return spans
}

// Without checks that no name, attribute, event or link of a span has the text.
func (c *SpanCollector) Without(text string) {
	c.t.Helper()
	for _, s := range c.All() {
		if strings.Contains(s.String(), text) {
			c.t.Errorf("the span %q has %q: %s", s.GetName(), text, s)
		}
	}
}

// Below checks that a span is a child of another one.
func (s Span) Below(t testing.TB, parent Span) {
	t.Helper()
	if s.Parent != parent.ID || s.Trace != parent.Trace {
		t.Errorf("the parent of %q is %s of trace %s, want %q, which is %s of %s", s.GetName(), s.Parent, s.Trace, parent.GetName(), parent.ID, parent.Trace)
	}
}

// LinksTo reports whether a span has a link to another one.
func (s Span) LinksTo(other Span) bool {
	for _, link := range s.GetLinks() {
		if hex.EncodeToString(link.GetTraceId()) == other.Trace && hex.EncodeToString(link.GetSpanId()) == other.ID {
			return true
		}
	}
	return false
}

// Has checks attributes of a span. The value "" means that it has no such attribute.
func (s Span) Has(t testing.TB, attributes map[string]string) {
	t.Helper()
	for key, want := range attributes {
		if got := s.Attributes[key]; got != want {
			t.Errorf("%q has %s = %q, want %q", s.GetName(), key, got, want)
		}
	}
}

// Event returns the attributes of the only event with the name.
func (s Span) Event(t testing.TB, name string) map[string]string {
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
