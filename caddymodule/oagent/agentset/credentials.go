package agentset

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/ocp/security"
)

// CallerCredentials are the places in a request where callers send credentials for the APIs,
// according to the security schemes of their documents. The header Authorization is always
// included.
type CallerCredentials struct {
	Headers          []string // canonical names, without Authorization
	queries, cookies []string
}

func (c *CallerCredentials) add(schemes map[string]*security.Scheme) {
	for _, s := range schemes {
		if s.Type != "apiKey" {
			continue
		}
		switch s.In {
		case "header":
			c.Headers = append(c.Headers, textproto.CanonicalMIMEHeaderKey(s.ParameterName))
		case "query":
			c.queries = append(c.queries, s.ParameterName)
		case "cookie":
			c.cookies = append(c.cookies, s.ParameterName)
		}
	}
}

func (c *CallerCredentials) sort() {
	for _, names := range []*[]string{&c.Headers, &c.queries, &c.cookies} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
}

// In reports whether the request has credentials. further contains those in the query and in
// cookies, as pairs of name and value.
func (c *CallerCredentials) In(r *http.Request) (further []string, found bool) {
	found = r.Header.Get("Authorization") != "" ||
		slices.ContainsFunc(c.Headers, func(name string) bool { return r.Header.Get(name) != "" })
	if len(c.queries) > 0 && r.URL.RawQuery != "" {
		query := r.URL.Query()
		for _, name := range c.queries {
			if value := query.Get(name); value != "" {
				further = append(further, "query "+name, value)
			}
		}
	}
	for _, name := range c.cookies {
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
			further = append(further, "cookie "+name, cookie.Value)
		}
	}
	return further, found || len(further) > 0
}

// QueryCredentials returns the query parameters that may contain a caller's credentials.
func QueryCredentials(schemes map[string]*security.Scheme) (names []string) {
	for _, s := range schemes {
		switch {
		case s.Type == "http" && strings.EqualFold(s.Scheme, "bearer"), s.Type == "oauth2", s.Type == "openIdConnect":
			names = append(names, "access_token") // the other place of a bearer token (RFC 6750, section 2.3)
		case s.Type == "apiKey" && s.In == "query":
			names = append(names, s.ParameterName)
		}
	}
	return names
}
