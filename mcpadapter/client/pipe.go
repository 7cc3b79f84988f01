package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

const (
	maxQueued        = 64 // messages of the server that wait for one request
	maxQueuedNotices = 48 // the part of maxQueued for notifications; further ones are dropped
	maxRefusing      = 8  // refusals of requests of the server that are sent at the same time
)

// errManyCalls refuses a request of the server that may belong to any of several calls.
const errManyCalls = "the gateway cannot tell which of the calls in progress this request belongs to"

// A pipe is a link whose messages all come on one stream. Responses and progress name their request. Another message
// belongs to the call in progress if there is only one; a request of the server is refused otherwise, because the
// user of another call could get it.
type pipe struct {
	write   func(ctx context.Context, header http.Header, data []byte) error
	end     func() // ends the connection
	changed func() // is called when a list has changed; set by onChange

	mu      sync.Mutex
	waiting map[string]*waiter // by the id of the request
	err     error              // why the pipe is closed; nil while it is open
	closed  chan struct{}

	refusing share.Slots // limits the refusals that are being sent
}

type waiter struct {
	q        *outgoing
	isCall   bool // takes other messages than the response
	messages chan message
}

func newPipe() *pipe {
	return &pipe{
		waiting: make(map[string]*waiter), closed: make(chan struct{}), end: func() {},
		refusing: share.NewSlots("refusals of an MCP server's requests", maxRefusing),
	}
}

func (p *pipe) isStateful() bool { return true }

// exchange implements link.
func (p *pipe) exchange(ctx context.Context, q *outgoing, receive func(message)) (message, error) {
	id := strconv.FormatInt(q.id, 10)
	w := &waiter{q, receive != nil, make(chan message, maxQueued)}
	p.mu.Lock()
	if err := p.err; err != nil {
		p.mu.Unlock()
		return message{}, &UnavailableError{fmt.Errorf("%w: %w", errUnsent, err)}
	}
	p.waiting[id] = w
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, id)
	}()
	if err := p.write(ctx, q.header, q.encode()); err != nil {
		return message{}, err
	}
	for {
		select {
		case m := <-w.messages:
			if m.method == "" {
				return m, m.err
			}
			receive(m)
		case <-p.closed:
			return message{}, &UnavailableError{p.err}
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		}
	}
}

// send implements link.
func (p *pipe) send(ctx context.Context, header http.Header, data []byte) error {
	return p.write(ctx, header, data)
}

// deliver passes a message of the server to the request that it belongs to.
func (p *pipe) deliver(data []byte) {
	m, err := readMessage(data)
	if err != nil {
		p.failUnreadable(data, err)
		return
	}
	if isListChange(m.method) {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if changed != nil {
			changed()
		}
		return
	}
	p.mu.Lock()
	w := p.owner(&m)
	room := w != nil && len(w.messages) < maxQueuedNotices
	if m.id != nil && m.method != "" {
		room = w != nil && len(w.messages) < maxQueued-1
	} else if m.method == "" {
		room = w != nil && len(w.messages) < maxQueued
	}
	if room {
		w.messages <- m
	}
	p.mu.Unlock()
	if !room && m.method != "" && m.id != nil {
		p.refuse(&m)
	}
}

// failUnreadable fails the request that a message which cannot be read responds to, or else the only request. Other lines,
// such as those of a log on the standard output, are ignored.
func (p *pipe) failUnreadable(data []byte, err error) {
	id, isMessage := unreadableID(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[id]
	if id == "" && len(p.waiting) == 1 {
		for _, w = range p.waiting {
		}
	}
	if isMessage && w != nil && len(w.messages) < maxQueued {
		w.messages <- message{err: err}
	}
}

// owner returns the waiter that a message belongs to, or nil.
func (p *pipe) owner(m *message) *waiter {
	id := m.requestID()
	switch {
	case m.method == methodProgress:
		id = string(strictjson.MemberOf(m.params, "progressToken"))
	case m.method != "":
		return p.onlyCall()
	}
	if w := p.waiting[id]; w != nil && (w.isCall || m.method == "") {
		return w
	}
	return nil
}

// onlyCall returns the call in progress, or nil if there are several or none. The caller holds the lock.
func (p *pipe) onlyCall() (only *waiter) {
	for _, w := range p.waiting {
		switch {
		case !w.isCall:
		case only != nil:
			return nil
		default:
			only = w
		}
	}
	return only
}

// refuse responds to a request of the server that no call gets.
func (p *pipe) refuse(m *message) {
	answer := refusal(m.id, codeInternal, errManyCalls)
	switch m.method {
	case methodPing:
		answer = response(m.id, []byte("{}"))
	case methodListRoots: // a server that asks before any call learns that the gateway itself has none
		answer = response(m.id, []byte(`{"roots":[]}`))
	}
	select {
	case p.refusing <- struct{}{}:
	default:
		return // the server does not read what it gets
	}
	go func() {
		defer func() { <-p.refusing }()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = p.write(ctx, nil, answer)
	}()
}

// onChange sets what is called when a list has changed.
func (p *pipe) onChange(changed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
}

// listen implements link.
func (p *pipe) listen(ctx context.Context, changed func()) error {
	p.onChange(changed)
	select {
	case <-p.closed:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fail ends the pipe: requests in progress fail.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.closed)
	}
}

func (p *pipe) close() {
	p.fail(errors.New("the connection was closed"))
	p.end()
}
