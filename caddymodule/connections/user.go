package connections

import (
	"context"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/store"
)

// userData are the connections of a user. It implements app.UserData.
type userData struct{ vault *vault }

// connections returns the accounts of a record as the operator sees them, without tokens.
func (r *record) connections() (all []credential.Connection) {
	for i := range r.Accounts {
		c := &r.Accounts[i]
		all = append(all, credential.Connection{
			User: r.User, Provider: r.Provider, Account: c.Label, InUse: c.Label == r.Selected,
			Renews: c.Refresh != "", Rejected: c.Rejected, Connected: c.Connected, Expires: c.Expires,
		})
	}
	return all
}

// Export implements app.UserData.
func (d userData) Export(ctx context.Context, _ store.Store, user string) (any, error) {
	all := []credential.Connection{}
	err := d.vault.all(ctx, func(r *record) bool {
		if r.User == user {
			all = append(all, r.connections()...)
		}
		return true
	})
	return all, err
}

// Erase implements app.UserData. It also deletes records that were sealed with a key that the gateway no longer has.
func (userData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = store.Scan(ctx, st, credential.KeyPrefix+digest(user)+"/", func(key string, _ store.Record) error {
		count++
		return st.Delete(ctx, key)
	})
	return count, err
}
