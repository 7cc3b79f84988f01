package stores

import "time"

// RetryNow makes the handle try to open the store at once.
func (h *Handle) RetryNow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retryAt = time.Now()
}
