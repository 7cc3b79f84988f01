package caddymodule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/otlptest"
)

// spanCollector receives the spans that Caddy exports over OTLP.
type spanCollector struct {
	*otlptest.Collector
	t *testing.T
}

// collectSpans makes the tracing of the sites that the test starts export to the collector.
func collectSpans(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{otlptest.Start(t), t}
	for _, variable := range c.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return c
}

// named waits for count spans with the name, and returns them in the order of their beginnings.
func (c *spanCollector) named(name string, count int) (found []otlptest.Span) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d spans %q", count, name), func() bool {
		found = slices.DeleteFunc(c.All(), func(s otlptest.Span) bool { return s.GetName() != name })
		return len(found) >= count
	})
	if len(found) > count {
		c.t.Fatalf("%d spans are called %q, want %d", len(found), name, count)
	}
	slices.SortFunc(found, func(a, b otlptest.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) }) //nolint:gosec // a time
	return found
}

// span waits for the only span with the name.
func (c *spanCollector) span(name string) otlptest.Span {
	c.t.Helper()
	return c.named(name, 1)[0]
}
