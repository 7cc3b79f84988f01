package oagent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// StaticIdentity is a set of credentials that a document's static_identity names.
type StaticIdentity struct {
	// The credentials to send to the API. Default: none; at least one is required.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`
}

// provisionIdentities checks the credentials.
func (o *Handler) provisionIdentities(ctx caddy.Context) error {
	o.identities = make(map[string]credential.Set, len(o.Identities))
	for name, identity := range o.Identities {
		if name == "" || identity == nil || len(identity.Credentials) == 0 {
			return fmt.Errorf("identity %q: an identity needs a name and credentials", name)
		}
		checked, err := credential.Load(ctx, identity.Credentials, o.logger)
		if err != nil {
			return fmt.Errorf("identity %q: %w", name, err)
		}
		o.identities[name] = checked
	}
	for _, name := range o.CallerHeaders {
		if err := checkCallerHeader(name); err != nil {
			return fmt.Errorf("caller_headers: %w", err)
		}
		o.callerHeaders = append(o.callerHeaders, textproto.CanonicalMIMEHeaderKey(name))
	}
	return nil
}

func checkCallerHeader(name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%q is not a valid header name", name)
	}
	return nil
}

// upstreamIdentity describes the changes to a request that make the API see the right
// credentials.
type upstreamIdentity struct {
	strip bool // remove the caller's credentials
	with  *security.Supplement
}

// chooseIdentity selects the credentials for the capability (oagent.Capability.Identity). The caller
// is known if the site has authenticated it, or if the request has credentials for the API.
func (g *guardedRequest) chooseIdentity() (upstreamIdentity, *refusalError) {
	c, op := g.capability, g.operation
	known := g.binding.User.ID != ""
	if !known && c.UserIdentity && !g.hasGatewayCredentials() {
		known = hasCredentials(g.r, op.Set.SecuritySchemes)
	}
	identity := c.Identity(known)
	switch {
	case identity.User:
		return upstreamIdentity{}, nil
	case identity.Static != "":
		with, err := g.handler.identities[identity.Static].Current(g.r.Context())
		if err != nil {
			return upstreamIdentity{}, g.refuse(kindIdentity, http.StatusServiceUnavailable, c.Rule()+".static_identity", fmt.Sprintf(
				"the call of %s was not made: the gateway has no credentials for identity %s; the operator must set them, see the log for the reason",
				g.name, identity.Static), err)
		}
		return upstreamIdentity{strip: true, with: with}, nil
	case c.UserIdentity:
		return upstreamIdentity{}, g.refuse(kindIdentity, 0, c.Rule()+".user_identity", fmt.Sprintf(
			"the call of %s was not made: it needs the identity of a user, and the request is not authenticated; log in first", g.name), nil)
	}
	// The tool needs no identity. The toolset's credentials, which the gateway injects into
	// each call, are not the caller's.
	if g.hasGatewayCredentials() {
		with, err := op.Toolset.Credentials.Current(g.r.Context())
		return upstreamIdentity{strip: true, with: with}, g.refuseMissingCredentials(err)
	}
	return upstreamIdentity{strip: true}, nil
}

func (g *guardedRequest) refuseMissingCredentials(err error) *refusalError {
	if err == nil {
		return nil
	}
	return g.refuse(kindIdentity, http.StatusServiceUnavailable, g.capability.Rule(),
		"the call of "+g.name+" was not made: the gateway has no credentials for it; the operator finds the reason in the log", err)
}

// hasGatewayCredentials reports whether the request is a tool call with the toolset's
// credentials.
func (g *guardedRequest) hasGatewayCredentials() bool {
	return g.call != nil && len(g.operation.Toolset.Credentials) > 0
}

// apply changes the request. further are names of headers to remove with the caller's
// credentials.
func (i upstreamIdentity) apply(r *http.Request, op *agentset.Operation, further []string) {
	if i.strip {
		stripCaller(r, op, further)
	}
	i.with.Apply(r)
}

// removeForwardedTargets removes the headers in which proxies report the original method and
// path. A server that routes by these headers would run another operation than the one that
// was checked.
func removeForwardedTargets(header http.Header) {
	for name := range header {
		if headerkind.Of(name) == headerkind.ForwardedTarget {
			delete(header, name)
		}
	}
}

// declaresHeader reports whether a header is an argument of the tool.
func declaresHeader(t *tool.Tool, name string) bool {
	return slices.ContainsFunc(t.RuleArguments(), func(a tool.Argument) bool {
		return a.In == tool.InHeader && strings.EqualFold(a.WireName, name)
	})
}

// hasCredentials reports whether the request has credentials according to the security
// schemes of the API's document.
func hasCredentials(r *http.Request, schemes map[string]*security.Scheme) bool {
	if r.Header.Get("Authorization") != "" {
		return true
	}
	for _, s := range schemes {
		if s.Type != "apiKey" {
			continue
		}
		switch s.In {
		case "header":
			if r.Header.Get(s.ParameterName) != "" {
				return true
			}
		case "query":
			if r.URL.Query().Get(s.ParameterName) != "" {
				return true
			}
		case "cookie":
			if _, err := r.Cookie(s.ParameterName); err == nil {
				return true
			}
		}
	}
	return false
}

// stripCaller removes everything that identifies the caller from a request: Authorization, all
// cookies, the API keys that the document names, and headers that name a user. It keeps
// headers that the document declares as arguments.
func stripCaller(r *http.Request, op *agentset.Operation, further []string) {
	schemes := op.Set.SecuritySchemes
	headers := append([]string{"Authorization", "Proxy-Authorization", "Cookie"}, further...)
	for _, s := range schemes {
		if s.Type == "apiKey" && s.In == "header" {
			headers = append(headers, s.ParameterName)
		}
	}
	for i, name := range headers {
		headers[i] = headerkind.Canonical(name)
	}
	for name := range r.Header {
		if slices.Contains(headers, headerkind.Canonical(name)) || headerkind.NamesUser(name) && !declaresHeader(op.Tool, name) {
			delete(r.Header, name)
		}
	}
	r.URL.RawQuery = withoutQuery(r.URL.RawQuery, agentset.QueryCredentials(schemes))
	r.URL.User = nil
}

// withoutQuery removes query parameters. The others stay as written.
func withoutQuery(raw string, names []string) string {
	if raw == "" || len(names) == 0 {
		return raw
	}
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if pair != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}
