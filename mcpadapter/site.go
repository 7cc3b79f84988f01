package mcpadapter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/ocp"
)

// A Site is what stands around one request of the endpoint: the tools, what runs
// their calls, and who asks.
type Site struct {
	// Rest is the path below the endpoint's: "" or "/" for the endpoint itself,
	// "/sse" and "/message" for HTTP+SSE.
	Rest string

	// Base is the endpoint's path as the client wrote it, for clients that are
	// told where to send messages. Default: the request's path without Rest.
	Base string

	// Tools returns the tools of the moment, never nil.
	Tools func() *ocp.Toolset

	// Caller returns what runs calls of these tools. A stream asks for one again
	// for each message.
	Caller func(*ocp.Toolset) ocp.Caller

	// User is who has been authenticated, "" for nobody. A session belongs to
	// the user that began it.
	User string

	// Address is the client's address, by which streams are counted where there is
	// no user. Default: that of the connection.
	Address string

	// Identity names what the API sees of the caller. Streams of the same identity
	// share the requests by which they watch resources. Nil: no streams share them.
	Identity func() string

	// Access is what the user may do. Nil: everything.
	Access *Access

	// Login is what every caller of the endpoint needs to be let in. Nil: nothing, or
	// it is not known.
	Login *Login

	// Expires is when the credentials of the request expire, and with them the
	// streams and subscriptions that were opened with it. Zero: never. Over standard
	// input and output it ends nothing: whoever started the process has its
	// configuration.
	Expires time.Time
}

// Login is what the site requires of every caller. tools/list repeats it in
// securitySchemes (Apps SDK).
type Login struct {
	OAuth  bool     // an access token is accepted; otherwise only other credentials, such as API keys
	Scopes []string // that every access token needs
}

// key is the same for equal logins; "" for nil.
func (l *Login) key() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("login %t %q", l.OAuth, l.Scopes)
}

// Access is what an access token allows.
type Access struct {
	Scopes   []string // that the token has
	Metadata string   // URL of the protected resource metadata (RFC 9728), "" if there is none
}

// missing returns the scopes that a call of the tool needs beside those of the
// token; of several alternatives the one that is nearest. Nil means that the
// token allows the call. An alternative that asks for another credential in place
// of a token, such as an API key, is none to somebody who has a token: the key
// that the gateway itself has for the API must not make up for a scope.
func (a *Access) missing(tool *ocp.Tool, schemes map[string]*ocp.SecurityScheme) []string {
	if a == nil || len(tool.Security) == 0 {
		return nil
	}
	var nearest []string
	for _, requirement := range tool.Security {
		var lacking []string
		tokens := len(requirement) == 0 // which nobody needs
		for name, scopes := range requirement {
			if s := schemes[name]; s == nil || s.Type != "oauth2" && s.Type != "openIdConnect" {
				continue
			}
			tokens = true
			for _, scope := range scopes {
				if !slices.Contains(a.Scopes, scope) && !slices.Contains(lacking, scope) {
					lacking = append(lacking, scope)
				}
			}
		}
		if !tokens {
			continue
		}
		if len(lacking) == 0 {
			return nil
		}
		if nearest == nil || len(lacking) < len(nearest) {
			nearest = lacking
		}
	}
	slices.Sort(nearest)
	return nearest
}

// key names what is the same for all tokens with these scopes; "" without Access.
func (a *Access) key() string {
	if a == nil {
		return ""
	}
	scopes := slices.Clone(a.Scopes)
	slices.Sort(scopes)
	return "scopes " + strings.Join(slices.Compact(scopes), " ")
}
