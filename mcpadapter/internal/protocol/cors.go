package protocol

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS rules: what pages of other origins may send and read. Browsers ask with a preflight request
// and check the headers of each response (Fetch, HTTP extensions). Only configured origins get CORS
// headers. Credentials mode is never allowed, so browsers add no cookies: a page has to send a token
// of its own.
const (
	sharedMethods = "POST, GET, DELETE"

	// sharedHeaders are the headers that MCP clients send. Headers that a preflight asks for are
	// added.
	sharedHeaders = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"

	// exposedHeaders are the response headers that a page may read.
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate, Retry-After, Allow"

	// preflightAge is how long browsers may cache the response to a preflight.
	preflightAge = time.Hour

	maxAskedHeaders = 1 << 10 // bytes of Access-Control-Request-Headers that are read; the rest is ignored
)

// setCORSHeaders sets the CORS headers that let a page read the response. checkOrigin has already accepted
// the page's origin.
func (p *PageRules) setCORSHeaders(header http.Header, r *http.Request) {
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return
	case p.origins["*"]:
		origin = "*"
	case !p.origins[normalOrigin(origin)]:
		return // a page of this site needs no CORS headers
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposedHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", sharedMethods)
	header.Set("Access-Control-Allow-Headers", withRequestedHeaders(r.Header.Values("Access-Control-Request-Headers")))
	header.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightAge.Seconds())))
}

// withRequestedHeaders returns sharedHeaders and the valid header names in asked: tool arguments (Mcp-Param-…),
// API keys, and headers for handlers in front of this server. Preflights come before authentication,
// so withRequestedHeaders reads only maxAskedHeaders bytes.
func withRequestedHeaders(asked []string) string {
	list, left := sharedHeaders, maxAskedHeaders
	for _, names := range asked {
		for name := range strings.SplitSeq(names, ",") {
			if left -= len(name) + len(","); left < 0 {
				return list
			}
			if name = strings.TrimSpace(name); isToken(name) && !hasToken(list, name) {
				list += ", " + name
			}
		}
	}
	return list
}

func hasToken(list, name string) bool {
	return slices.ContainsFunc(strings.Split(list, ", "), func(one string) bool { return strings.EqualFold(one, name) })
}

// isToken reports whether s is a valid header name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}
