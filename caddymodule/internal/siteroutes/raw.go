package siteroutes

import (
	"encoding/json"
	"net/http"
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
	return max(slices.IndexFunc(raw, containsEndpoint), 0)
}

// rawHandler is the part of a handler's configuration that the checks read.
type rawHandler struct {
	Handler string `json:"handler"`
	Routes  []struct {
		Handle []json.RawMessage `json:"handle"`
	} `json:"routes"`

	// of rewrite
	Method          string          `json:"method"`
	URI             string          `json:"uri"`
	StripPathPrefix string          `json:"strip_path_prefix"`
	StripPathSuffix string          `json:"strip_path_suffix"`
	URISubstring    json.RawMessage `json:"uri_substring"`
	PathRegexp      json.RawMessage `json:"path_regexp"`
	Query           json.RawMessage `json:"query"`

	headerOperations // of headers

	// of reverse_proxy
	Rewrite        json.RawMessage  `json:"rewrite"`
	HandleResponse json.RawMessage  `json:"handle_response"`
	Headers        headerOperations `json:"headers"`
	Transport      struct {
		Protocol string `json:"protocol"`
	} `json:"transport"`
}

// headerOperations are changes of request headers.
type headerOperations struct {
	Request struct {
		Add     http.Header                `json:"add"`
		Set     http.Header                `json:"set"`
		Replace map[string]json.RawMessage `json:"replace"`
	} `json:"request"`
}

// containsEndpoint reports whether a handler is a tool endpoint or contains one.
func containsEndpoint(raw json.RawMessage) bool {
	return anyRaw(raw, func(h rawHandler) bool { return slices.Contains(endpointNames, h.Handler) })
}

// anyRaw reports whether a handler, or one that it contains, satisfies the condition.
func anyRaw(raw json.RawMessage, condition func(rawHandler) bool) bool {
	var h rawHandler
	if json.Unmarshal(raw, &h) != nil {
		return false
	}
	for _, route := range h.Routes {
		if slices.ContainsFunc(route.Handle, func(below json.RawMessage) bool { return anyRaw(below, condition) }) {
			return true
		}
	}
	return condition(h)
}
