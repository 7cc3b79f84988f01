package stores

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
)

// storeWait limits the time in which a store must respond to count as reachable.
const storeWait = 2 * time.Second

// reportInterval is how often awaitResponse tries again.
const reportInterval = 5 * time.Second

// storeResponds is the log message at the end of an outage.
const storeResponds = "the store responds now"

// healthKey is the key of a record that does not exist.
const healthKey = "health"

// check returns an error if the store does not respond or cannot be written. It does not open the default store, since
// that would create its file.
func (h *Handle) check(ctx context.Context) error {
	h.mu.Lock()
	unused := h.opened.Load() == nil && h.lastErr == nil && !h.named.Load()
	h.mu.Unlock()
	if unused {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	opened, err := h.Open(ctx)
	if err == nil {
		_, err = opened.Get(ctx, healthKey)
	}
	if checked, ok := opened.(store.Checked); ok && errors.Is(err, store.ErrNotFound) {
		return checked.Health()
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// reportUnreachable opens the store, and logs once if it does not respond at the start of a configuration, and once
// when it does.
func (h *Handle) reportUnreachable(ended <-chan struct{}) {
	err := h.check(context.Background())
	if err == nil || errors.Is(err, store.ErrClosed) {
		return
	}
	h.logger.Load().Error("the store does not respond; until it does, requests that need it fail", zap.Error(err))
	if h.awaitResponse(ended) {
		h.logger.Load().Info(storeResponds)
	}
}

// awaitResponse blocks until the store responds. It returns false if it closes or the configuration ends before.
func (h *Handle) awaitResponse(ended <-chan struct{}) bool {
	for {
		select {
		case <-time.After(reportInterval):
		case <-ended:
			return false
		}
		if err := h.check(context.Background()); err == nil || errors.Is(err, store.ErrClosed) {
			return err == nil
		}
	}
}

// StoreErrors returns a function that logs errors of the store: the first one of an outage with the message, and
// the number of all when the store responds again, or when the configuration ends.
func (s *Section) StoreErrors(logger *zap.Logger, message string) func(error) {
	var count atomic.Int64
	return func(err error) {
		if count.Add(1) > 1 {
			return
		}
		logger.Error(message, zap.Error(err))
		go func() {
			text := storeResponds
			if !s.awaitResponse(s.ended) {
				text = "the configuration has ended before the store responded"
			}
			logger.Info(text, zap.String("error", message), zap.Int64("errors", count.Swap(0)))
		}()
	}
}
