package login

import (
	"context"
	"strings"

	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/store"
)

// userData are the sessions of a user: the families of refresh tokens, and what browsers and clients were given. It implements stores.UserData.
type userData struct {
	server *authserver.Server
	prefix string // of all keys
}

// Export implements stores.UserData.
func (d userData) Export(ctx context.Context, st store.Store, user string) (any, error) {
	all := []*authserver.UserSession{}
	err := d.visit(ctx, st, user, func(_ string, s *authserver.UserSession) error {
		all = append(all, s)
		return nil
	})
	return all, err
}

// Erase implements stores.UserData. The refresh tokens of the sessions, and the sessions of browsers, end.
func (d userData) Erase(ctx context.Context, st store.Store, user string) (int, error) {
	return d.LogOut(ctx, st, user)
}

// LogOut implements stores.LoginData.
func (d userData) LogOut(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = d.visit(ctx, st, user, func(key string, _ *authserver.UserSession) error {
		count++
		return st.Delete(ctx, key)
	})
	return count, err
}

func (d userData) visit(ctx context.Context, st store.Store, user string, visit func(key string, s *authserver.UserSession) error) error {
	return store.Scan(ctx, st, d.prefix, func(key string, r store.Record) error {
		s, ok := authserver.SessionOf(d.server, user, strings.TrimPrefix(key, d.prefix), string(r.Value))
		if !ok {
			return nil
		}
		return visit(key, s)
	})
}
