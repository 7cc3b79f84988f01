package protocol

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/tools"
)

// CheckScopes returns a fault if an access token lacks scopes that a tool of tools needs. Nil access allows everything. The
// WWW-Authenticate challenge lists the scopes of tools.Access.Challenge (RFC 6750, section 3.1).
func CheckScopes(access *tools.Access, t *tools.Tool, toolset *tools.Toolset) *Fault {
	if access == nil {
		return nil
	}
	missing := access.Missing(t, toolset)
	if missing == nil {
		return nil
	}
	f := Faultf(http.StatusForbidden, InvalidRequest,
		"the access token does not allow %s: it lacks %s", t.Name, strings.Join(missing, ", "))
	f.Challenge = `Bearer error="insufficient_scope", scope="` + scopeList(access.Challenge(t, toolset)) + `"`
	if metadata := access.Metadata; metadata != "" {
		f.Challenge += `, resource_metadata=` + strconv.QuoteToASCII(metadata)
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
		if !isScope(scope) || length+len(scope) >= maxScopes {
			continue
		}
		length += len(scope) + 1
		list = append(list, scope)
	}
	return strings.Join(list, " ")
}

func isScope(scope string) bool {
	return scope != "" && !strings.ContainsFunc(scope, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}
