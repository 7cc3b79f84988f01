package otcadapter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
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
	scheme *security.Scheme
	scopes []string
}

// kindOf returns how the credentials of a scheme are listed.
func kindOf(scheme *security.Scheme) requirementKind {
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
func requirementsOf(t *tool.Tool, schemes map[string]*security.Scheme) [][]requirement {
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

// listedRequirements returns the alternative that is listed to clients. It is the document's first one,
// because OTC cannot express alternatives. The result is nil if the tool also runs without
// credentials.
func listedRequirements(alternatives [][]requirement) []requirement {
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
		b = wire.AppendStrings(b, r.scopes)
		return append(b, '}')
	})
	b = appendRequirementList(b, "secrets", needed, requireSecret, nil)
	return append(b, '}')
}

// appendRequirementList appends the requirements of one kind. AppendMembers appends further members to
// each.
func appendRequirementList(b []byte, name string, all []requirement, kind requirementKind, appendMembers func([]byte, requirement) []byte) []byte {
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
		if appendMembers != nil {
			b = appendMembers(b, r)
		}
		b = append(b, '}')
	}
	if first {
		return b
	}
	return append(b, ']')
}

// CheckAuthorizationURLs returns an error for URLs (Options.AuthorizationURLs) whose security
// scheme is in none of the Toolsets. Clients would never get such a URL.
func CheckAuthorizationURLs(urls map[string]string, sets ...*tool.Toolset) error {
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
		hint := "the documents have none"
		if similar := nearest.Name(id, slices.Values(known)); similar != "" {
			hint = "did you mean " + similar + "?"
		} else if len(known) > 0 {
			hint = "there are: " + joinNames(known)
		}
		return fmt.Errorf("authorization_url %s: no document has a security scheme with this name; %s", quoted(id), hint)
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
