package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

const (
	// secretKey is the key of the secret in Caddy's storage, and the name of the lock under
	// which the secret is created.
	secretKey = "fairway/secret"

	// storedSecretSize is the size of the secret, in bytes.
	storedSecretSize = 32

	// maxStorageWait limits the time to read or create the secret.
	maxStorageWait = 10 * time.Second

	// pollInterval is how often a node that waits for the lock checks whether another node has
	// created the secret.
	pollInterval = 100 * time.Millisecond
)

// storedSecret is the secret in Caddy's storage. It outlives the process, and all nodes that
// share the storage use it.
type storedSecret struct {
	storage certmagic.Storage
	logger  *zap.Logger
}

// load returns the secret and creates it if necessary. If the storage fails, load returns a
// random secret that is valid in this process only.
func (s storedSecret) load() []byte {
	ctx, cancel := context.WithTimeout(context.Background(), maxStorageWait)
	defer cancel()
	secret, err := s.read(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = s.create(ctx)
	}
	if err != nil {
		s.logger.Warn("loading the secret for MCP sessions from Caddy's storage failed; sessions end with this configuration and are not valid on other nodes; "+
			"repair the storage, or set the option secret", zap.String("key", secretKey), zap.Error(err))
		return randomSecret()
	}
	return secret
}

// read reads the secret from the storage.
func (s storedSecret) read(ctx context.Context) ([]byte, error) {
	secret, err := s.storage.Load(ctx, secretKey)
	if err == nil && len(secret) < storedSecretSize {
		err = fmt.Errorf("the stored secret has %d bytes and must have %d; delete it, and a new one is created", len(secret), storedSecretSize)
	}
	return secret, err
}

// create creates and stores the secret, unless another node has created it first.
func (s storedSecret) create(ctx context.Context) (secret []byte, err error) {
	done, err := s.lock(ctx)
	defer done()
	if err != nil {
		if secret, found := s.read(ctx); found == nil {
			return secret, nil
		}
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.storage.Unlock(context.WithoutCancel(ctx), secretKey))
	}()
	secret, err = s.read(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = randomSecret()
	return secret, s.storage.Store(ctx, secretKey, secret)
}

// lock acquires the lock under which the secret is created. It gives up as soon as another node
// has created the secret, because some storages check so rarely whether a lock is free that not
// all waiting nodes get it in time. The lock may depend on its context. The caller must call
// done, which ends the context, whether or not lock succeeded.
func (s storedSecret) lock(ctx context.Context) (done func(), err error) {
	waiting, giveUp := context.WithCancel(ctx)
	locked := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		if s.waitForSecret(ctx, locked) {
			giveUp()
		}
	})
	err = s.storage.Lock(waiting, secretKey)
	close(locked)
	looking.Wait()
	return giveUp, err
}

// waitForSecret reports whether another node creates the secret before the lock is acquired.
func (s storedSecret) waitForSecret(ctx context.Context, locked <-chan struct{}) bool {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-locked:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
			if _, err := s.read(ctx); err == nil {
				return true
			}
		}
	}
}

// randomSecret returns a new secret.
func randomSecret() []byte {
	secret := make([]byte, storedSecretSize)
	_, _ = rand.Read(secret) // never fails
	return secret
}
