package security

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// A Supplement is added to the request of one call in addition to its arguments:
// credentials of the gateway or of the caller, and information from a protocol for an API
// that uses it. It overrides the arguments and what is forwarded from the caller's
// request.
type Supplement struct {
	Header  http.Header   // replaces the headers with these names; names are canonical
	Query   url.Values    // replaces the query parameters with these names
	Cookies []http.Cookie // replaces the cookies with these names; only Name and Value are used

	Credentials bool // the supplement contains credentials, which must never be disclosed

	// Rejected are called if the API responds with 401. They make the gateway replace credentials, so that a further call
	// has others.
	Rejected []func()

	below *Supplement // applied before
}

type supplementKey struct{}

// ContextWithSupplement returns a context for Caller.Call that adds the supplement to the
// request. If the context already has a supplement, that one is applied first.
func ContextWithSupplement(ctx context.Context, s *Supplement) context.Context {
	over := *s
	over.below = SupplementFromContext(ctx)
	return context.WithValue(ctx, supplementKey{}, &over)
}

// SupplementFromContext returns the supplement of a call, or nil if it has none.
func SupplementFromContext(ctx context.Context) *Supplement {
	s, _ := ctx.Value(supplementKey{}).(*Supplement)
	return s
}

// Apply adds the supplement to a request before it is sent. A nil Supplement adds nothing.
func (s *Supplement) Apply(r *http.Request) {
	if s == nil {
		return
	}
	s.below.Apply(r)
	for name, values := range s.Header {
		r.Header[name] = append([]string(nil), values...)
	}
	if len(s.Query) > 0 {
		r.URL.RawQuery = supplementQuery(r.URL.RawQuery, s.Query)
	}
	if len(s.Cookies) > 0 {
		r.Header["Cookie"] = []string{supplementCookies(r.Header["Cookie"], s.Cookies)}
	}
}

// Remove removes from a request everything with the names that Apply sets. A nil
// Supplement removes nothing.
func (s *Supplement) Remove(r *http.Request) {
	if s == nil {
		return
	}
	s.below.Remove(r)
	for name := range s.Header {
		delete(r.Header, name)
	}
	if len(s.Query) > 0 {
		r.URL.RawQuery = strings.Join(otherPairs(r.URL.RawQuery, s.Query), "&")
	}
	if len(s.Cookies) > 0 {
		if kept := otherCookies(r.Header["Cookie"], s.Cookies); len(kept) > 0 {
			r.Header["Cookie"] = []string{strings.Join(kept, "; ")}
		} else {
			delete(r.Header, "Cookie")
		}
	}
}

// Secrets returns the parts that contain credentials.
func (s *Supplement) Secrets() (parts []*Supplement) {
	for ; s != nil; s = s.below {
		if s.Credentials {
			parts = append(parts, s)
		}
	}
	return parts
}

func supplementQuery(raw string, with url.Values) string {
	return strings.Join(append(otherPairs(raw, with), with.Encode()), "&")
}

// otherPairs returns the query pairs that are not replaced, with their original encoding,
// because a different encoding might change their meaning to the API.
func otherPairs(raw string, with url.Values) (kept []string) {
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if _, replaced := with[name]; !replaced && pair != "" {
			kept = append(kept, pair)
		}
	}
	return kept
}

func supplementCookies(lines []string, with []http.Cookie) string {
	kept := otherCookies(lines, with)
	for _, cookie := range with {
		kept = append(kept, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(kept, "; ")
}

// otherCookies returns the cookies that are not replaced.
func otherCookies(lines []string, with []http.Cookie) (kept []string) {
	replaced := make(map[string]bool, len(with))
	for _, cookie := range with {
		replaced[cookie.Name] = true
	}
	for pair := range strings.SplitSeq(strings.Join(lines, "; "), ";") {
		pair = strings.TrimSpace(pair)
		if name, _, _ := strings.Cut(pair, "="); pair != "" && !replaced[strings.TrimSpace(name)] {
			kept = append(kept, pair)
		}
	}
	return kept
}
