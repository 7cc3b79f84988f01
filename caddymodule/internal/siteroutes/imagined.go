package siteroutes

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
)

// Call is an imaginary tool call of an endpoint.
type Call struct {
	Protocol string
	Toolset  *app.Toolset
	Tool     *tools.Tool // nil if the tools of the toolset are not loaded
	Agent    string      // that the endpoint is limited to; "" for none

	request *http.Request
	hosts   []string // of the site
	prefix  string   // of the path, before its first parameter
	exact   bool     // the path has no parameter
}

// parameter matches a parameter in the template of a path.
var parameter = regexp.MustCompile(`\{[^}]*\}`)

// call returns the imaginary call of a tool.
func (e *Endpoint) call(t *app.Toolset, tool *tools.Tool) *Call {
	if tool == nil {
		return &Call{Toolset: t}
	}
	template, err := url.PathUnescape(tool.Plan.Base + tool.Plan.Template)
	if err != nil {
		template = "/{}"
	}
	c := e.plainRequest(tool.Plan.Method, template)
	c.Protocol, c.Toolset, c.Tool, c.Agent = e.Protocol, t, tool, e.Agent()
	repl := c.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	for name, value := range map[string]string{"name": tool.Name, "toolset": t.Name, "protocol": e.Protocol} {
		repl.Set("http.tool."+name, value)
	}
	return c
}

// plainRequest returns an imaginary request to the site of the endpoint that is not a tool call.
func (e *Endpoint) plainRequest(method, template string) *Call {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	path := parameter.ReplaceAllString(template, "imaginary")
	c := &Call{hosts: hostsOf(e.positions[0].route()), exact: path == template}
	c.request = (&http.Request{Method: method, URL: &url.URL{Path: path}}).WithContext(ctx)
	c.prefix, _, _ = strings.Cut(strings.ToLower(template), "{")
	return c
}

// Replace replaces the placeholders in a text. Those that depend on the caller remain.
func (c *Call) Replace(text string) string {
	return c.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceKnown(text, "")
}

// matches is for way.matches.
func (c *Call) matches(sets caddyhttp.MatcherSets, rewritten bool) (matches certainty) {
	for _, set := range sets {
		all := always
		for _, m := range set {
			all = min(all, c.match(m, rewritten))
		}
		matches = max(matches, all)
	}
	return matches
}

// ofTool matches the expressions that depend on nothing but the tool.
var ofTool = regexp.MustCompile(`^(\{http\.tool\.(name|toolset|protocol)\}|"[^"{\\]*"|'[^'{\\]*'|\bin\b|\.(startsWith|endsWith|contains)\(|[\s()\[\],!=&|])*$`)

// match returns whether the call matches a matcher. It returns maybe if that depends on the caller or on arguments.
func (c *Call) match(matcher any, rewritten bool) certainty {
	known := c.request != nil && !rewritten
	switch m := matcher.(type) {
	case *caddyhttp.MatchNot:
		return always - c.matches(m.MatcherSets, rewritten)
	case *caddyhttp.MatchExpression:
		if c.Tool != nil && ofTool.MatchString(m.Expr) {
			return c.evaluate(m)
		}
	case *caddyhttp.MatchHost:
		if len(c.hosts) > 0 && !slices.ContainsFunc(c.hosts, func(host string) bool { return !slices.Contains(*m, host) }) {
			return always
		}
	case *caddyhttp.MatchMethod:
		if known {
			return c.evaluate(m)
		}
	case *caddyhttp.MatchPath:
		if known && (c.evaluate(m) == always || !slices.ContainsFunc(*m, c.mayMatch)) {
			return c.evaluate(m)
		}
	case *caddyhttp.MatchPathRE:
		if known && c.exact {
			return c.evaluate(m)
		}
	}
	return maybe
}

// evaluate returns the result of a matcher that depends on nothing but the call.
func (c *Call) evaluate(m caddyhttp.RequestMatcherWithError) certainty {
	matches, err := m.MatchWithError(c.request)
	switch {
	case err != nil:
		return maybe
	case matches:
		return always
	}
	return never
}

// mayMatch reports whether a pattern that does not match the path may match it with other arguments, or other values of placeholders.
func (c *Call) mayMatch(pattern string) bool {
	literal := pattern
	if i := strings.IndexAny(pattern, "*?[\\%{"); i >= 0 {
		literal = pattern[:i]
	}
	return strings.Contains(pattern, "{") || !c.exact && (strings.HasPrefix(literal, c.prefix) || strings.HasPrefix(c.prefix, literal))
}
