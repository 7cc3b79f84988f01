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
	// secretKey is where the secret of sessions is kept in Caddy's storage, and
	// what is locked there while it is made.
	secretKey = "fairway/secret"

	// storedSecretSize is how long it is, in bytes.
	storedSecretSize = 32

	// maxStorageWait is how long the storage may take.
	maxStorageWait = 10 * time.Second

	// lookInterval is how often who waits to make the secret looks for another's.
	lookInterval = 100 * time.Millisecond
)

// storedSecret is the secret that all nodes have which share a storage, and that
// outlives each of them.
type storedSecret struct {
	storage certmagic.Storage
	logger  *zap.Logger
}

// load returns the secret, which the first who asks makes. Where the storage
// fails it is one for this process alone.
func (s storedSecret) load() []byte {
	ctx, cancel := context.WithTimeout(context.Background(), maxStorageWait)
	defer cancel()
	secret, err := s.read(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = s.make(ctx)
	}
	if err != nil {
		s.logger.Warn("Caddy's storage has no secret for MCP sessions to give: they end when this configuration does, and other nodes do not know them; "+
			"make the storage work, or give the option secret", zap.String("key", secretKey), zap.Error(err))
		return randomSecret()
	}
	return secret
}

func (s storedSecret) read(ctx context.Context) ([]byte, error) {
	secret, err := s.storage.Load(ctx, secretKey)
	if err == nil && len(secret) < storedSecretSize {
		err = fmt.Errorf("the secret there has %d bytes and should have %d: delete it, and a new one is made", len(secret), storedSecretSize)
	}
	return secret, err
}

// make stores a new secret unless another node comes first.
func (s storedSecret) make(ctx context.Context) (secret []byte, err error) {
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

// lock waits for the lock, but no longer than until there is a secret: a storage may
// look so seldom whether the lock is free that not all who wait get it in time. The
// lock may need its context: done ends that, whether or not the lock was given.
func (s storedSecret) lock(ctx context.Context) (done func(), err error) {
	waiting, giveUp := context.WithCancel(ctx)
	locked := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		if s.appears(ctx, locked) {
			giveUp()
		}
	})
	err = s.storage.Lock(waiting, secretKey)
	close(locked)
	looking.Wait()
	return giveUp, err
}

// appears reports whether there is a secret before who waits for the lock has it.
func (s storedSecret) appears(ctx context.Context, locked <-chan struct{}) bool {
	tick := time.NewTicker(lookInterval)
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

func randomSecret() []byte {
	secret := make([]byte, storedSecretSize)
	_, _ = rand.Read(secret) // never fails
	return secret
}
