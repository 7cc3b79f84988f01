package siteroutes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// nullComparison matches a CEL comparison of a {http.tool.*} placeholder with null.
var nullComparison = regexp.MustCompile(`\{http\.tool\.(name|toolset|protocol)\}\s*[!=]=\s*null\b|` +
	`\bnull\s*[!=]=\s*\{http\.tool\.(name|toolset|protocol)\}`)

// checkToolExpressions returns an error if a matcher after the endpoint compares a
// {http.tool.*} placeholder with null. After an endpoint these placeholders are never null, so
// such a matcher would not protect anything.
func checkToolExpressions(positions []position) error {
	for _, p := range positions {
		for _, route := range p.routes[p.index:] {
			found := findNullComparison(route.MatcherSets)
			for _, raw := range route.HandlersRaw {
				if found == "" {
					found = string(nullComparison.Find(raw))
				}
			}
			if found != "" {
				return fmt.Errorf("the expression %s has the same result for every request: {http.tool.*} is an empty string, not null, "+
					`in requests that are not tool calls; compare it with "", or use tools_only`, found)
			}
		}
	}
	return nil
}

// findNullComparison returns the first comparison with null in the matchers. It returns "" if there is
// none.
func findNullComparison(sets caddyhttp.MatcherSets) string {
	for _, set := range sets {
		for _, m := range set {
			switch m := m.(type) {
			case *caddyhttp.MatchExpression:
				if found := nullComparison.FindString(m.Expr); found != "" {
					return found
				}
			case *caddyhttp.MatchNot:
				for _, inner := range m.MatcherSets {
					if found := findNullComparison(caddyhttp.MatcherSets{inner}); found != "" {
						return found
					}
				}
			}
		}
	}
	return ""
}

// DistinguishesToolsets reports whether a matcher or a handler that runs after the endpoint uses the
// placeholder {http.tool.toolset}.
func (e *Endpoint) DistinguishesToolsets() bool {
	uses := func(config []byte) bool { return bytes.Contains(config, []byte("http.tool.toolset")) }
	for _, at := range e.positions {
		for _, route := range at.routes[at.index:] {
			if slices.ContainsFunc(route.HandlersRaw, func(raw json.RawMessage) bool { return uses(raw) }) {
				return true
			}
			for _, matcher := range slices.Concat(route.MatcherSets...) {
				if config, err := json.Marshal(matcher); err == nil && uses(config) {
					return true
				}
			}
		}
	}
	return false
}
