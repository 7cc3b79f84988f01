package mcpadapter

import (
	"sync"
	"time"
)

const (
	// maxProgressBurst is how many progress notifications of one call are sent at
	// once; after that, one is sent every progressInterval (MCP, Progress: both
	// parties SHOULD implement rate limiting).
	maxProgressBurst = 10
	progressInterval = 100 * time.Millisecond

	// maxLogBurst and logInterval are the same of log messages (MCP, Logging: servers
	// SHOULD rate limit messages).
	maxLogBurst = 100
	logInterval = 50 * time.Millisecond
)

// A rateLimit allows burst events at once, and one more every interval.
type rateLimit struct {
	burst    int
	interval time.Duration

	used  int       // of the burst, of which time gives back
	since time.Time // when it last gave back
}

// take reports whether an event is allowed now, and counts it.
func (l *rateLimit) take(now time.Time) bool {
	passed := now.Sub(l.since)
	if back := int64(passed / l.interval); back >= int64(l.used) {
		l.used, l.since = 0, now
	} else {
		l.used -= int(back)
		l.since = now.Add(-(passed % l.interval))
	}
	if l.used >= l.burst {
		return false
	}
	l.used++
	return true
}

// latestOnly sends the notifications of one call as fast as the rate limit allows. Of
// those that come faster, it sends the latest as soon as that is allowed, or at the
// end of the call. The first and the last are always sent.
type latestOnly struct {
	out channel

	mu      sync.Mutex
	limit   rateLimit
	pending []byte // the notification that waits; empty for none
	timer   *time.Timer
	stopped bool
}

// offer sends the notification now or later, unless a later one takes its place. It
// keeps a copy.
func (l *latestOnly) offer(notification []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if len(l.pending) > 0 {
		l.pending = append(l.pending[:0], notification...) // the timer is running
		return
	}
	if l.limit.take(time.Now()) {
		_ = l.out.send(notification) // an error means that the client is gone
		return
	}
	l.pending = append(l.pending[:0], notification...)
	l.timer = time.AfterFunc(l.limit.interval, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.limit.take(time.Now())
		l.sendPending()
	})
}

// stop ends the notifications. The one that waits is sent first, unless the client
// has canceled the call: then it expects none.
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
		_ = l.out.send(l.pending)
		l.pending = l.pending[:0]
	}
}
