package app

import (
	"fmt"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

type siteAccounts struct {
	site     site.Site
	accounts credential.Accounts
}

// AddAccounts makes the endpoints of a site use accounts of users at third parties. Endpoints of sites without accounts use those that were
// added first.
func (a *App) AddAccounts(at site.Site, accounts credential.Accounts) {
	a.accounts = append(a.accounts, siteAccounts{at, accounts})
}

// AccountsAt returns the accounts for the endpoints of a site; nil if there are none. It is complete once all handlers are provisioned.
func (a *App) AccountsAt(at site.Site) credential.Accounts {
	for _, s := range a.accounts {
		if s.site.SameSite(at) {
			return s.accounts
		}
	}
	if len(a.accounts) > 0 {
		return a.accounts[0].accounts
	}
	return nil
}

// OnConnected adds a function that is called when a user has connected an account at a provider. It must be called while handlers are provisioned.
func (a *App) OnConnected(notify func(user, provider string)) {
	a.connected = append(a.connected, notify)
}

// Connected tells the functions of OnConnected that a user has connected an account at a provider.
func (a *App) Connected(user, provider string) {
	for _, notify := range a.connected {
		notify(user, provider)
	}
}

// addProviders adds the third parties of a toolset.
func (a *App) addProviders(t *Toolset) error {
	for _, p := range t.Credentials.Personal() {
		if known, ok := a.Providers[p.Provider()]; ok && !known.IsSame(p) {
			return fmt.Errorf("provider %q of credential user is configured twice with different options: give each its own name", p.Provider())
		}
		a.Providers[p.Provider()] = p
	}
	return nil
}
