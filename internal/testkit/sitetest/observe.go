package sitetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit"
)

const MetricsRoute = "handle /metrics {\nmetrics\n}\n"

// Metrics are the metrics of a site with MetricsRoute.
type Metrics struct{ site *Site }

// MetricsOf returns the metrics of a site.
func MetricsOf(s *Site) Metrics { return Metrics{s} }

// Value returns the value of a metric, 0 if it is absent.
func (m Metrics) Value(name string) int {
	m.site.T.Helper()
	for line := range strings.Lines(m.site.Get("/metrics").Body) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				m.site.T.Fatal(line)
			}
			return n
		}
	}
	return 0
}

// Counter returns a function that waits until the counter is n more than now. Counters belong to the process, so sites of
// other tests have counted, too.
func (m Metrics) Counter(name string) (await func(n int)) {
	before := m.Value(name)
	return func(n int) {
		m.site.T.Helper()
		Eventually(m.site.T, fmt.Sprintf("%s to grow by %d", name, n), func() bool { return m.Value(name) == before+n })
	}
}

// Await waits for a line of the metrics: a gauge, or a counter with a label of the test's own.
func (m Metrics) Await(line string) {
	m.site.T.Helper()
	Eventually(m.site.T, "the metric "+line, func() bool {
		return strings.Contains(m.site.Get("/metrics").Body, line+"\n")
	})
}

// Archived returns the entries of the audit archive in DIR/audit.jsonl.
func Archived(s *Site) (entries []audit.Entry) {
	s.T.Helper()
	content, err := os.ReadFile(filepath.Join(s.Dir, "audit.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		s.T.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.T.Fatalf("%s: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// accessLogEntries returns the access log entries of requests to the path.
func accessLogEntries(s *Site, path string) (entries []map[string]any) {
	for line := range strings.Lines(s.Log()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) != nil || !strings.HasPrefix(entry["logger"].(string), "http.log.access") {
			continue
		}
		if request, _ := entry["request"].(map[string]any); request["uri"] == path {
			entries = append(entries, entry)
		}
	}
	return entries
}

// AccessLogEntry waits for the nth entry of the path and returns it.
func (s *Site) AccessLogEntry(path string, n int) map[string]any {
	s.T.Helper()
	var entries []map[string]any
	Eventually(s.T, "an access log entry of "+path, func() bool {
		entries = accessLogEntries(s, path)
		return len(entries) >= n
	})
	return entries[n-1]
}

// SpanCollector receives the spans that Caddy exports over OTLP.
type SpanCollector struct {
	*testkit.SpanCollector
	t *testing.T
}

// CollectSpans makes the tracing of the sites that the test starts export to the collector.
func CollectSpans(t *testing.T) *SpanCollector {
	t.Helper()
	c := &SpanCollector{testkit.CollectSpans(t), t}
	for _, variable := range c.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return c
}

// Named waits for count spans with the name, and returns them in the order of their beginnings.
func (c *SpanCollector) Named(name string, count int) (found []testkit.Span) {
	c.t.Helper()
	Eventually(c.t, fmt.Sprintf("%d spans %q", count, name), func() bool {
		found = slices.DeleteFunc(c.All(), func(s testkit.Span) bool { return s.GetName() != name })
		return len(found) >= count
	})
	if len(found) > count {
		c.t.Fatalf("%d spans are called %q, want %d", len(found), name, count)
	}
	slices.SortFunc(found, func(a, b testkit.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) }) //nolint:gosec // a time
	return found
}

// Span waits for the only span with the name.
func (c *SpanCollector) Span(name string) testkit.Span {
	c.t.Helper()
	return c.Named(name, 1)[0]
}

// Trace contexts that clients send.
const (
	ClientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	ClientSpan   = "00f067aa0ba902b7"
	ClientParent = "00-" + ClientTrace + "-" + ClientSpan + "-01"
)

const Tracing = "tracing {\n\tspan \"{http.request.method} {http.request.uri.path}\"\n}\n"

// WantOpen wants a log line for each of the endpoints, and for no others.
func WantOpen(t *testing.T, s *Site, level string, open []string) {
	t.Helper()
	for _, endpoint := range open {
		s.Logged(level, endpoint, "allow_anonymous")
	}
	if log := s.Log(); strings.Count(log, "is open to anonymous callers") != len(open) {
		t.Errorf("want %q in\n%s", open, log)
	}
}
