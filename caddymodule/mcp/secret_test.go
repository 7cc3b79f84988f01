package mcp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// brokenStorage fails at the configured operations.
type brokenStorage struct {
	certmagic.Storage
	load, lock, store error
}

func (b *brokenStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if b.load != nil {
		return nil, b.load
	}
	return b.Storage.Load(ctx, key)
}

func (b *brokenStorage) Lock(ctx context.Context, name string) error {
	if b.lock != nil {
		return b.lock
	}
	return b.Storage.Lock(ctx, name)
}

func (b *brokenStorage) Store(ctx context.Context, key string, value []byte) error {
	if b.store != nil {
		return b.store
	}
	return b.Storage.Store(ctx, key, value)
}

// TestStored_secret_is_one wants all nodes of a storage to have the same secret, also
// if they ask for it at once.
func TestStored_secret_is_one(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	secrets := make([][]byte, 24)
	var nodes sync.WaitGroup
	for i := range secrets {
		nodes.Go(func() { secrets[i] = storedSecret{storage, zap.NewNop()}.load() })
	}
	nodes.Wait()
	for _, secret := range secrets {
		if len(secret) != storedSecretSize || !bytes.Equal(secret, secrets[0]) {
			t.Errorf("secrets %x and %x", secret, secrets[0])
		}
	}
	other := storedSecret{&certmagic.FileStorage{Path: t.TempDir()}, zap.NewNop()}.load()
	if bytes.Equal(other, secrets[0]) {
		t.Error("another storage has the same secret")
	}
}

// TestStored_secret_of_broken_storage wants a secret of its own for a process whose
// storage fails, and the operator to know.
func TestStored_secret_of_broken_storage(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, storage := range map[string]*brokenStorage{
		"load":  {load: broken},
		"lock":  {lock: broken},
		"store": {store: broken},
	} {
		t.Run(name, func(t *testing.T) {
			storage.Storage = &certmagic.FileStorage{Path: t.TempDir()}
			core, logs := observer.New(zap.WarnLevel)
			secret := storedSecret{storage, zap.New(core)}.load()
			if again := (storedSecret{storage, zap.NewNop()}).load(); len(secret) != storedSecretSize || bytes.Equal(secret, again) {
				t.Errorf("secrets %x and %x", secret, again)
			}
			if entries := logs.All(); len(entries) != 1 || entries[0].ContextMap()["error"] != broken.Error() {
				t.Errorf("logged %v", entries)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		path := t.TempDir()
		if err := os.MkdirAll(filepath.Join(path, "fairway"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, secretKey), []byte("short"), 0o600); err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.WarnLevel)
		secret := storedSecret{&certmagic.FileStorage{Path: path}, zap.New(core)}.load()
		if len(secret) != storedSecretSize || logs.FilterMessageSnippet("").Len() != 1 {
			t.Errorf("%d bytes, logged %v", len(secret), logs.All())
		}
		if message, _ := logs.All()[0].ContextMap()["error"].(string); !strings.Contains(message, "5 bytes") {
			t.Errorf("got %q", message)
		}
	})
}
