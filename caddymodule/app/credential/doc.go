// Package credential has the guest modules of the namespace agents.credentials: what the gateway sends to an API
// to authenticate a request.
//
//	agents.credentials.header  a header
//	agents.credentials.query   a query parameter
//	agents.credentials.basic   the header Authorization with a user and a password
//	agents.credentials.oauth   the header Authorization with an access token that an authorization server gives
//
// The value of a Personal module differs from user to user (personal.go).
//
// Each module implements Module. A Set (set.go) has the credentials of one toolset, identity or server. It also says
// which arguments of tools its credentials fill (fill.go). A host module has a field for the JSON of its
// credentials, reads them from a Caddyfile with Read, and loads them with Load:
//
//	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`
package credential

import (
	"context"
	"net/textproto"

	"github.com/caddyserver/caddy/v2"
)

// Namespace has the credentials. In JSON, the member inlineKey has the name of the module.
const (
	Namespace = "agents.credentials"
	inlineKey = "in"
)

// Module is a guest module of the namespace agents.credentials: a value for a header or a query parameter of requests
// to an API. Its methods are safe for concurrent use.
type Module interface {
	// Location returns where the credential goes. It depends on the options only, and may be called before
	// Provision.
	Location() Location

	// Secret returns the value that the credential has now. It is called for every request, so it should keep what it has
	// fetched. repl has no placeholders of a request: nothing of the caller may become part of the credential. ctx is that
	// of the request. If it returns an error or an empty value, the request is not sent. The error is logged, so it must
	// contain no secrets. The caller gets the message of a *CallError.
	Secret(ctx context.Context, repl *caddy.Replacer) (string, error)
}

// Checker is implemented by modules that know without a request over the network whether they have a value.
type Checker interface {
	// Check returns the reason why the credential has no value now. It is logged when the configuration is loaded.
	Check(repl *caddy.Replacer) error
}

// CallerBound is implemented by modules whose value may depend on the caller.
type CallerBound interface {
	// ForCaller reports whether the value depends on the access token of the caller.
	ForCaller() bool
}

// Renewer is implemented by modules that can replace a value that the API does not accept.
type Renewer interface {
	// Rejected reports that the API has responded with 401 to a request with the value. The next call of Secret must not
	// return it.
	Rejected(ctx context.Context, repl *caddy.Replacer, value string)
}

// Location is where a credential goes.
type Location struct {
	Query bool   // whether it is a query parameter, otherwise it is a header
	Name  string // of the header or the query parameter
}

// String describes the location for messages.
func (l Location) String() string {
	if l.Query {
		return "the query parameter " + l.Name
	}
	return "the header " + textproto.CanonicalMIMEHeaderKey(l.Name)
}
