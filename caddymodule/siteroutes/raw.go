package siteroutes

import (
	"encoding/json"
	"slices"
)

// endpointNames are the names of the handlers that are tool endpoints.
var endpointNames = []string{"mcp", "otc"}

// endpointsIn returns the indexes of the handlers that are tool endpoints themselves.
func endpointsIn(handlers []json.RawMessage) (indexes []int) {
	for i, raw := range handlers {
		if slices.Contains(endpointNames, handlerName(raw)) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// handlerName returns the module name in the raw configuration of a handler.
func handlerName(raw json.RawMessage) string {
	var h struct {
		Handler string `json:"handler"`
	}
	_ = json.Unmarshal(raw, &h) // Caddy reports the error
	return h.Handler
}

// currentHandlerIndex returns the index of the first handler in the current route that is a tool
// endpoint or contains one. Caddy does not expose which handler is being provisioned, so a
// second endpoint in the same route may not get its warning.
func currentHandlerIndex(raw []json.RawMessage) int {
	for i, handler := range raw {
		if containsEndpoint(handler) {
			return i
		}
	}
	return 0
}

// rawHandler is the part of a handler's configuration that the checks read.
type rawHandler struct {
	Handler string `json:"handler"`
	Routes  []struct {
		Handle []json.RawMessage `json:"handle"`
	} `json:"routes"`
}

// containsEndpoint reports whether a handler is a tool endpoint or contains one.
func containsEndpoint(raw json.RawMessage) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return false
	}
	for _, route := range h.Routes {
		if slices.ContainsFunc(route.Handle, containsEndpoint) {
			return true
		}
	}
	return slices.Contains(endpointNames, h.Handler)
}
