// Package stream sends messages to an MCP client: as server-sent events (EventStream), as lines
// (LineWriter), and as progress notifications and log messages of a tool call, at a limited rate
// (Reporter).
package stream

import (
	"bytes"
	"errors"
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

// A Channel sends messages to the client other than the response: progress, log messages, and
// requests. It is safe for concurrent use.
type Channel interface {
	// Send sends one complete JSON-RPC message. An error means that the client has disconnected.
	Send(message []byte) error
}

var errStreamClosed = errors.New("the stream is closed")

// An EventStream writes messages as server-sent events. The first message turns the HTTP response
// into a stream; until then the response can still be plain JSON.
type EventStream struct {
	w    http.ResponseWriter
	wait time.Duration // how long a write may block

	mu     sync.Mutex
	opened bool
	closed bool
	event  []byte // buffer for the event being built
}

// NewEventStream returns an event stream in the response w. A write that blocks longer than wait closes the
// stream; wait is MaxWriteWait, except in tests.
func NewEventStream(w http.ResponseWriter, wait time.Duration) *EventStream {
	return &EventStream{w: w, wait: wait}
}

// Open starts the stream.
func (s *EventStream) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin()
}

// begin writes the headers of the stream, if they are not written yet.
func (s *EventStream) begin() error {
	if s.closed {
		return errStreamClosed
	}
	if s.opened {
		return nil
	}
	s.opened = true
	header := s.w.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["Cache-Control"] = []string{"no-cache, no-transform"}
	header["X-Accel-Buffering"] = []string{"no"} // disables buffering in nginx
	s.w.WriteHeader(http.StatusOK)
	return s.put(nil)
}

// IsOpen reports whether the response is already a stream.
func (s *EventStream) IsOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Close makes all further writes fail, so that nothing is written after the handler has returned.
func (s *EventStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Send sends a message as an event with the name "message".
func (s *EventStream) Send(message []byte) error {
	return s.Write("message", "", message)
}

// Write sends one event. Line breaks in data split it into several data lines, which the client
// joins again.
func (s *EventStream) Write(name, id string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	b := s.event[:0]
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	for {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			break
		}
		b = append(append(append(b, "data: "...), data[:end]...), '\n')
		data = data[end+1:]
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	return s.flush(b)
}

// Comment sends a comment, which clients ignore. It keeps proxies from closing an idle stream.
func (s *EventStream) Comment() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush([]byte(":\n\n"))
}

func (s *EventStream) flush(b []byte) error {
	const kept = 64 << 10 // bytes of the buffer that are kept
	if s.event = b[:0]; cap(b) > kept {
		s.event = nil
	}
	return s.put(b)
}

// put writes b and flushes it. If the client does not read in time, put closes the stream. It resets
// the deadline afterwards, because the connection may outlive the stream. Writers that do not
// support deadlines are accepted.
func (s *EventStream) put(b []byte) (err error) {
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
