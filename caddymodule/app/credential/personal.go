package credential

import (
	"context"
	"errors"
	"time"
)

// Personal is implemented by modules whose value is the secret of the user who makes the call. Only toolsets can have them.
type Personal interface {
	Module

	// Provider returns the name of the third party where users have their accounts. Modules with the same provider share the accounts.
	Provider() string

	// IsSame reports whether the other module has the same options.
	IsSame(other Personal) bool

	// Rejected is called when the API did not accept the value for the caller of the context.
	Rejected(ctx context.Context)
}

// Accounts are the accounts of users at third parties. Methods are called with a module that is Personal.
type Accounts interface {
	// SecretOf returns the secret of the caller's account. If there is none, the error is a *tools.Failure that says how the user connects one.
	SecretOf(ctx context.Context, of Personal, by *UserCall) (string, error)

	// Rejected marks the secret that the caller got as one that the API did not accept.
	Rejected(ctx context.Context, of Personal, by *UserCall)

	// Await reports when the user connects an account at a provider on another node, while the link of the failure can be used. It does not block.
	Await(user, provider string)
}

// A UserCall is a tool call, and the user who makes it. Its methods and those of Accounts are called one at a time.
type UserCall struct {
	User     string   // "" if the caller is not authenticated
	Tool     string   // title or name of the tool, for the user
	Accounts Accounts // nil if no site has them

	Sent map[string]string // secrets that the call has got, by provider
}

// Connection is an account of a user, as the operator sees it.
type Connection struct {
	User      string    `json:"user"`
	Provider  string    `json:"provider"`
	Account   string    `json:"account"`          // its label
	InUse     bool      `json:"in_use"`           // whether calls use it, of several at the provider
	Renews    bool      `json:"renews"`           // whether there is a refresh token
	Rejected  bool      `json:"rejected"`         // whether the API no longer accepts it
	Connected time.Time `json:"connected"`        // when the user connected it
	Expires   time.Time `json:"expires,omitzero"` // of the token; missing if that is unknown
}

// KeyPrefix is the prefix of the keys of the records with accounts.
const KeyPrefix = "connection/"

type userCallKey struct{}

// ContextWithUserCall returns a context for Current and Rejected of a set that IsPersonal.
func ContextWithUserCall(ctx context.Context, c *UserCall) context.Context {
	return context.WithValue(ctx, userCallKey{}, c)
}

// UserCallFrom returns the tool call of the context. It is nil for requests that are not tool calls of a client.
func UserCallFrom(ctx context.Context) *UserCall {
	c, _ := ctx.Value(userCallKey{}).(*UserCall)
	return c
}

// errPersonal reports a module where no user is known.
var errPersonal = errors.New("credential user can only be an option of a toolset: elsewhere it is not known whose account to use")

// Personal returns the modules of the set whose value depends on the user.
func (s Set) Personal() (all []Personal) {
	for i := range s {
		if p, ok := s[i].Module.(Personal); ok {
			all = append(all, p)
		}
	}
	return all
}

// IsPersonal reports whether the value of one of the credentials depends on the user.
func (s Set) IsPersonal() bool { return len(s.Personal()) > 0 }

// Rejected reports to the modules that the API did not accept the credentials of the caller (status 401).
func (s Set) Rejected(ctx context.Context) {
	for _, p := range s.Personal() {
		p.Rejected(ctx)
	}
}
