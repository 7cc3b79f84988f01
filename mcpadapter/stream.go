package mcpadapter

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// maxWriteWait is how long a write to a stream may block. Otherwise a client that stops reading
	// would block the tool call that sends it events, and the shutdown of the server, as long as its
	// connection stays open.
	maxWriteWait = 30 * time.Second

	// maxWrite is how many bytes are written per deadline.
	maxWrite = 64 << 10
)

// A channel sends messages to the client other than the response: progress, log messages, and
// requests. It is safe for concurrent use.
type channel interface {
	// send sends one complete JSON-RPC message. An error means that the client has disconnected.
	send(message []byte) error
}

var errStreamClosed = errors.New("the stream is closed")

// An eventStream writes messages as server-sent events. The first message turns the HTTP response
// into a stream; until then the response can still be plain JSON.
type eventStream struct {
	w    http.ResponseWriter
	wait time.Duration // maxWriteWait, except in tests

	mu     sync.Mutex
	opened bool
	closed bool
	event  []byte // buffer for the event being built
}

// open starts the stream.
func (s *eventStream) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin()
}

// begin writes the headers of the stream, if they are not written yet.
func (s *eventStream) begin() error {
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

// isOpen reports whether the response is already a stream.
func (s *eventStream) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// close makes all further writes fail, so that nothing is written after the handler has returned.
func (s *eventStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *eventStream) send(message []byte) error {
	return s.write("message", "", message)
}

// write sends one event. Line breaks in data split it into several data lines, which the client
// joins again.
func (s *eventStream) write(name, id string, data []byte) error {
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

// comment sends a comment, which clients ignore. It keeps proxies from closing an idle stream.
func (s *eventStream) comment() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush([]byte(":\n\n"))
}

func (s *eventStream) flush(b []byte) error {
	const kept = 64 << 10 // bytes of the buffer that are kept
	if s.event = b[:0]; cap(b) > kept {
		s.event = nil
	}
	return s.put(b)
}

// put writes b and flushes it. If the client does not read in time, put closes the stream. It resets
// the deadline afterwards, because the connection may outlive the stream. Writers that do not
// support deadlines are accepted.
func (s *eventStream) put(b []byte) (err error) {
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
