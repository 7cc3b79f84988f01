package mcpadapter

import (
	"context"
	"net"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// Default values of Options for streams.
const (
	defaultMaxStreams    = 10_000           // open streams
	defaultKeepAlive     = 25 * time.Second // between comments on an idle stream
	defaultWatchInterval = 10 * time.Second // between polls of a watched resource
)

// A Change is a set of changed lists, about which clients with an open stream are notified.
type Change = session.Lists

// The values of Change.
const (
	ToolsChanged     = session.Tools
	PromptsChanged   = session.Prompts
	ResourcesChanged = session.Resources
	EventsChanged    = session.Events
)

// Notify notifies listening clients about a change. It does not wait for them.
func (s *Server) Notify(c Change) {
	s.streams.Notify(c)
}

// Close closes all streams cleanly and gives up requests that wait for a client's response. Other
// requests in progress are completed, and the calls of tasks go on until Drain.
func (s *Server) Close() {
	s.endStreams()
	s.cancelAsking()
}

// Drain waits until the calls of tasks have ended and are recorded. It is called after Close, when no requests are in
// progress. When ctx ends, it interrupts the calls. Another node repeats those that are idempotent.
func (s *Server) Drain(ctx context.Context) {
	defer context.AfterFunc(ctx, s.attempts.interrupt)()
	s.attempts.supervising.Wait()
}

// endStreams closes all streams. Before they close, clients are notified about the lists that differ in the Server that
// replaces this one.
func (s *Server) endStreams() {
	if next := s.memory.detach(s); next != nil {
		s.next.CompareAndSwap(nil, next)
	}
	s.close()
}

// Replace closes all streams cleanly because another Server replaces this one. Before they close,
// clients are notified about the lists that differ in the new Server. Calls that wait for a client's
// response are given up after grace, because the new Server can still deliver the response; if there
// is no new Server with the same Memory and Instance, they are given up at once.
func (s *Server) Replace(grace time.Duration) {
	s.endStreams()
	if s.next.Load() == nil {
		grace = 0
	}
	end := func() {
		s.cancelAsking()
		s.attempts.interrupt()
	}
	if grace == 0 {
		end()
		return
	}
	time.AfterFunc(grace, end)
}

// ownerOf returns whose shares a client uses: those of the user, or else of the network of the address.
func ownerOf(site *Site, remote string) share.Owner {
	address := site.Address
	if address == "" {
		address = remote
		if host, _, err := net.SplitHostPort(remote); err == nil {
			address = host
		}
	}
	return share.OwnerOf(site.User, address)
}

// Usage returns how many streams and sessions are in use.
func (s *Server) Usage() []Usage {
	return []Usage{s.streams.Bound.Usage(), s.memory.lives.Usage()}
}

// newListWatch returns the ListWatch for a new stream.
func (s *Server) newListWatch(site *Site) *session.ListWatch {
	current := func() session.Digests { return s.catalogOf(site.Host.Tools()).Digests() }
	return &session.ListWatch{Known: current(), Current: current}
}
