package otcadapter

import (
	"net/http"
	"net/textproto"
	"slices"

	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A grant is the authorization of a call.
type grant struct {
	supplement *security.Supplement // nil if the call brings no credentials
	supplied   []requirement        // requirements whose credentials are in the supplement
	own        bool                 // some of the credentials are in the caller's own headers
}

// fromCaller reports whether the credentials for the API come from the caller, who can then renew
// rejected ones.
func (g *grant) fromCaller() bool {
	return g.own || len(g.supplied) > 0
}

// authorize determines the authorization of a call. It prefers an alternative whose credentials
// are all in the call's context over one that also needs the caller's own headers. If no
// alternative is satisfied, the call runs without credentials from the caller, provided that
// the gateway adds credentials or the tool does not require any.
func (k *toolkit) authorize(tool *entry, c *callContext, r *http.Request, access *tool.Access) (grant, *fault) {
	alternatives := tool.requirements
	if len(alternatives) == 0 {
		return grant{}, nil
	}
	provided := func(required requirement) bool {
		_, ok := c.credential(required.id)
		return ok
	}
	for _, all := range alternatives {
		if all != nil && allOf(all, provided) {
			return supplyCredentials(all, c)
		}
	}
	if k.injectsCredentials {
		return grant{}, k.checkScopes(tool, access)
	}
	available := func(required requirement) bool { return provided(required) || carriesCredential(r, required.scheme) }
	for _, all := range alternatives {
		if !allOf(all, available) {
			continue
		}
		g, f := supplyCredentials(slices.DeleteFunc(slices.Clone(all), func(required requirement) bool { return !provided(required) }), c)
		g.own = len(g.supplied) < len(all)
		return g, f
	}
	missing := slices.DeleteFunc(slices.Clone(alternatives[0]), available)
	return grant{}, k.missingRequirements(tool, missing)
}

// allOf reports whether condition returns true for all requirements.
func allOf(all []requirement, condition func(requirement) bool) bool {
	return !slices.ContainsFunc(all, func(r requirement) bool { return !condition(r) })
}

// supplyCredentials puts the credentials of the context where the security schemes require them.
func supplyCredentials(all []requirement, c *callContext) (grant, *fault) {
	if len(all) == 0 {
		return grant{}, nil
	}
	g := grant{supplement: &security.Supplement{Credentials: true}, supplied: all}
	for _, requirement := range all {
		value, _ := c.credential(requirement.id)
		if err := requirement.scheme.Supply(g.supplement, value); err != nil {
			return grant{}, invalidCredential(err)
		}
	}
	return g, nil
}

// carriesCredential reports whether the caller's own request has the credentials of the scheme. They are
// forwarded with the call.
func carriesCredential(r *http.Request, scheme *security.Scheme) bool {
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

// checkScopes rejects a caller whose token lacks the scopes of the tool, if the gateway would add
// its own credentials to the call.
func (k *toolkit) checkScopes(tool *entry, access *tool.Access) *fault {
	if missing := access.Missing(tool.Tool, k.tools); missing != nil {
		return insufficientScope(tool.Name, missing, access.Metadata)
	}
	return nil
}
