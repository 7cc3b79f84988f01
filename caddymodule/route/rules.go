package route

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/rule"
)

// haveRules reports whether a toolset has a rule that decides which tools a user may call.
func (p *Parts) haveRules() bool {
	return slices.ContainsFunc(p.All, func(part *Part) bool { return part.Toolset.Allow != nil })
}

// listed returns a function that reports whether a tool is listed for a user by the rule of its toolset.
func (p *Parts) listed(user *identity.User, set *tools.Toolset) func(*tools.Tool) bool {
	if !p.haveRules() {
		return func(*tools.Tool) bool { return true }
	}
	subject := rule.NewSubject(user)
	return func(t *tools.Tool) bool {
		part, own := p.whole, t
		if i, original := set.Original(t); i >= 0 {
			part, own = p.All[i], original
		}
		return own.Builtin != "" || part.Toolset.Allow == nil || part.Toolset.Allow.Lists(subject, own, part.Toolset.Name)
	}
}

// RefusedByRule is in the message of a call that the rule of its toolset does not allow.
const RefusedByRule = "a rule of this gateway does not allow it"

// checkRule returns a Failure if the rule of the toolset does not allow a call of the client's request. Every call
// of every protocol passes it. The log has the reason, which may quote arguments, at debug level only.
func checkRule(toolset *app.Toolset, r *http.Request, call *tools.Call, logger *zap.Logger) error {
	if err := toolset.Allow.Check(rule.NewSubject(UserOf(r)), call, toolset.Name); err != nil {
		logger.Debug("a rule did not allow a tool call", zap.String("toolset", toolset.Name), zap.String("tool", call.Tool.Name), zap.Error(err))
		return &tools.Failure{Kind: tools.Unauthorized, Message: "The user may not call " + call.Tool.Name + " with these arguments: " +
			RefusedByRule + ". The API was not called."}
	}
	return nil
}

// ToolAccess says whether a user may call a tool of a toolset.
type ToolAccess struct {
	Toolset string `json:"toolset"`
	Tool    string `json:"tool"`              // its name for clients
	Refused string `json:"refused,omitempty"` // why not; "" if the user may call it
}

// ExplainTools returns for each tool of the endpoint whether the user of the request may call it with some arguments. It loads
// the documents that are not loaded yet, except those on the site itself.
func ExplainTools(e *Endpoint, r *http.Request) ([]ToolAccess, error) {
	if err := e.Parts.load(r.Context()); err != nil {
		return nil, err
	}
	set := e.Parts.served(func(t *app.Toolset) *tools.Toolset { return t.Loader.Toolset() })
	if set == nil {
		return nil, errors.New("the document is not loaded")
	}
	var all []ToolAccess
	access, listed := e.Access(r), e.Parts.listed(UserOf(r), set)
	for _, t := range set.Tools() {
		if e.hides(t) {
			continue
		}
		part, _ := set.Original(t)
		of := ToolAccess{Toolset: e.Parts.All[max(part, 0)].Toolset.Name, Tool: t.Name}
		if _, needed := access.Login(t, set); needed {
			of.Refused = "the tool needs an access token"
		} else if missing := access.Missing(t, set); missing != nil {
			of.Refused = "the token lacks " + strings.Join(missing, " ")
		} else if !listed(t) {
			of.Refused = "the rule of the toolset (allow) does not allow it"
		}
		all = append(all, of)
	}
	return all, nil
}

// Limits of userListings. Above, they begin anew.
const (
	maxUserListings = 64   // different sets of tools
	maxUsers        = 2048 // users whose set is known
)

// userListings are the listings of users with different tools. Users with the same tools share one, by which
// adapters cache what they have encoded.
type userListings struct {
	mu     sync.Mutex
	base   *tools.Toolset
	byUser map[userKey]*listing
	byHash map[string]*listing // by the hash of the tools
}

// userKey identifies what rules see of a user. Claims and groups of a token are in memory once, while the
// token is.
type userKey struct {
	id, noGroups string
	claims       *byte
	groups       *string
	number       int // of groups
}

func keyOf(user *identity.User) userKey {
	key := userKey{id: user.ID, noGroups: user.NoGroups, number: len(user.Groups)}
	if len(user.Claims) > 0 {
		key.claims = &user.Claims[0]
	}
	if len(user.Groups) > 0 {
		key.groups = &user.Groups[0]
	}
	return key
}

// listing returns the listing of the tools of base that the user may call.
func (u *userListings) listing(l *listings, base *tools.Toolset, user *identity.User) *listing {
	key := keyOf(user)
	if found := u.known(base, key); found != nil {
		return found
	}
	narrow := base.OnlyFor(l.parts.listed(user, base))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.base != base || len(u.byUser) >= maxUsers || u.byHash[narrow.Hash] == nil && len(u.byHash) >= maxUserListings {
		u.base, u.byUser, u.byHash = base, make(map[userKey]*listing), make(map[string]*listing)
	}
	found := u.byHash[narrow.Hash]
	if found == nil {
		found = l.make(narrow)
		u.byHash[narrow.Hash] = found
	}
	u.byUser[key] = found
	return found
}

// known returns the listing of a user if it is known.
func (u *userListings) known(base *tools.Toolset, key userKey) *listing {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.base != base {
		return nil
	}
	return u.byUser[key]
}
