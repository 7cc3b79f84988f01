package connections

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	// refreshEarly is how long before its end a token is renewed.
	refreshEarly = time.Minute

	// renewedRecently is the age below which a token that the API does not accept is not renewed again: the user must connect the account anew.
	renewedRecently = time.Minute

	// maxLooks is how often a call reads the record while others change it.
	maxLooks = 10
)

var (
	errNotConnected = errors.New("the user has no account that can be used")
	errUnavailable  = errors.New("the token could not be renewed a moment ago")
)

// isFresh reports whether calls can use the secret.
func (a *account) isFresh(now time.Time) bool {
	return !a.Rejected && (a.Expires.IsZero() || now.Before(a.Expires.Add(-refreshEarly)))
}

// isUsable reports whether calls can use the secret if it cannot be renewed.
func (a *account) isUsable(now time.Time) bool {
	return !a.Rejected && (a.Expires.IsZero() || now.Before(a.Expires))
}

// mayRenew reports whether the secret can be renewed.
func (a *account) mayRenew(now time.Time, recently time.Duration) bool {
	return a.Refresh != "" && (!a.Rejected || now.Sub(a.Obtained) > recently)
}

// set sets the tokens of a response. A provider that does not rotate refresh tokens leaves them out.
func (a *account) set(t *oauth2.Token, now time.Time) {
	a.Secret, a.Expires, a.Obtained, a.Rejected = t.AccessToken, t.Expiry, now, false
	if t.RefreshToken != "" {
		a.Refresh = t.RefreshToken
	}
}

// secret returns the secret of the account that the user has selected, and renews it if necessary. The error is errNotConnected if the user must
// connect an account first.
func (h *Handler) secret(ctx context.Context, u *User, user string) (string, error) {
	for range maxLooks {
		r, sealed, err := h.vault.get(ctx, user, u.Name)
		if err != nil {
			return "", err
		}
		a, now := r.selected(), time.Now()
		switch {
		case a == nil:
			return "", errNotConnected
		case a.isFresh(now), !a.mayRenew(now, h.recently) && a.isUsable(now):
			h.vault.preserve(ctx, r, sealed)
			return a.Secret, nil
		case !a.mayRenew(now, h.recently):
			return "", errNotConnected
		}
		transaction := h.vault.transaction(user, u.Name)
		claim, err := lease.Take(ctx, &h.terms, transaction, func(r *record) bool {
			latest := r.selected()
			return latest != nil && latest.Secret == a.Secret && latest.Rejected == a.Rejected
		})
		switch {
		case err != nil:
			return "", err
		case claim != nil:
			return h.renew(ctx, u, claim, *a)
		case a.isUsable(now):
			return a.Secret, nil // another node renews it
		case r.Lease.Token == "" && !h.terms.IsFree(&r.Lease):
			return "", errUnavailable
		}
		st, err := h.vault.open(ctx)
		if err != nil {
			return "", err
		}
		if _, _, err := lease.Wait(ctx, st, keyOf(user, u.Name), sealed, now.Add(h.terms.Duration)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	return "", errUnavailable
}

// renew renews the tokens of an account. It does not end with the call: a refresh token that the provider rotates must not be lost.
func (h *Handler) renew(ctx context.Context, u *User, claim *lease.Claim[*record], old account) (string, error) {
	ctx, cancel := store.Detach(ctx, providerWait+storeWait)
	defer cancel()
	token, err := u.renew(ctx, old.Refresh)
	stored := h.terms.Repeat(ctx, func() error {
		return claim.End(ctx, func(r *record, l *lease.Lease) error {
			a := r.account(old.Label)
			switch {
			case a == nil || a.Refresh != old.Refresh: // the user has changed it meanwhile
			case err == nil:
				a.set(token, time.Now().UTC())
				l.Tries = 0
			case errors.Is(err, errGrant):
				r.remove(old.Label)
			default:
				h.terms.Retry(l)
			}
			return nil
		})
	})
	switch {
	case errors.Is(err, errGrant):
		h.logger.Info("a connection has ended: the provider no longer accepts its refresh token", zapProvider(u))
		return "", errNotConnected
	case err != nil:
		h.logger.Warn("renewing the token of a connection failed", zapProvider(u), zap.Error(err))
		if old.isUsable(time.Now()) {
			return old.Secret, nil
		}
		return "", errUnavailable
	case stored != nil:
		h.logger.Error("the renewed token of a connection could not be stored", zapProvider(u), zap.Error(stored))
	}
	return token.AccessToken, nil
}
