package sitetest

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/store"
)

// StoreModule is a module of agents.stores.
type StoreModule interface {
	caddy.Provisioner
	Open(options store.Options) (store.Store, error)
	Shared() bool
	Key() string
}

// Provision provisions a module.
func Provision(t *testing.T, module caddy.Provisioner) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	return module.Provision(ctx)
}

// CheckSharedStore checks a module of a store that nodes share: it replaces placeholders in the URL, and nodes see the
// records of others in the same part of the server, which is a prefix or a schema.
func CheckSharedStore(t *testing.T, address string, module func(url, part string) StoreModule) {
	t.Helper()
	t.Setenv("STORE_TEST_URL", address)
	open := func(url, part string) (StoreModule, store.Store) {
		m := module(url, part)
		if err := Provision(t, m); err != nil {
			t.Fatal(err)
		}
		opened, err := m.Open(store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		return m, opened
	}
	replaced, first := open("{env.STORE_TEST_URL}", "test")
	same, second := open(address, "test")
	other, third := open(address, "other")
	if !replaced.Shared() || replaced.Key() != same.Key() || replaced.Key() == other.Key() {
		t.Errorf("shared %t, keys %q, %q and %q", replaced.Shared(), replaced.Key(), same.Key(), other.Key())
	}
	if err := first.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for want, node := range []store.Store{third, second} {
		if keys, err := node.Keys(t.Context(), "", "", 10); err != nil || len(keys) != want {
			t.Errorf("keys %q, error %v, want %d", keys, err, want)
		}
	}
}
