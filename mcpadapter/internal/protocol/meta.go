package protocol

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// ForwardedMeta returns the members of a request's _meta that are for the server that serves the request in the end: the
// trace context, and members with a prefix that is neither reserved for MCP (MCP 2025-11-25, _meta) nor Fairway's own. It
// returns nil if there are none.
func ForwardedMeta(meta jsontext.Value) jsontext.Value {
	if meta.Kind() != '{' {
		return nil
	}
	forwarded := strictjson.AppendWithout([]byte{'{'}, meta, func(w *strictjson.Walk) bool {
		name := strictjson.Text(w.Name)
		prefix, _, hasPrefix := strings.Cut(name, "/")
		labels := strings.Split(prefix, ".")
		switch {
		case w.Is("traceparent"), w.Is("tracestate"), w.Is("baggage"):
			return false
		case !hasPrefix, prefix == "io.github.fairwayhq":
			return true
		}
		return slices.Contains(labels, "modelcontextprotocol") || slices.Contains(labels, "mcp")
	})
	if len(forwarded) == 1 {
		return nil
	}
	return append(forwarded, '}')
}
