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

// requirementKind says under which name OTC lists the credentials of a security scheme.
type requirementKind uint8

const (
	requireNothing       requirementKind = iota // not possible in a call: a client certificate, an undefined scheme
	requireAuthorization                        // a token: oauth2, openIdConnect, or http except basic
	requireSecret                               // an API key, or user:password
)

// A requirement is a credential that a tool needs in addition to its input (OTC 1.0, Tool
// Definition Schema, Requirements). Its id is the name of the security scheme.
type requirement struct {
	id     string
	kind   requirementKind
	scheme *ocp.SecurityScheme
	scopes []string
}

// kindOf returns how the credentials of a scheme are listed.
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

// requirementsOf returns the alternatives of a tool's security, in the order of the document.
// The result is nil if the tool needs no credentials.
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
		alternatives = append(alternatives, nil) // comes last, so that credentials that a call brings are used
	}
	return alternatives
}

// demanded returns the alternative that is listed to clients. It is the document's first one,
// because OTC cannot express alternatives. The result is nil if the tool also runs without
// credentials.
func demanded(alternatives [][]requirement) []requirement {
	if len(alternatives) == 0 || alternatives[len(alternatives)-1] == nil {
		return nil
	}
	return alternatives[0]
}

// appendRequirements appends the member requirements, if there are any.
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

// appendRequirementList appends the requirements of one kind. More appends further members to
// each.
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

// A grant is the authorization of a call.
type grant struct {
	supplement *ocp.Supplement // nil if the call brings no credentials
	supplied   []requirement   // requirements whose credentials are in the supplement
	own        bool            // some of the credentials are in the caller's own headers
}

// byCaller reports whether the credentials for the API come from the caller, who can then renew
// rejected ones.
func (g *grant) byCaller() bool {
	return g.own || len(g.supplied) > 0
}

// authorize determines the authorization of a call. It prefers an alternative whose credentials
// are all in the call's context over one that also needs the caller's own headers. If no
// alternative is satisfied, the call runs without credentials from the caller, provided that
// the gateway adds credentials or the tool does not require any.
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

// every reports whether holds returns true for all requirements.
func every(all []requirement, holds func(requirement) bool) bool {
	return !slices.ContainsFunc(all, func(r requirement) bool { return !holds(r) })
}

// supply puts the credentials of the context where the security schemes require them.
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

// carries reports whether the caller's own request has the credentials of the scheme. They are
// forwarded with the call.
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

// Access describes what the access token allows that authenticated the caller.
type Access struct {
	Scopes   []string // scopes of the token
	Metadata string   // URL of the protected resource metadata (RFC 9728); "" if there is none
}

// admit rejects a caller whose token lacks the scopes of the tool, if the gateway would add its
// own credentials to the call.
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

// CheckAuthorizationURLs returns an error for URLs (Options.AuthorizationURLs) whose security
// scheme is in none of the Toolsets. Clients would never get such a URL.
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

// authorizationURL returns the URL at which a user gets the credentials of the requirement: the
// operator's or, if there is none, the document's. It returns "" if neither is set.
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
