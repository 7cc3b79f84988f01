package mcpadapter

import (
	"sync"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// noKeepAlive is the interval of keep-alives that are off.
const noKeepAlive = 100 * 365 * 24 * time.Hour

// A keepAliveTimer sends a comment before the response of a request at each interval, so that load balancers and clients do
// not take a long call for a dead connection. The first one turns the response into an event stream: there is no other
// way to send a byte. It is reused, because most calls end before the first interval.
type keepAliveTimer struct {
	mu       sync.Mutex
	events   *responseEvents // nil if no request uses the timer
	interval time.Duration
	timer    *time.Timer
}

// keepAlive begins to send comments, until the response is written. Only calls of tools take long enough.
func (s *Server) keepAlive(channel protocol.Channel) {
	events, ok := channel.(*responseEvents) // of an HTTP request
	if interval := s.options.KeepAlive; ok && events.alive == nil && interval < noKeepAlive {
		if events.alive, _ = s.keepAlives.Get().(*keepAliveTimer); events.alive == nil {
			events.alive = new(keepAliveTimer)
		}
		events.alive.begin(events, interval)
	}
}

func (k *keepAliveTimer) begin(events *responseEvents, interval time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events, k.interval = events, interval
	if k.timer == nil {
		k.timer = time.AfterFunc(interval, k.tick)
	} else {
		k.timer.Reset(interval)
	}
}

func (k *keepAliveTimer) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events != nil && k.events.Comment() == nil {
		k.timer.Reset(k.interval)
	}
}

// endKeepAlive ends the comments. Afterwards, it is certain whether the response is a stream. The timer goes back to the pool.
func (e *responseEvents) endKeepAlive(pool *sync.Pool) {
	k := e.alive
	if k == nil {
		return
	}
	e.alive = nil
	k.mu.Lock()
	k.events = nil
	stopped := k.timer.Stop()
	k.mu.Unlock()
	if stopped { // tick will not run for the next request
		pool.Put(k)
	}
}
