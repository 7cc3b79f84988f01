package ocp

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
)

func init() {
	caddy.RegisterModule(new(Matcher))
}

// Matcher matches requests by their OCP context. Each named field must match one of its
// patterns, and `valid` requires both required headers. A header that was ignored counts as
// absent. An absent header matches no pattern, not even `*`.
//
// After the handler `ocp`, the matcher uses what that handler has read, even if the handler has
// removed the headers. Before it, the matcher reads the headers itself, without `strict`.
//
// Agents choose these values. Use the matcher to distinguish requests, never to grant access.
type Matcher struct {
	// Whether OCP-Context-ID and OCP-Agent-Type must both be present and valid. Default: false.
	Valid bool `json:"valid,omitempty"`

	// Patterns by field: context_id, agent_type, current_goal, user, workspace, version or
	// session.<field>. In a pattern, * matches any number of characters. Patterns are
	// case-sensitive. A session is only decoded if everything else matches. Default: none.
	Fields map[string][]string `json:"fields,omitempty"`

	names []string // names of Fields, session fields last
}

// CaddyModule returns the Caddy module information.
func (*Matcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.ocp",
		New: func() caddy.Module { return new(Matcher) },
	}
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	ocp [valid] [<field> <pattern>]...
//
// The order does not matter. A field that is given more than once matches any of its patterns.
func (m *Matcher) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.CountRemainingArgs() == 0 {
			return d.Errf("the ocp matcher needs valid, or a field and a pattern, as in: agent_type ide_*; fields are %s", matchedNames)
		}
		for d.NextArg() {
			name := d.Val()
			if name == "valid" {
				m.Valid = true
				continue
			}
			if err := checkMatched(name); err != nil {
				return d.WrapErr(err)
			}
			if !d.NextArg() {
				return d.Errf("%s needs a pattern, as in: %s ide_*", name, name)
			}
			if m.Fields == nil {
				m.Fields = make(map[string][]string)
			}
			m.Fields[name] = append(m.Fields[name], d.Val())
		}
		if d.NextBlock(0) {
			return d.Err("malformed ocp matcher: blocks are not supported")
		}
	}
	return nil
}

// matchedNames lists, for messages, the fields that can be matched.
const matchedNames = "context_id, agent_type, current_goal, user, workspace, version and session.<field>"

// checkMatched returns an error if the field cannot be matched.
func checkMatched(name string) error {
	if _, known := contextField(noHeaders, name); !known {
		return fmt.Errorf("unknown field '%s'; known are %s", name, matchedNames)
	}
	return nil
}

// Provision checks the fields.
func (m *Matcher) Provision(caddy.Context) error {
	if !m.Valid && len(m.Fields) == 0 {
		return fmt.Errorf("the ocp matcher is empty; set valid or a field (%s)", matchedNames)
	}
	for name := range m.Fields {
		if err := checkMatched(name); err != nil {
			return err
		}
		if len(m.Fields[name]) == 0 {
			return fmt.Errorf("field %s has no pattern", name)
		}
	}
	m.names = slices.SortedFunc(maps.Keys(m.Fields), func(a, b string) int {
		inSession := func(name string) int { return strings.Count(name, ".") }
		if order := inSession(a) - inSession(b); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	return nil
}

// Match reports whether the request matches.
func (m *Matcher) Match(r *http.Request) bool {
	match, _ := m.MatchWithError(r)
	return match
}

// MatchWithError reports whether the request matches. There is never an error.
func (m *Matcher) MatchWithError(r *http.Request) (bool, error) {
	in := ocp.IncomingFromContext(r.Context())
	if in == nil {
		in = ocp.ReadIncoming(r.Header, ocp.ReadOptions{})
	}
	if in == nil || m.Valid && !in.Valid() {
		return false, nil
	}
	for _, name := range m.names {
		value, _ := contextField(in, name)
		matches := func(pattern string) bool { return matchGlob(pattern, value) }
		if value == "" || !slices.ContainsFunc(m.Fields[name], matches) {
			return false, nil
		}
	}
	return true, nil
}

// matchGlob reports whether the whole text matches a pattern in which * matches any
// characters. Its running time is at most proportional to the product of both lengths.
func matchGlob(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], after
	}
}

// CELLibrary makes the matcher a function of CEL expression matchers:
//
//	expression ocp({'agent_type': 'ide_*', 'valid': 'true'})
//	expression ocp({'agent_type': ['ide_*', 'cli_*'], 'session.current_file': '*.go'})
func (*Matcher) CELLibrary(ctx caddy.Context) (cel.Library, error) {
	return caddyhttp.CELMatcherImpl("ocp", "ocp_match_request", []*cel.Type{caddyhttp.CELTypeJSON},
		func(data ref.Val) (caddyhttp.RequestMatcherWithError, error) {
			fields, err := caddyhttp.CELValueToMapStrList(data)
			if err != nil {
				return nil, err
			}
			m := &Matcher{Fields: fields}
			if valid, requested := fields["valid"]; requested {
				if len(valid) != 1 || valid[0] != "true" {
					return nil, fmt.Errorf("ocp: the only value of 'valid' is 'true'; write !ocp({'valid': 'true'}) for the opposite")
				}
				m.Valid = true
				delete(fields, "valid")
			}
			return m, m.Provision(ctx)
		})
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*Matcher)(nil)
	_ caddyfile.Unmarshaler             = (*Matcher)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Matcher)(nil)
	_ caddyhttp.CELLibraryProducer      = (*Matcher)(nil)
)
