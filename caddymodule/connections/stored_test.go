package connections

import (
	"context"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
)

func vaultOf(st store.Store) *vault {
	return &vault{open: func(context.Context) (store.Store, error) { return st, nil }, sealer: seal.Derive([]string{"secret of the samples"}, "samples")}
}

func TestStored_accounts_are_read(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	samples.Store(t, "accounts", func(st store.Store) error {
		return vaultOf(st).change(t.Context(), "ada", "hub", func(r *record) error {
			r.Accounts = append(r.Accounts, account{Label: "work", Secret: "s", Refresh: "r", Expires: at, Obtained: at, Connected: at})
			return nil
		})
	}, func(st store.Store) (any, error) {
		r, _, err := vaultOf(st).get(t.Context(), "ada", "hub")
		return r, err
	})
}

// TestVault_leaves_accounts_of_a_newer_version wants accounts that cannot be read to stay as they are.
func TestVault_leaves_accounts_of_a_newer_version(t *testing.T) {
	v, key := &nodes(t, 1)[0].vault, keyOf("ada", "hub")
	st, err := v.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newer := v.sealer.Seal([]byte(`{"v":2,"accounts":{"work":{}}}`), key)
	if err := st.Put(t.Context(), key, store.Change{Value: []byte(newer), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := v.change(t.Context(), "ada", "hub", func(*record) error { return nil }); err == nil {
		t.Error("an account of a newer version was changed")
	}
	if found, err := st.Get(t.Context(), key); err != nil || string(found.Value) != newer {
		t.Errorf("the record has become %q, error %v", found.Value, err)
	}
}
