package protocol

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// CheckScopes returns a fault if the request has no access token and a tool of tools needs one, or if the token lacks scopes. Nil access allows everything. The
// WWW-Authenticate challenge lists the scopes of tools.Access.Challenge (RFC 6750, section 3.1).
func CheckScopes(access *tools.Access, t *tools.Tool, toolset *tools.Toolset) *Fault {
	if access == nil {
		return nil
	}
	if challenge, needed := access.Login(t, toolset); needed {
		return loginFault(t.Name, challenge)
	}
	missing := access.Missing(t, toolset)
	if missing == nil {
		return nil
	}
	return scopeFault(access, t.Name, missing, access.Challenge(t, toolset))
}

// CheckNeeded is CheckScopes for a resource or a prompt that the operator has given scopes. No API checks them
// again, so a caller without an access token is refused too.
func CheckNeeded(access *tools.Access, name string, needed []string) *Fault {
	missing := access.Lacks(needed)
	if missing == nil {
		return nil
	}
	if access != nil && access.SignIn != nil {
		return loginFault(name, access.SignIn(needed))
	}
	return scopeFault(access, name, missing, access.Request(needed))
}

// loginFault returns the fault for a request without an access token. The challenge has no error (RFC 6750, section 3.1).
func loginFault(name, challenge string) *Fault {
	f := Faultf(http.StatusUnauthorized, InvalidRequest, "%s needs a login, and the request has no access token: log in and try again", text.Cut(name, text.MaxQuoted))
	f.Challenge = challenge
	return f
}

// scopeFault returns the fault for a name that the token does not allow, with the scopes to request.
func scopeFault(access *tools.Access, name string, missing, request []string) *Fault {
	f := Faultf(http.StatusForbidden, InvalidRequest,
		"the access token does not allow %s: it lacks %s", text.Cut(name, text.MaxQuoted), strings.Join(missing, ", "))
	f.Challenge = `Bearer error="insufficient_scope", scope="` + scopeList(request) + `"`
	if access != nil && access.Metadata != "" {
		f.Challenge += `, resource_metadata=` + strconv.QuoteToASCII(access.Metadata)
	}
	return f
}

// maxScopes is the maximum length of the scope list in a challenge, in bytes.
const maxScopes = 4 << 10

// scopeList returns the space-separated scope list of a challenge. It leaves out strings that are not valid
// scopes (RFC 6749, section 3.3).
func scopeList(scopes []string) string {
	var list []string
	length := 0
	for _, scope := range scopes {
		if !IsScope(scope) || length+len(scope) >= maxScopes {
			continue
		}
		length += len(scope) + 1
		list = append(list, scope)
	}
	return strings.Join(list, " ")
}

// IsScope reports whether the string is a valid scope (RFC 6749, section 3.3).
func IsScope(scope string) bool {
	return scope != "" && !strings.ContainsFunc(scope, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}
