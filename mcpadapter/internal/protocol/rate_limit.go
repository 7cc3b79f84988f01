package protocol

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxProgressBurst is how many progress notifications of one call are sent without delay. After
	// that, one is sent every ProgressInterval (MCP, Progress: both parties SHOULD implement rate
	// limiting).
	MaxProgressBurst = 10
	ProgressInterval = 100 * time.Millisecond

	// MaxLogBurst and LogInterval limit log messages in the same way (MCP, Logging: servers SHOULD
	// rate limit messages).
	MaxLogBurst = 100
	LogInterval = 50 * time.Millisecond
)

// latestOnly sends the notifications of one call as fast as the rate limit allows. Of notifications
// that arrive faster, it sends only the latest, as soon as the limit allows or at the end of the
// call. The first and the last notification are always sent.
type latestOnly struct {
	out Channel

	mu      sync.Mutex
	limit   *rate.Limiter
	pending []byte // waiting notification; empty for none
	timer   *time.Timer
	stopped bool
}

// offer sends a notification now or later, unless a newer one replaces it. It copies the
// notification.
func (l *latestOnly) offer(notification []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if len(l.pending) > 0 {
		l.pending = append(l.pending[:0], notification...) // the timer is already running
		return
	}
	if l.limit.Allow() {
		_ = l.out.Send(notification) // an error means that the client has disconnected
		return
	}
	l.pending = append(l.pending[:0], notification...)
	l.timer = time.AfterFunc(ProgressInterval, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.limit.Allow()
		l.sendPending()
	})
}

// stop sends the waiting notification and rejects new ones. After a cancellation it sends nothing,
// because the client expects no more notifications.
func (l *latestOnly) stop(canceled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if !canceled {
		l.sendPending()
	}
	l.stopped = true
}

func (l *latestOnly) sendPending() {
	if len(l.pending) > 0 && !l.stopped {
		_ = l.out.Send(l.pending)
		l.pending = l.pending[:0]
	}
}
