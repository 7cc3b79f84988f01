package stores

import (
	"context"
	"time"
)

// RetryNow makes the handle try to open the store at once.
func (h *Handle) RetryNow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retryAt = time.Now()
}

// Check is the check for *ready*.
func (h *Handle) Check(ctx context.Context) error { return h.check(ctx) }
