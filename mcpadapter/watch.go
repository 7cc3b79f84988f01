package mcpadapter

import (
	"crypto/rand"
	"net"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// Default values of Options for streams.
const (
	DefaultMaxStreams       = 10_000           // open streams
	DefaultMaxClientStreams = 64               // open streams per client
	DefaultKeepAlive        = 25 * time.Second // between comments on an idle stream
	DefaultWatchInterval    = 10 * time.Second // between polls of a watched resource
)

// A Change is a set of changed lists, about which clients with an open stream are notified.
type Change = subscription.Lists

// The values of Change.
const (
	ToolsChanged     = subscription.Tools
	PromptsChanged   = subscription.Prompts
	ResourcesChanged = subscription.Resources
)

// Notify notifies listening clients about a change. It does not wait for them.
func (s *Server) Notify(c Change) {
	s.streams.Notify(c)
}

// Close closes all streams cleanly and gives up requests that wait for a client's response. Other
// requests in progress are completed.
func (s *Server) Close() {
	s.Replace(0)
	s.cancelAsking()
}

// Replace closes all streams cleanly because another Server replaces this one. Before they close,
// clients are notified about the lists that differ in the new Server. Calls that wait for a client's
// response are given up after grace, because the new Server can still deliver the response; if there
// is no new Server with the same Memory and Instance, they are given up at once.
func (s *Server) Replace(grace time.Duration) {
	if next := s.memory.detach(s); next != nil {
		s.next.CompareAndSwap(nil, next)
	}
	s.close()
	if s.next.Load() == nil {
		s.cancelAsking()
		return
	}
	time.AfterFunc(grace, s.cancelAsking)
}

// clientOf returns the identity by which streams are counted: the user, or else the address.
func clientOf(site *Site, remote string) string {
	if site.User != "" {
		return "user " + site.User
	}
	if site.Address != "" {
		return "address " + site.Address
	}
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return "address " + remote
}

// join registers a stream of a client.
func (s *Server) join(w *subscription.Watcher, client string) (leave func(), f *jsonrpc.Fault) {
	return s.streams.Join(w, client, s.options.MaxStreams, s.options.MaxClientStreams)
}

// A watchRequest is a request for notifications: a stream, subscriptions/listen, or a subscription to a
// resource.
type watchRequest struct {
	*message
	polling library.PollKey // identifies the polls of the stream; the URI is set per poll
}

// newWatchRequest returns a watchRequest that can poll resources.
func newWatchRequest(m *message) watchRequest {
	key := library.PollKey{Client: m.clientIdentity(), Identity: rand.Text()} // unique, so no other stream shares its polls
	if identity := m.site.Host.Identity(); identity != "" {
		key.Identity = identity + catalog.AccessKey(m.site.Access)
	}
	return watchRequest{m, key}
}

// newListWatch returns the ListWatch for a new stream.
func (q watchRequest) newListWatch() *subscription.ListWatch {
	current := func() subscription.Digests { return q.server.catalogOf(q.site.Host.Tools()).Digests() }
	return &subscription.ListWatch{Known: current(), Current: current}
}
