package mcpadapter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What pages of other origins may do with this server, which their browsers ask
// before and look for in each answer (Fetch, HTTP extensions). Only the origins that
// the configuration names are told. Cookies and other credentials that a browser adds
// by itself are never among it: a page has a token of its own.
const (
	sharedMethods = "POST, GET, DELETE"

	// sharedHeaders are those that clients send; what else a page asks for is added.
	sharedHeaders = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"

	// exposedHeaders are those that a page may read.
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate, Retry-After, Allow"

	// preflightAge is how long browsers may keep what they were told.
	preflightAge = time.Hour

	maxAskedHeaders = 1 << 10 // bytes of what a preflight asks for; what comes after them is not read
)

// share lets the page that a request comes from, whose origin has been admitted, read
// the answer.
func (s *Server) share(header http.Header, r *http.Request) {
	if len(s.origins) == 0 {
		return
	}
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return
	case s.origins["*"]:
		origin = "*"
	case !s.origins[normalOrigin(origin)]:
		return // the site's own
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposedHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", sharedMethods)
	header.Set("Access-Control-Allow-Headers", withAsked(r.Header.Values("Access-Control-Request-Headers")))
	header.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightAge.Seconds())))
}

// withAsked adds to the headers of the protocol those that a page asks for: arguments
// of tools (Mcp-Param-…), API keys, and whatever else is in front of this server. A
// preflight comes before authentication: only so much of it is looked at.
func withAsked(asked []string) string {
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
	for one := range strings.SplitSeq(list, ", ") {
		if strings.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// isToken reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}
