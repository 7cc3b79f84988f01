package oauth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Resource is what access tokens are for, as the authorization server and the resource servers of one site see it (RFC 8707).
type Resource struct {
	URL      string // in normal form
	Audience string // of its tokens; default: URL

	// Parts are URLs below URL. A token for one of them is accepted there only.
	Parts []string
}

// Resources are all resources of an authorization server.
type Resources []Resource

// NormalResource returns the form in which resources are compared: scheme and host in lower case, without the default port and a final slash.
func NormalResource(text string) (string, error) {
	if err := CheckResource(text); err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	host := strings.ToLower(u.Host)
	if name, isDefault := strings.CutSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme]); isDefault {
		host = name
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// OriginOf returns the scheme and host that a request was sent to, in normal form.
func OriginOf(r *http.Request) string {
	scheme, defaultPort := "http", ":80"
	if r.TLS != nil {
		scheme, defaultPort = "https", ":443"
	}
	return scheme + "://" + strings.TrimSuffix(strings.ToLower(r.Host), defaultPort)
}

// IsWithin reports whether a path or URL is the other one or below it.
func IsWithin(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '/')
}

// Audiences returns the audiences of a token for what a client names, in normal form. Its origin means all resources. Otherwise it is the resource, or
// the part of one, that is the nearest. There are none if no resource accepts such a token.
func (all Resources) Audiences(named, origin string) (audiences []string) {
	nearest := -1
	consider := func(at, audience string) {
		if IsWithin(named, at) && len(at) > nearest {
			nearest, audiences = len(at), []string{audience}
		}
	}
	for _, r := range all {
		if named == origin {
			if !slices.Contains(audiences, r.audience()) {
				audiences = append(audiences, r.audience())
			}
			continue
		}
		consider(r.URL, r.audience())
		if normal, err := NormalResource(r.Audience); err == nil {
			consider(normal, r.Audience)
		}
		for _, part := range r.Parts {
			consider(part, part)
		}
	}
	return audiences
}

func (r *Resource) audience() string {
	if r.Audience != "" {
		return r.Audience
	}
	return r.URL
}

// List returns the URLs that clients may name.
func (all Resources) List() (urls []string) {
	for _, r := range all {
		urls = append(append(urls, r.URL), r.Parts...)
	}
	return urls
}
