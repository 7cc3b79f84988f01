package mcpadapter

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// maxWriteWait is how long a client may take nothing of what it is sent on a
	// stream. One that is stuck would otherwise hold up the call whose events it is
	// told, and the server that shuts down, for as long as its connection lives.
	maxWriteWait = 30 * time.Second

	// maxWrite is how many bytes are written under one deadline.
	maxWrite = 64 << 10
)

// A channel carries messages to the client beside the answer to its request:
// progress, log messages, questions. It may be used by several goroutines.
type channel interface {
	// send sends one whole JSON-RPC message. An error means that the client is
	// gone.
	send(message []byte) error
}

var errStreamClosed = errors.New("the stream is closed")

// An eventStream writes messages as server-sent events. The first one turns the
// HTTP answer into a stream: until then it may still become something else.
type eventStream struct {
	w    http.ResponseWriter
	wait time.Duration // maxWriteWait, but in tests

	mu     sync.Mutex
	opened bool
	closed bool
	event  []byte // being put together
}

// open begins the stream.
func (s *eventStream) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin()
}

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
	header["X-Accel-Buffering"] = []string{"no"} // nginx would hold the events back
	s.w.WriteHeader(http.StatusOK)
	return s.put(nil)
}

// isOpen reports whether the answer is a stream by now.
func (s *eventStream) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// close makes all that is sent from now on an error, so that nothing is written
// after the handler has returned.
func (s *eventStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *eventStream) send(message []byte) error {
	return s.write("message", "", message)
}

// write sends one event. A message that an API wrote may have line breaks in it,
// each of which ends a line of data; the client joins them again.
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

// comment sends a line that clients pass over, so that no proxy takes a quiet
// stream for a dead one.
func (s *eventStream) comment() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush([]byte(":\n\n"))
}

func (s *eventStream) flush(b []byte) error {
	const kept = 64 << 10 // bytes
	if s.event = b[:0]; cap(b) > kept {
		s.event = nil
	}
	return s.put(b)
}

// put writes b and sees that it is sent. A client that takes none of it for too
// long is gone. The deadline is taken back, as the connection may outlive the
// stream; one that cannot be set is the server's own affair.
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
