package connections

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// maxAwaited is the maximum number of accounts that a node waits for. At the limit, clients find out by calling again.
const maxAwaited = 1000

// awaitPause is the pause after an error of the store.
const awaitPause = time.Second

// awaited are the accounts that clients of this node wait for. The user may connect them on another node.
type awaited struct {
	ctx context.Context // ends with the configuration

	mu    sync.Mutex
	until map[string]time.Time // by the key of the record
}

// Await implements credential.Accounts.
func (h *Handler) Await(user, provider string) {
	key := keyOf(user, provider)
	h.awaited.mu.Lock()
	defer h.awaited.mu.Unlock()
	if _, isAwaited := h.awaited.until[key]; !isAwaited {
		if len(h.awaited.until) == maxAwaited {
			return
		}
		go h.await(key, user, provider)
	}
	h.awaited.until[key] = time.Now().Add(linkLifetime)
}

// await waits until the user has connected the account.
func (h *Handler) await(key, user, provider string) {
	for h.isAwaited(key) {
		isConnected, err := h.look(key, user, provider)
		switch {
		case isConnected:
			h.awaited.mu.Lock()
			delete(h.awaited.until, key) // first, so that a client that begins to wait now is not forgotten
			h.awaited.mu.Unlock()
			h.app.Connected(user, provider)
			return
		case err != nil && h.awaited.ctx.Err() == nil:
			h.logger.Warn("waiting for the connection of a user failed; trying again", zap.String("provider", provider), zap.Error(err))
			select {
			case <-h.awaited.ctx.Done():
			case <-time.After(awaitPause):
			}
		}
	}
}

// isAwaited reports whether a client may still wait for the account. If not, it forgets the account.
func (h *Handler) isAwaited(key string) bool {
	h.awaited.mu.Lock()
	defer h.awaited.mu.Unlock()
	if h.awaited.ctx.Err() == nil && time.Now().Before(h.awaited.until[key]) {
		return true
	}
	delete(h.awaited.until, key)
	return false
}

// look reports whether the account can be used. If not, it returns when the record has changed, or after linkLifetime.
func (h *Handler) look(key, user, provider string) (isConnected bool, err error) {
	ctx := h.awaited.ctx
	r, sealed, err := h.vault.get(ctx, user, provider)
	if err != nil {
		return false, err
	}
	if a := r.selected(); a != nil && a.isUsable(time.Now()) {
		return true, nil
	}
	st, err := h.vault.open(ctx)
	if err != nil {
		return false, err
	}
	if _, _, err = lease.Wait(ctx, st, key, sealed, time.Now().Add(linkLifetime)); errors.Is(err, store.ErrNotFound) { // the record was deleted
		err = nil
	}
	return false, err
}
