package chat

import (
	"net/http"
	"sync"
	"time"
)

// keepAlive sends comments to a client that waits for a stream. A nil keepAlive sends none.
type keepAlive struct {
	w       http.ResponseWriter
	end     chan struct{}
	ended   chan struct{}
	once    sync.Once
	started bool // the header was written; read it only after ended is closed
}

// keepAliveComment is an event stream comment, which clients ignore.
var keepAliveComment = []byte(": the response is being checked\n\n")

func startKeepAlive(w http.ResponseWriter, interval time.Duration) *keepAlive {
	if interval <= 0 {
		return nil
	}
	k := &keepAlive{w: w, end: make(chan struct{}), ended: make(chan struct{})}
	go k.run(interval)
	return k
}

func (k *keepAlive) run(interval time.Duration) {
	defer close(k.ended)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-k.end:
			return
		case <-ticker.C:
		}
		select {
		case <-k.end: // the response arrived at the same time
			return
		default:
		}
		if !k.started {
			k.started = true
			header := k.w.Header()
			header.Set("Content-Type", "text/event-stream")
			header.Set("Cache-Control", "no-store")
			header.Set("X-Accel-Buffering", "no")
			k.w.WriteHeader(http.StatusOK)
		}
		if _, err := k.w.Write(keepAliveComment); err != nil {
			return // the client has disconnected, and the request's context ends
		}
		_ = http.NewResponseController(k.w).Flush()
	}
}

// stop ends the comments so that the response can be written. It reports whether a stream has
// begun.
func (k *keepAlive) stop() (begun bool) {
	if k == nil {
		return false
	}
	k.once.Do(func() { close(k.end) })
	<-k.ended
	return k.started
}
