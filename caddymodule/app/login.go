package app

import (
	"context"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// A Login is the login of a site, which the directive agent_login sets up.
type Login interface {
	// TokenIssuer returns the issuer of the site's access tokens, and what verifies them. The error is an *oauth.Error.
	TokenIssuer(ctx context.Context) (issuer string, tokens *oauth.Verifier, err error)
}

type siteLogin struct {
	site  Site
	login Login
}

// AddLogin makes the agent_auth handlers of the site trust the login.
func (a *App) AddLogin(at Site, l Login) { a.logins = append(a.logins, siteLogin{at, l}) }

// LoginAt returns the login of a site, or nil. Only handlers that are already provisioned are included.
func (a *App) LoginAt(at Site) Login {
	for _, l := range a.logins {
		if l.site.SameSite(at) {
			return l.login
		}
	}
	return nil
}
