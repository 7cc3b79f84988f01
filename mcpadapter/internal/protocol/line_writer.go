package protocol

import (
	"io"
	"sync"
)

// A Channel sends messages to the client other than the response: progress, log messages, and
// requests. It is safe for concurrent use.
type Channel interface {
	// Send sends one complete JSON-RPC message. An error means that the client has disconnected.
	Send(message []byte) error
}

// A lineWriter is a Channel that writes one line per message.
type lineWriter struct {
	w      io.Writer
	Broken func() // called once when a write fails

	mu   sync.Mutex
	line []byte
	fail error
}

// NewLineWriter returns a lineWriter that writes to w.
func NewLineWriter(w io.Writer) *lineWriter { return &lineWriter{w: w} }

// Send writes one message. Line breaks delimit messages, so it replaces those in the message by
// spaces.
func (l *lineWriter) Send(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.line = append(append(l.line[:0], message...), '\n')
	for i, c := range l.line[:len(l.line)-1] {
		if c == '\n' || c == '\r' {
			l.line[i] = ' ' // JSON from an API may have line breaks between tokens
		}
	}
	if _, err := l.w.Write(l.line); err != nil {
		l.fail = err
		l.Broken()
	}
	return l.fail
}

// Err returns the error of the write that failed, or nil.
func (l *lineWriter) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fail
}
