package ocp

import (
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

// A SharedContext is the context of one agent, for use by concurrent requests. Readers get
// an immutable snapshot; a change replaces the snapshot. The zero value holds no context,
// and requests then have no OCP headers.
type SharedContext struct {
	mu       sync.Mutex // held during changes
	snapshot atomic.Pointer[contextSnapshot]
}

// contextSnapshot is an immutable context with its headers, which are encoded only once
// for all requests.
type contextSnapshot struct {
	context *Context
	once    sync.Once
	headers http.Header
	err     error
}

// NewSharedContext returns a SharedContext with a copy of the context.
func NewSharedContext(c *Context) *SharedContext {
	s := &SharedContext{}
	s.snapshot.Store(&contextSnapshot{context: c.Clone()})
	return s
}

// Context returns the current context, or nil if there is none. It must not be changed.
func (s *SharedContext) Context() *Context {
	if s == nil {
		return nil
	}
	if snapshot := s.snapshot.Load(); snapshot != nil {
		return snapshot.context
	}
	return nil
}

// Change calls change with a copy of the context and then replaces the context by the
// copy. If there is no context, it does nothing.
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

// MergeHeaders merges the context of a response (see Context.MergeHeaders) and returns the
// history entries that were added.
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

// A Transport is an http.RoundTripper that sends the OCP headers of a context with every
// request (OCP 1.0, Tool Execution). With Merge, it also merges the context of responses.
// It does not record calls in the history, because it does not know which tool a request
// calls. Use a Client or Context.Record for that.
//
// The Transport sends a request without adding headers if
//
//   - the request already has OCP headers,
//   - it was redirected to another host, because the context is meant for one API only, or
//   - the context cannot be encoded. This never makes the request fail.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper

	// Context is the context to send. nil sends none.
	Context *SharedContext

	// Merge enables merging the context of responses.
	Merge bool

	// Options configure how responses are read.
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

// fits returns the context to send with the request, or nil for none.
func (t *Transport) fits(r *http.Request) *contextSnapshot {
	if t.Context == nil || r.Header[HeaderContextID] != nil || r.Header[HeaderSession] != nil {
		return nil
	}
	if from := r.Response; from != nil && from.Request != nil && from.Request.URL.Host != r.URL.Host {
		return nil
	}
	return t.Context.snapshot.Load()
}
