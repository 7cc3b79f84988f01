package ocp

import (
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

// A SharedContext is the context of one agent as several requests at a time use
// it. Whoever reads it gets a snapshot; whoever changes it makes the next one. The
// zero value holds no context: requests go without headers then.
type SharedContext struct {
	mu       sync.Mutex // held by who changes it
	snapshot atomic.Pointer[contextSnapshot]
}

// contextSnapshot is a context that does not change, and its headers, which are
// encoded once however many requests carry them.
type contextSnapshot struct {
	context *Context
	once    sync.Once
	headers http.Header
	err     error
}

// NewSharedContext shares a copy of the context.
func NewSharedContext(c *Context) *SharedContext {
	s := &SharedContext{}
	s.snapshot.Store(&contextSnapshot{context: c.Clone()})
	return s
}

// Context returns the context as it is now, nil if there is none. It must not be
// changed.
func (s *SharedContext) Context() *Context {
	if s == nil {
		return nil
	}
	if snapshot := s.snapshot.Load(); snapshot != nil {
		return snapshot.context
	}
	return nil
}

// Change lets change work on a copy of the context and puts that in its place. It
// does nothing if there is no context.
func (s *SharedContext) Change(change func(*Context)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := s.snapshot.Load()
	if snapshot == nil {
		return
	}
	next := snapshot.context.Clone()
	change(next)
	s.snapshot.Store(&contextSnapshot{context: next})
}

// MergeHeaders merges the context that an answer carries (see
// Context.MergeHeaders) and returns the history entries that it added.
func (s *SharedContext) MergeHeaders(header http.Header, sent *Context, options ReadOptions) (added []HistoryEntry) {
	if len(header[HeaderSession]) == 0 {
		return nil
	}
	s.Change(func(c *Context) {
		before := len(c.History)
		if c.MergeHeaders(header, sent, options) && len(c.History) > before {
			added = c.History[before:]
		}
	})
	return added
}

// header returns the OCP headers of the snapshot, which must not be changed.
func (s *contextSnapshot) header() (http.Header, error) {
	s.once.Do(func() {
		s.headers = make(http.Header, len(headerNames))
		s.err = s.context.SetHeaders(s.headers)
	})
	return s.headers, s.err
}

// A Transport is an http.RoundTripper that sends the headers of a context with
// every request (OCP 1.0, Tool Execution), and with Merge takes over what answers say of the
// context. It adds nothing to the history itself: it does not know which tool a request
// calls. Use a Client, or Context.Record, for that. A request that brings OCP headers of
// its own is sent as it is, and so is one to which another host has redirected:
// what the agent tells one API is not for the next.
//
// A context that cannot be sent never keeps a request from being sent: it goes
// without the headers.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper

	// Context is whose headers are sent; nil sends none.
	Context *SharedContext

	// Merge takes over what answers say of the context.
	Merge bool

	// Options say how answers are read.
	Options ReadOptions
}

// RoundTrip sends the request with the context's headers.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	snapshot := t.fits(r)
	if snapshot == nil {
		return base.RoundTrip(r)
	}
	headers, err := snapshot.header()
	if err != nil {
		return base.RoundTrip(r)
	}
	r = r.Clone(r.Context()) // a RoundTripper must not change the request
	if r.Header == nil {
		r.Header = make(http.Header, len(headers))
	}
	maps.Copy(r.Header, headers)
	response, err := base.RoundTrip(r)
	if err == nil && t.Merge {
		t.Context.MergeHeaders(response.Header, snapshot.context, t.Options)
	}
	return response, err
}

// fits returns the context that the request is to carry, nil for none.
func (t *Transport) fits(r *http.Request) *contextSnapshot {
	if t.Context == nil || r.Header[HeaderContextID] != nil || r.Header[HeaderSession] != nil {
		return nil
	}
	if from := r.Response; from != nil && from.Request != nil && from.Request.URL.Host != r.URL.Host {
		return nil
	}
	return t.Context.snapshot.Load()
}
