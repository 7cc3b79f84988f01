package endpoints

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/run"
)

// keepAlive is how often a comment is sent on a stream without events, so that proxies do not close
// the connection.
const keepAlive = 15 * time.Second

// stream sends the progress of a run as an event stream: the event "state" has the same JSON as the
// response without a stream, "text" has a piece of what the model writes. The stream ends with the
// run.
func (q *runRequest) stream(st *run.State) {
	header := q.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	q.w.WriteHeader(http.StatusOK)
	if q.r.Method == http.MethodHead {
		return
	}
	ctx, cancel := q.options.Host.Serving(q.r.Context())
	defer cancel()
	events := &eventWriter{w: q.w}
	_ = events.send(nil) // sends the header
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		for {
			select {
			case <-ticker.C:
				_ = events.send([]byte(":\n\n")) // the next event reports the error
			case <-ctx.Done():
				return
			}
		}
	})
	// The error is that of a client that has gone, or of the store. Both end the stream.
	_ = q.runner.Follow(ctx, st.ID, func(e run.Event) error {
		if e.State == nil {
			return events.send(textEvent(e.Text))
		}
		state, err := json.Marshal(q.view(ctx, e.State), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		return events.send(appendEvent(nil, "state", state))
	})
}

func textEvent(text string) []byte {
	data := wire.AppendString([]byte(`{"text":`), text)
	return appendEvent(nil, "text", append(data, '}'))
}

// appendEvent appends an event. data is JSON without line breaks.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: "...), data...)
	return append(dst, "\n\n"...)
}

// eventWriter writes to an event stream. It is safe for concurrent use.
type eventWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
}

func (e *eventWriter) send(text []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}
