package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
)

// A session is what the gateway and the server have agreed on.
type session struct {
	link         link
	modern       bool           // 2026-07-28 or later: requests describe themselves
	version      string         // the revision
	warnings     []string       // about what it says of itself
	info         jsontext.Value // serverInfo, or nil
	capabilities jsontext.Value // of the server, or nil
	instructions string
	ids          atomic.Int64
}

// A slot holds the session of one owner while it is opened and while it is in use.
type slot struct {
	opened  chan struct{} // closed when session and err are set
	session *session      // is read with the lock of the server, or after opened is closed; as err
	err     error
	calls   int       // in progress
	used    time.Time // by the latest call
}

func (s *slot) close() {
	if <-s.opened; s.session != nil {
		s.session.link.close()
	}
}

// gateway is the owner of the session that lists tools, and of a process that all share.
const gateway share.Owner = ""

// acquire returns the session for calls of an owner, and a function to call when the call has ended. A session that
// keeps no state serves all owners. Calls that need the same session wait until it is open.
func (s *Server) acquire(ctx context.Context, owner share.Owner, header http.Header) (*session, func(), error) {
	if s.options.Command != nil && !s.options.OwnProcesses {
		owner = gateway
	}
	s.mu.Lock()
	found := s.sessions[owner]
	if s.stateless != nil {
		found = s.stateless
	}
	var err error
	if s.closed {
		err = errStopping
	} else if found == nil || s.options.Command == nil { // a process that runs does not depend on those that do not start
		err = s.backoff.check()
	}
	if err == nil && found == nil {
		err = s.makeRoom(owner)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	if found == nil {
		found = &slot{opened: make(chan struct{})}
		s.sessions[owner] = found
		go s.openSlot(context.WithoutCancel(ctx), owner, found, header) // others may wait for it too
	}
	found.calls++
	s.mu.Unlock()
	release := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		found.calls--
		found.used = time.Now()
	}
	select {
	case <-found.opened:
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	if found.err != nil {
		release()
		return nil, nil, found.err
	}
	return found.session, release, nil
}

// openTimeout is how long opening a session may take. Starting a process may include an installation.
const openTimeout = time.Minute

var errOpenTimeout = fmt.Errorf("opening a session took longer than %v", openTimeout)

// openSlot opens the session of a slot. If that fails, the next call tries again.
func (s *Server) openSlot(ctx context.Context, owner share.Owner, to *slot, header http.Header) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errOpenTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopped, cancel)()
	opened, err := s.negotiate(ctx, header)
	if errors.Is(err, errOpenTimeout) {
		err = &UnavailableError{fmt.Errorf("%w: %w", errUnsent, err)}
	}
	s.mu.Lock()
	to.session, to.err = opened, err
	s.backoff.record(to.err, &s.options)
	current := s.sessions[owner] == to
	switch {
	case to.err != nil && current:
		delete(s.sessions, owner)
	case to.err == nil && !to.session.link.isStateful():
		s.stateless = to
	}
	s.mu.Unlock()
	close(to.opened)
	if !current && to.session != nil {
		to.session.link.close() // the server was closed in the meantime
	}
}

// drop closes a session that no longer works, so that the next call opens another.
func (s *Server) drop(gone *session) {
	s.mu.Lock()
	for key, found := range s.sessions {
		if found.session == gone {
			delete(s.sessions, key)
		}
	}
	if s.stateless != nil && s.stateless.session == gone {
		s.stateless = nil
	}
	s.mu.Unlock()
	go gone.link.close()
}

// makeRoom makes room for a session, by closing the one that has been unused for the longest time. The caller holds the
// lock.
func (s *Server) makeRoom(owner share.Owner) error {
	limit, what := maxSessions, "sessions"
	if s.options.Command != nil {
		limit, what = s.options.MaxProcesses, "processes"
	}
	s.startSweeper()
	if owner == gateway || len(s.sessions) < limit {
		return nil
	}
	var oldest share.Owner
	for key, other := range s.sessions {
		if key != gateway && other.calls == 0 && (oldest == gateway || other.used.Before(s.sessions[oldest].used)) {
			oldest = key
		}
	}
	if oldest == gateway {
		return &UnavailableError{fmt.Errorf("%w: all %s of the MCP server are in use: try again later", errUnsent, what)}
	}
	go s.sessions[oldest].close()
	delete(s.sessions, oldest)
	return nil
}

// startSweeper closes sessions that are not used, until there are none but that of the gateway. The caller holds the lock.
func (s *Server) startSweeper() {
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(sessionIdle/2, s.sweep)
	}
}

func (s *Server) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner, found := range s.sessions {
		if owner != gateway && found.calls == 0 && time.Since(found.used) > sessionIdle {
			go found.close()
			delete(s.sessions, owner)
		}
	}
	s.sweeper = nil
	if len(s.sessions) > 1 && !s.closed {
		s.startSweeper()
	}
}
