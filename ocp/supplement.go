package ocp

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// A Supplement is what goes into the request of one call beside its arguments:
// credentials that the gateway holds or that came with the call, and what a
// protocol tells an API that speaks it. It wins over the arguments and over what
// is carried along from the caller's own request.
type Supplement struct {
	Header  http.Header   // replaces the headers of these names, which are in canonical form
	Query   url.Values    // replaces the query parameters of these names
	Cookies []http.Cookie // replace the cookies of these names; only Name and Value count

	Credentials bool // that is what is in here: it must not be told to anybody

	below *Supplement // applied before
}

type supplementKey struct{}

// ContextWithSupplement returns a context for Caller.Call, whose request then has
// the supplement too. One that the context has already is applied before it.
func ContextWithSupplement(ctx context.Context, s *Supplement) context.Context {
	over := *s
	over.below = SupplementFromContext(ctx)
	return context.WithValue(ctx, supplementKey{}, &over)
}

// SupplementFromContext returns the supplement of a call, nil if it has none.
func SupplementFromContext(ctx context.Context) *Supplement {
	s, _ := ctx.Value(supplementKey{}).(*Supplement)
	return s
}

// Apply puts the supplement into a request that is not sent yet. Nil adds
// nothing.
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

// Remove takes out of a request what Apply has put into it, and so all else that
// stands there. Nil removes nothing.
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

// Secrets returns the parts that have credentials in them.
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

// otherPairs returns the pairs of a query that are not replaced, as they are written:
// encoding them anew might change what they mean to the API.
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
		if name, _, _ := strings.Cut(pair, "="); pair != "" && !replaced[name] {
			kept = append(kept, pair)
		}
	}
	return kept
}
