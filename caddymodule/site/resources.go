package site

import (
	"cmp"
	"slices"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// Resources are what access tokens for the sites of one configuration are for, and the endpoints that are behind them. agent_auth, its metadata,
// agent_login and the endpoints share them, so that they have one idea of it. They are filled while the configuration is provisioned; afterwards, they do
// not change.
type Resources struct {
	all       []*Resource
	endpoints []siteEndpoint
}

// A Resource is what access tokens for a part of a site are for.
type Resource struct {
	Origin, Path string   // Origin is "" for that of each request, and Path for a whole site
	Own          bool     // the operator names no issuer
	Audience     string   // what the tokens have as aud; "" for the URL
	Login        Login    // the site's login, if its tokens are accepted
	Divisible    bool     // tokens of the login may be for single endpoints
	Required     []string // scopes that every token needs, and those that the operator lists
	Fixed        bool     // clients are to request no other scopes

	site Site
	of   *Resources // never nil
}

// siteEndpoint is a tool endpoint as its clients see it.
type siteEndpoint struct {
	site   Site
	path   string
	scopes func() []string // that its tools need
}

// AddEndpoint records a tool endpoint of the site. Path is that of its clients, and scopes returns what its tools need at the moment.
func (s *Resources) AddEndpoint(at Site, path string, scopes func() []string) {
	s.endpoints = append(s.endpoints, siteEndpoint{at, path, scopes})
}

// At returns the resource of a site with these fields. It is added if it is not known.
func (s *Resources) At(at Site, origin, path string, own bool) *Resource {
	for _, r := range s.all {
		if r.site.SameSite(at) && r.Origin == origin && r.Path == path && r.Own == own {
			return r
		}
	}
	r := &Resource{Origin: origin, Path: path, Own: own, site: at, of: s}
	s.all = append(s.all, r)
	return r
}

// OfLogin returns the resources for which the login of a site issues tokens. Origin is the login's.
func (s *Resources) OfLogin(at Site, origin string) (all oauth.Resources) {
	for _, r := range s.all {
		if r.Login == nil || !r.site.SameSite(at) {
			continue
		}
		address := cmp.Or(r.Origin, origin) + r.Path
		one := oauth.Resource{Audience: cmp.Or(r.Audience, address)}
		one.URL, _ = oauth.NormalResource(address) // cannot fail: agent_auth has checked it
		for _, e := range s.endpoints {
			if r.Divisible && e.site.SameSite(at) {
				one.Parts = append(one.Parts, origin+e.path)
			}
		}
		all = append(all, one)
	}
	return all
}

// Part returns the path of the endpoint of the resource that a path is at or below. It returns "" if there is none, or if tokens are for the whole resource.
func (r *Resource) Part(path string) (part string) {
	if !r.Divisible {
		return ""
	}
	for _, e := range r.of.endpoints {
		if e.site.SameSite(r.site) && oauth.IsWithin(path, e.path) && len(e.path) > len(part) {
			part = e.path
		}
	}
	return part
}

// Scopes returns the scopes that clients are to request for a path of the resource: those that every token needs, and unless the operator lists
// others, those of the login and of the tools behind its endpoints.
func (r *Resource) Scopes(path string) []string {
	if r.Fixed {
		return r.Required
	}
	scopes := slices.Clone(r.Required)
	if r.Login != nil {
		scopes = append(scopes, r.Login.ScopeNames()...)
	}
	for _, e := range r.of.endpoints {
		if e.site.SameSite(r.site) && (oauth.IsWithin(path, e.path) || oauth.IsWithin(e.path, path)) {
			scopes = append(scopes, e.scopes()...)
		}
	}
	known := make(map[string]bool, len(scopes))
	return slices.DeleteFunc(scopes, func(scope string) bool {
		defer func() { known[scope] = true }()
		return known[scope]
	})
}
