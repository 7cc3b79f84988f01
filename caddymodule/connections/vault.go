package connections

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	// maxAccounts is the maximum number of accounts of a user at one provider.
	maxAccounts = 8

	// keepRecord is the lifetime of a record after its last change. A use that is renewAfter later extends it.
	keepRecord = store.MaxTTL - time.Hour
	renewAfter = 30 * 24 * time.Hour

	// storeWait limits one change of a record.
	storeWait = 10 * time.Second
)

// A record has the accounts of one user at one provider.
type record struct {
	User     string      `json:"user"`
	Provider string      `json:"provider"`
	Accounts []account   `json:"accounts"`
	Selected string      `json:"selected"` // label of the account that calls use
	Lease    lease.Lease `json:"lease,omitzero"`
	Written  time.Time   `json:"written"`
}

// An account is one connection. Its label tells the accounts of a user at one provider apart.
type account struct {
	Label     string    `json:"label"`
	Secret    string    `json:"secret"` // the access token or the API key
	Refresh   string    `json:"refresh,omitempty"`
	Expires   time.Time `json:"expires,omitzero"`  // of Secret; zero if unknown
	Obtained  time.Time `json:"obtained"`          // when the provider issued Secret
	Connected time.Time `json:"connected"`         // when the user connected the account
	Rejected  bool      `json:"rejected,omitzero"` // the API did not accept Secret
}

// String hides the secrets, so that they cannot get into a log.
func (a account) String() string { return "account " + a.Label }

// account returns the account with that label, or nil.
func (r *record) account(label string) *account {
	if i := slices.IndexFunc(r.Accounts, func(a account) bool { return a.Label == label }); i >= 0 {
		return &r.Accounts[i]
	}
	return nil
}

// selected returns the account that calls use, or nil.
func (r *record) selected() *account { return r.account(r.Selected) }

// add adds an account, which calls use from now on. It replaces one with the same label.
func (r *record) add(a account) error {
	if old := r.account(a.Label); old != nil {
		*old = a
	} else if len(r.Accounts) == maxAccounts {
		return errTooMany
	} else {
		r.Accounts = append(r.Accounts, a)
	}
	r.Selected = a.Label
	return nil
}

// remove removes an account. If calls used it, they use no other one before the user has selected it.
func (r *record) remove(label string) {
	r.Accounts = slices.DeleteFunc(r.Accounts, func(a account) bool { return a.Label == label })
}

var (
	errTooMany  = errors.New("the user has too many accounts")
	errUsedOnce = errors.New("the value was used before")
)

// A vault keeps accounts in the store, encrypted.
type vault struct {
	open   func(context.Context) (store.Store, error)
	sealer *seal.Sealer
}

// keyOf returns the key of the record of a user at a provider. It does not tell the user.
func keyOf(user, provider string) string { return credential.KeyPrefix + digest(user) + "/" + provider }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// get returns the record of a user at a provider, and its sealed form. If there is none that this gateway can read, the record is empty.
func (v *vault) get(ctx context.Context, user, provider string) (r *record, sealed []byte, err error) {
	st, err := v.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	key := keyOf(user, provider)
	found, err := st.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, nil, err
	}
	r, err = v.unsealed(key, found.Value)
	return r, found.Value, err
}

// unsealed returns the record with that key. It is empty if the key of the vault has been replaced. A record that this key opens
// and that cannot be read is an error, so that it is not replaced: a newer version may read it.
func (v *vault) unsealed(key string, sealed []byte) (*record, error) {
	r := new(record)
	if len(sealed) == 0 {
		return r, nil
	}
	plain, err := v.sealer.Unseal(string(sealed), key)
	if err != nil {
		_ = stored.Unreadable("accounts", key, err)
		return r, nil
	}
	return r, stored.Decode("accounts", key, plain, r)
}

// change changes the record of a user at a provider. A record without accounts is deleted.
func (v *vault) change(ctx context.Context, user, provider string, change func(*record) error) error {
	return v.transaction(user, provider)(ctx, func(r *record, _ *lease.Lease) error { return change(r) })
}

// transaction returns what changes the record of a user at a provider.
func (v *vault) transaction(user, provider string) lease.Transaction[*record] {
	key := keyOf(user, provider)
	return func(ctx context.Context, change func(*record, *lease.Lease) error) error {
		ctx, cancel := store.Detach(ctx, storeWait) // it would be unknown whether a token was kept
		defer cancel()
		st, err := v.open(ctx)
		if err != nil {
			return err
		}
		return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
			r, err := v.unsealed(key, old.Value)
			if err != nil {
				return store.Change{}, err
			}
			if err := change(r, &r.Lease); err != nil {
				return store.Change{}, err
			}
			if len(r.Accounts) == 0 {
				return store.Change{Delete: true}, nil
			}
			r.User, r.Provider, r.Written = user, provider, time.Now().UTC()
			plain, err := json.Marshal(r)
			if err != nil {
				return store.Change{}, err
			}
			return store.Change{Value: []byte(v.sealer.Seal(plain, key)), TTL: keepRecord, Owner: share.OwnerOf(user, "")}, nil
		})
	}
}

// preserve writes a record again that would expire, or that is sealed with the previous key. If that fails, the next use does it.
func (v *vault) preserve(ctx context.Context, r *record, sealed []byte) {
	if time.Since(r.Written) > renewAfter || !v.sealer.IsCurrent(string(sealed)) {
		_ = v.change(ctx, r.User, r.Provider, func(*record) error { return nil })
	}
}

// once returns errUsedOnce if the value was used before, within the lifetime of links. The user takes the share of the store.
func (v *vault) once(ctx context.Context, user, value string) error {
	ctx, cancel := store.Detach(ctx, storeWait)
	defer cancel()
	st, err := v.open(ctx)
	if err != nil {
		return err
	}
	return st.Update(ctx, "connecting/"+digest(value), func(old store.Record) (store.Change, error) {
		if old.Value != nil {
			return store.Change{}, errUsedOnce
		}
		return store.Change{Value: []byte("1"), TTL: 2 * linkLifetime, Owner: share.OwnerOf(user, "")}, nil
	})
}

// all calls visit with the records of all users, in the order of their keys, until visit returns false.
func (v *vault) all(ctx context.Context, visit func(*record) bool) error {
	st, err := v.open(ctx)
	if err != nil {
		return err
	}
	const page = 1000
	for after := ""; ; {
		keys, err := st.Keys(ctx, credential.KeyPrefix, after, page)
		if err != nil {
			return err
		}
		for _, key := range keys {
			found, err := st.Get(ctx, key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if r, err := v.unsealed(key, found.Value); err == nil && r.User != "" && !visit(r) {
				return nil
			}
		}
		if len(keys) < page {
			return nil
		}
		after = keys[len(keys)-1]
	}
}
