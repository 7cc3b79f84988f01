package connections

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/auth"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// defaultPath is the path of the pages if none is configured.
const defaultPath = "/connections"

// Handler has the pages where users connect their own accounts at third parties, for toolsets with `credential user`, and where they see and end
// their connections. The pages need to know the user, {http.auth.user.id}: a handler before this one must authenticate browsers, with the same IDs of
// users as at the endpoints.
//
// The address that a third party must know for its redirect is the origin, followed by the path, /callback/ and the name of the provider.
//
// The accounts are in the store of the agents app, encrypted. Any node with the same secret and store can serve any step.
type Handler struct {
	// The path of the pages. Default: /connections.
	Path string `json:"path,omitempty"`

	// The site's public origin, such as https://tools.example.com. Default: the site's address if it has exactly one and listens on port 443.
	Origin string `json:"origin,omitempty"`

	// The secret from which the keys are derived that encrypt the accounts, with at least 16 bytes; the same on all nodes. Placeholders such as
	// {env.CONNECTIONS_SECRET} are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// The secret before the current one. What it encrypted can be read. Default: none.
	PreviousSecret string `json:"previous_secret,omitempty"`

	app      *app.App
	recorder audit.Recorder // nil if connections are not recorded
	logger   *zap.Logger
	origin   string
	vault    vault
	terms    lease.Terms // of refreshes
	forms    *http.CrossOriginProtection

	recently time.Duration // see renewedRecently
	awaited  awaited
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.agent_connections", New: func() caddy.Module { return new(Handler) }}
}

// Provision sets up the handler.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger, h.forms, h.recently = ctx.Logger(), http.NewCrossOriginProtection(), renewedRecently
	h.awaited = awaited{ctx: ctx, until: make(map[string]time.Time)}
	if h.Path == "" {
		h.Path = defaultPath
	}
	h.Path = strings.TrimRight(h.Path, "/")
	if !strings.HasPrefix(h.Path, "/") || strings.ContainsAny(h.Path, "*{?#") {
		return fmt.Errorf("agent_connections: the path %q must begin with a slash, and have no placeholders and wildcards", h.Path)
	}
	if err := h.findOrigin(ctx); err != nil {
		return err
	}
	secrets, err := directive.Secrets("agent_connections", "CONNECTIONS_SECRET", h.Secret, h.PreviousSecret)
	if err != nil {
		return err
	}
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	h.app = agents
	if h.recorder, err = site.RecorderOf(agents.Site); err != nil {
		return err
	}
	h.vault = vault{open: h.app.OpenStore, sealer: seal.Derive(secrets, "fairway connections")}
	h.app.Site.AddDigest(h)
	h.app.Users.Add("connections", userData{&h.vault})
	h.terms = lease.Terms{
		Duration: 2 * (providerWait + storeWait), Pause: time.Second, MaxPause: time.Minute,
		Failed: func(err error) { h.logger.Warn("the store of connections failed", zap.Error(err)) },
	}
	at := site.At(ctx)
	if other, ok := h.app.AccountsAt(at).(*Handler); ok && (other.Secret != h.Secret || other.PreviousSecret != h.PreviousSecret) {
		return errors.New("two agent_connections have different secrets: give all of them the same, because they share the accounts")
	}
	h.app.AddAccounts(at, h)
	return nil
}

// findOrigin sets the configured origin, or the site's address.
func (h *Handler) findOrigin(ctx caddy.Context) (err error) {
	if h.Origin == "" {
		var ok bool
		if h.origin, ok = auth.PublicOrigin(ctx); !ok {
			return errors.New("agent_connections does not know the public address of the site: set origin, as in: origin https://tools.example.com")
		}
		return nil
	}
	if h.origin, err = caddy.NewReplacer().ReplaceOrErr(h.Origin, true, true); err != nil {
		return fmt.Errorf("agent_connections: origin: %w", err)
	}
	to, err := url.Parse(h.origin)
	if err != nil || oauth.CheckAddress(h.origin) != nil || strings.Trim(to.Path, "/") != "" || to.RawQuery != "" {
		return fmt.Errorf("agent_connections: origin %s is not an https address without a path, such as https://tools.example.com", h.origin)
	}
	h.origin = strings.TrimRight(h.origin, "/")
	return nil
}

// SecretOf implements credential.Accounts.
func (h *Handler) SecretOf(ctx context.Context, of credential.Personal, by *credential.UserCall) (string, error) {
	u := of.(*User)
	secret, err := h.secret(ctx, u, by.User)
	switch {
	case errors.Is(err, errNotConnected):
		return "", h.ask(u, by)
	case err != nil:
		if !errors.Is(err, errUnavailable) && ctx.Err() == nil {
			h.logger.Error("the account of a user cannot be read", zapProvider(u), zap.Error(err))
		}
		return "", &tools.Failure{Kind: tools.Unreachable, Unsent: true, Message: fmt.Sprintf(
			"the call was not sent: the gateway cannot get a token for the user's account at %s at the moment; try again later", u.Title())}
	}
	return secret, nil
}

// ask returns the failure of a call whose user must connect an account first.
func (h *Handler) ask(u *User, by *credential.UserCall) *tools.Failure {
	to := h.linkFor(u, by)
	message := fmt.Sprintf("%s needs your account at %s. Connect it on the page; the link works once, within %d minutes.", by.Tool, u.Title(), int(linkLifetime.Minutes()))
	return &tools.Failure{
		Kind: tools.Unauthorized, Connection: &tools.Connection{ID: u.Name, Page: tools.Page{URL: to, Message: message}},
		Message: fmt.Sprintf("the call was not sent: the user must first connect the own account at %s. Show the user this link, which works once and within %d minutes: %s "+
			"Then call again.", u.Title(), int(linkLifetime.Minutes()), to),
	}
}

// Rejected implements credential.Accounts.
func (h *Handler) Rejected(ctx context.Context, of credential.Personal, by *credential.UserCall) {
	u, secret := of.(*User), by.Sent[of.Provider()]
	err := h.vault.change(ctx, by.User, u.Name, func(r *record) error {
		if a := r.selected(); a != nil && a.Secret == secret {
			a.Rejected = true
		}
		return nil
	})
	if err != nil {
		h.logger.Error("the account of a user cannot be changed", zapProvider(u), zap.Error(err))
	}
}

// provider returns the provider with that name, or nil.
func (h *Handler) provider(name string) *User {
	u, _ := h.app.Providers[name].(*User)
	return u
}

func zapProvider(u *User) zap.Field { return zap.String("provider", u.Name) }

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ credential.Accounts         = (*Handler)(nil)
)
