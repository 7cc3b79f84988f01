package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	// MaxWriteWait is how long a write to a stream may block. Otherwise a client that stops reading
	// would block the tool call that sends it events, and the shutdown of the server, as long as its
	// connection stays open.
	MaxWriteWait = 30 * time.Second

	// maxWrite is how many bytes are written per deadline.
	maxWrite = 64 << 10
)

// Writer sends events as an HTTP response. The first event turns the response into a stream; until then the
// handler can still send another response. It is safe for concurrent use.
type Writer struct {
	w    http.ResponseWriter
	wait time.Duration // how long a write may block

	mu     sync.Mutex
	opened bool
	closed bool
	event  []byte // buffer for the event being built
}

// NewWriter returns a Writer for the response w. If a write blocks longer than wait, it fails and closes the stream.
// wait is MaxWriteWait, except in tests.
func NewWriter(w http.ResponseWriter, wait time.Duration) *Writer {
	return &Writer{w: w, wait: wait}
}

// Open sends the header of the response, unless it has been sent.
func (s *Writer) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin()
}

// begin is Open with s.mu held.
func (s *Writer) begin() error {
	if s.closed {
		return errors.New("the stream is closed")
	}
	if s.opened {
		return nil
	}
	s.opened = true
	header := s.w.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["Cache-Control"] = []string{"no-store, no-transform"}
	header["X-Accel-Buffering"] = []string{"no"} // disables buffering in nginx
	s.w.WriteHeader(http.StatusOK)
	return s.put(nil)
}

// IsOpen reports whether the response is already a stream.
func (s *Writer) IsOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Close makes all further writes fail, so that nothing is written after the handler has returned.
func (s *Writer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Send sends an event with the name "message", which is the default of clients.
func (s *Writer) Send(data []byte) error { return s.Write("message", "", data) }

// Write sends one event, see AppendEvent.
func (s *Writer) Write(name, id string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush(AppendEvent(s.event[:0], name, id, data))
}

// AppendEvent appends an event. An empty name or id is omitted. Each line of data becomes a field; clients join them
// with line feeds.
func AppendEvent(dst []byte, name, id string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	for end := bytes.IndexAny(data, "\r\n"); end >= 0; end = bytes.IndexAny(data, "\r\n") {
		dst = append(append(append(dst, "data: "...), data[:end]...), '\n')
		data = data[end+1:]
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// Comment sends an empty comment, which clients ignore. It keeps proxies from closing an idle stream.
func (s *Writer) Comment() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush([]byte(":\n\n"))
}

// Limits of the delay that Retry asks for, so that the clients of a node that stops do not all reconnect at the same time.
const minRetry, maxRetry = 500 * time.Millisecond, 1500 * time.Millisecond

// Retry tells the client of an open stream when to reconnect. It is called before the server ends a stream that goes on
// elsewhere (WHATWG HTML, section 9.2.5; MCP 2025-11-25, Streamable HTTP, Sending Messages).
func (s *Writer) Retry() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.opened {
		return nil
	}
	delay := minRetry + rand.N(maxRetry-minRetry) //nolint:gosec // only spreads the load
	return s.flush(fmt.Appendf(s.event[:0], "retry: %d\n\n", delay.Milliseconds()))
}

// KeepAlive sends a comment at each interval, until ctx ends or the client has disconnected.
func (s *Writer) KeepAlive(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if ctx.Err() != nil || s.Comment() != nil { // ctx may have ended at the same time
			return
		}
	}
}

func (s *Writer) flush(b []byte) error {
	const kept = 64 << 10 // bytes of the buffer that are kept
	s.event = b[:0]
	if cap(b) > kept {
		s.event = nil
	}
	return s.put(b)
}

// put writes b and flushes it. If the client does not read in time, put closes the stream. It resets
// the deadline afterwards, because the connection may outlive the stream. Writers that do not
// support deadlines are accepted.
func (s *Writer) put(b []byte) (err error) {
	controller := http.NewResponseController(s.w)
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), maxWrite)]
		b = b[len(part):]
		_ = controller.SetWriteDeadline(time.Now().Add(s.wait))
		_, err = s.w.Write(part)
	}
	if err == nil {
		_ = controller.SetWriteDeadline(time.Now().Add(s.wait))
		err = controller.Flush()
	}
	if err != nil {
		s.closed = true
		return err
	}
	_ = controller.SetWriteDeadline(time.Time{})
	return nil
}
