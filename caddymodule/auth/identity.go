package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Introspection is an endpoint that says whether a token is active (RFC 7662). It is used for tokens that are
// not signed JWTs. Its responses are used again for a minute, but not after the end of the token.
type Introspection struct {
	// The URL of the endpoint. Its scheme is https, or http on a loopback address. Required.
	URL string `json:"url,omitempty"`

	// The id of this gateway at the authorization server. Default: none; requests carry no credentials.
	ClientID string `json:"client_id,omitempty"`

	// The secret of the client, best as a placeholder such as {env.SECRET}. Default: none.
	ClientSecret string `json:"client_secret,omitempty"`

	// The issuer of the tokens. Required if there are several issuers. Default: the only issuer.
	Issuer string `json:"issuer,omitempty"`
}

// options returns the configuration with placeholders replaced. Its errors do not contain the secret.
func (i *Introspection) options(repl *caddy.Replacer) (*verify.Introspection, error) {
	if i == nil {
		return nil, nil
	}
	secret, err := repl.ReplaceOrErr(i.ClientSecret, true, true)
	if err == nil {
		err = directive.CheckVariable(i.ClientSecret)
	}
	if err == nil && i.ClientID == "" && secret != "" {
		err = errors.New("it is given without client_id")
	}
	if err != nil {
		return nil, fmt.Errorf("introspection: client_secret: %w", err)
	}
	return &verify.Introspection{
		URL: repl.ReplaceKnown(i.URL, ""), ClientID: repl.ReplaceKnown(i.ClientID, ""), ClientSecret: strings.TrimSpace(secret),
		Issuer: repl.ReplaceKnown(i.Issuer, ""),
	}, nil
}

// setIdentity sets what the next handlers learn of the user of a token: the variable identity.Var, and the
// placeholders of groups and claims.
func (o *OAuth) setIdentity(r *http.Request, token *oauth.Token, of *oauth.Identity, id string) {
	if of.NoGroups != "" && o.warned.due() {
		o.logger.Warn("the groups of a user are unknown; rules that need them refuse the user",
			zap.String("issuer", token.Issuer), zap.String("reason", of.NoGroups))
	}
	caddyhttp.SetVar(r.Context(), identity.Var, &identity.User{ID: id, Groups: of.Groups, NoGroups: of.NoGroups, Claims: token.Claims, Scopes: token.Scopes})
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Map(func(key string) (any, bool) {
		name, ok := strings.CutPrefix(key, "http.auth.user.")
		if !ok {
			return nil, false
		}
		if name == "groups" {
			return list(of.Groups), true
		}
		if name, ok = strings.CutPrefix(name, "claim."); !ok {
			return nil, false
		}
		return claimValue(oauth.FindClaim(token.Claims, name)), true
	})
}

// list is the value of a placeholder that is a list in expressions, and its items with commas in texts.
type list []string

// String implements fmt.Stringer.
func (l list) String() string { return strings.Join(l, ",") }

// claimValue returns the value of a claim's placeholder: a string, a list of strings, or JSON.
func claimValue(claim jsontext.Value) any {
	switch {
	case claim == nil:
		return ""
	case claim.Kind() == '"':
		return strictjson.Text(claim)
	case strictjson.AllStrings(claim):
		var items list
		for walk := strictjson.Into(claim); walk.Next(); {
			items = append(items, strictjson.Text(walk.Value))
		}
		return items
	}
	return string(claim)
}

// warnEvery is how often a warning about requests is repeated.
const warnEvery = time.Minute

// pace limits how often something is logged.
type pace struct{ last atomic.Int64 }

// due reports whether the last time was longer ago than warnEvery.
func (p *pace) due() bool {
	last, now := p.last.Load(), time.Now().UnixNano()
	return now-last > int64(warnEvery) && p.last.CompareAndSwap(last, now)
}
