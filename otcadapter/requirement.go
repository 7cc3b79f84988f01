package otcadapter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
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
func requirementsOf(t *tools.Tool, schemes map[string]*security.Scheme) [][]requirement {
	alternatives := make([][]requirement, 0, len(t.Plan.Security))
	optional := false
	for _, named := range t.Plan.Security {
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

// requirementLists are requirements as clients get them.
type requirementLists struct {
	Authorization []listedRequirement `json:"authorization,omitempty"`
	Secrets       []listedRequirement `json:"secrets,omitempty"`
}

type listedRequirement struct {
	ID     string        `json:"id"`
	OAuth2 *listedScopes `json:"oauth2,omitzero"` // in a definition
	URL    *string       `json:"url,omitzero"`    // in a fault
}

type listedScopes struct {
	Scopes []string `json:"scopes"`
}

// listRequirements sorts requirements by their kind. Describe adds to a token what its list says about it.
func listRequirements(all []requirement, describe func(requirement, *listedRequirement)) *requirementLists {
	lists := new(requirementLists)
	for _, r := range all {
		listed := listedRequirement{ID: r.id}
		if r.kind == requireSecret {
			lists.Secrets = append(lists.Secrets, listed)
			continue
		}
		describe(r, &listed)
		lists.Authorization = append(lists.Authorization, listed)
	}
	return lists
}

// CheckAuthorizationURLs returns an error for URLs (Options.AuthorizationURLs) whose security
// scheme is in none of the Toolsets. Clients would never get such a URL.
func CheckAuthorizationURLs(urls map[string]string, sets ...*tools.Toolset) error {
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
		if similar := text.Nearest(id, slices.Values(known)); similar != "" {
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
