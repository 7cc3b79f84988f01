package otcadapter

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// requirementKind is under which name OTC asks for what a security scheme needs.
type requirementKind uint8

const (
	requireNothing       requirementKind = iota // what a call cannot bring: a client certificate, a scheme that nobody defined
	requireAuthorization                        // a token: oauth2, openIdConnect, http but basic
	requireSecret                               // an API key, or user:password
)

// A requirement is one thing that a tool needs beside its input (OTC 1.0, Tool
// Definition Schema, Requirements). Its id is the name of the security scheme.
type requirement struct {
	id     string
	kind   requirementKind
	scheme *ocp.SecurityScheme
	scopes []string
}

func kindOf(scheme *ocp.SecurityScheme) requirementKind {
	if scheme == nil {
		return requireNothing
	}
	switch scheme.Type {
	case "oauth2", "openIdConnect":
		return requireAuthorization
	case "apiKey":
		return requireSecret
	case "http":
		if scheme.Scheme == "basic" {
			return requireSecret
		}
		return requireAuthorization
	}
	return requireNothing
}

// requirementsOf returns the alternatives of a tool's security, in the document's
// order. Nil means that the tool needs nothing.
func requirementsOf(t *ocp.Tool, schemes map[string]*ocp.SecurityScheme) [][]requirement {
	alternatives := make([][]requirement, 0, len(t.Security))
	optional := false
	for _, named := range t.Security {
		var all []requirement
		for _, id := range slices.Sorted(maps.Keys(named)) {
			if kind := kindOf(schemes[id]); kind != requireNothing {
				all = append(all, requirement{id: id, kind: kind, scheme: schemes[id], scopes: named[id]})
			}
		}
		if len(all) == 0 {
			optional = true
			continue
		}
		alternatives = append(alternatives, all)
	}
	if optional {
		alternatives = append(alternatives, nil) // last: credentials that a call brings are used
	}
	return alternatives
}

// demanded returns the alternative that clients are told of: the document's
// first, as OTC has no way to write a choice. It is nil if the tool runs without.
func demanded(alternatives [][]requirement) []requirement {
	if len(alternatives) == 0 || alternatives[len(alternatives)-1] == nil {
		return nil
	}
	return alternatives[0]
}

// appendRequirements appends the member requirements, or nothing.
func appendRequirements(b []byte, needed []requirement) []byte {
	if len(needed) == 0 {
		return b
	}
	b = append(b, `,"requirements":{`...)
	b = appendRequirementList(b, "authorization", needed, requireAuthorization, func(b []byte, r requirement) []byte {
		if t := r.scheme.Type; t != "oauth2" && t != "openIdConnect" {
			return b
		}
		b = append(b, `,"oauth2":{"scopes":`...)
		b = appendStrings(b, r.scopes)
		return append(b, '}')
	})
	b = appendRequirementList(b, "secrets", needed, requireSecret, nil)
	return append(b, '}')
}

// appendRequirementList appends those of one kind, each with what more adds.
func appendRequirementList(b []byte, name string, all []requirement, kind requirementKind, more func([]byte, requirement) []byte) []byte {
	first := true
	for _, r := range all {
		if r.kind != kind {
			continue
		}
		if first {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, name...)
			b = append(b, `":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"id":`...)
		b = wire.AppendString(b, r.id)
		if more != nil {
			b = more(b, r)
		}
		b = append(b, '}')
	}
	if first {
		return b
	}
	return append(b, ']')
}

// A grant is what a call is authorized with.
type grant struct {
	supplement *ocp.Supplement // nil if the call brings nothing
	supplied   []requirement   // what is in the supplement
	own        bool            // the caller's own headers stand in for some of it
}

// byCaller reports whether the caller has said who it is to the API, so that it
// can do something about being refused.
func (g *grant) byCaller() bool {
	return g.own || len(g.supplied) > 0
}

// authorize decides what a call of the tool is authorized with. An alternative
// that the call's context provides is taken before one that needs the caller's own
// headers too; without either the call goes as it is if the gateway holds
// credentials for the API itself or the tool can do without.
func (k *toolkit) authorize(tool *entry, c *callContext, r *http.Request, access *Access) (grant, *fault) {
	alternatives := tool.requirements
	if len(alternatives) == 0 {
		return grant{}, nil
	}
	provided := func(need requirement) bool {
		_, ok := c.credential(need.id)
		return ok
	}
	for _, all := range alternatives {
		if all != nil && every(all, provided) {
			return supply(all, c)
		}
	}
	if k.held {
		return grant{}, access.admit(tool)
	}
	own := func(need requirement) bool { return provided(need) || carries(r, need.scheme) }
	for _, all := range alternatives {
		if !every(all, own) {
			continue
		}
		g, f := supply(slices.DeleteFunc(slices.Clone(all), func(need requirement) bool { return !provided(need) }), c)
		g.own = len(g.supplied) < len(all)
		return g, f
	}
	missing := slices.DeleteFunc(slices.Clone(alternatives[0]), own)
	return grant{}, k.missingRequirements(tool, missing)
}

func every(all []requirement, holds func(requirement) bool) bool {
	return !slices.ContainsFunc(all, func(r requirement) bool { return !holds(r) })
}

// supply puts the credentials of the context where the schemes want them.
func supply(all []requirement, c *callContext) (grant, *fault) {
	if len(all) == 0 {
		return grant{}, nil
	}
	g := grant{supplement: &ocp.Supplement{Credentials: true}, supplied: all}
	for _, need := range all {
		value, _ := c.credential(need.id)
		if err := need.scheme.Supply(g.supplement, value); err != nil {
			return grant{}, unfitCredential(err)
		}
	}
	return g, nil
}

// carries reports whether the caller's own request has what the scheme wants:
// its header goes along with the call.
func carries(r *http.Request, scheme *ocp.SecurityScheme) bool {
	switch {
	case scheme.Type != "apiKey":
		return r.Header.Get("Authorization") != ""
	case scheme.In == "header":
		return len(r.Header[textproto.CanonicalMIMEHeaderKey(scheme.ParameterName)]) > 0
	case scheme.In == "cookie":
		_, err := r.Cookie(scheme.ParameterName)
		return err == nil
	}
	return false
}

// Access is what the token may do with which the caller has been let in.
type Access struct {
	Scopes   []string // that the token has
	Metadata string   // URL of the protected resource metadata (RFC 9728), "" if there is none
}

// admit refuses a caller whose token lacks the scopes of the tool, where the
// gateway would lend it credentials of its own.
func (a *Access) admit(tool *entry) *fault {
	if a == nil {
		return nil
	}
	var fewest []string
	for i, all := range tool.requirements {
		var lacking []string
		for _, need := range all {
			for _, scope := range need.scopes {
				if need.kind == requireAuthorization && !slices.Contains(a.Scopes, scope) && !slices.Contains(lacking, scope) {
					lacking = append(lacking, scope)
				}
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		if i == 0 || len(lacking) < len(fewest) {
			fewest = lacking
		}
	}
	return insufficientScope(tool.Name, fewest, a.Metadata)
}

// CheckAuthorizationURLs refuses URLs (Options.AuthorizationURLs) for security
// schemes that none of the Toolsets has: clients would never be told them.
func CheckAuthorizationURLs(urls map[string]string, sets ...*ocp.Toolset) error {
	var known []string
	for _, set := range sets {
		known = slices.AppendSeq(known, maps.Keys(set.SecuritySchemes))
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, id := range slices.Sorted(maps.Keys(urls)) {
		if slices.Contains(known, id) {
			continue
		}
		hint := "there are none"
		if near := nearest.Name(id, slices.Values(known)); near != "" {
			hint = "did you mean " + near + "?"
		} else if len(known) > 0 {
			hint = "there are: " + listed(known)
		}
		return fmt.Errorf("authorization_url of %s: no document here has a security scheme of that name; %s", quoted(id), hint)
	}
	return nil
}

// authorizationURL returns where a user gets what the requirement asks for: what
// the operator says, or else the document. It is empty if nobody says.
func (k *toolkit) authorizationURL(need requirement) string {
	if configured := k.authorizationURLs[need.id]; configured != "" {
		return configured
	}
	for _, flow := range need.scheme.Flows {
		if strings.HasPrefix(flow.AuthorizationURL, "https://") || strings.HasPrefix(flow.AuthorizationURL, "http://") {
			return flow.AuthorizationURL
		}
	}
	return need.scheme.OpenIDConnectURL
}
