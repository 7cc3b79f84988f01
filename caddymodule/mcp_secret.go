package caddymodule

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
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
	if err := s.storage.Lock(ctx, secretKey); err != nil {
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

func randomSecret() []byte {
	secret := make([]byte, storedSecretSize)
	_, _ = rand.Read(secret) // never fails
	return secret
}
