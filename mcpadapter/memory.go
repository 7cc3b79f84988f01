package mcpadapter

import (
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// Memory is the state that successive Servers of one endpoint share across configuration reloads:
// sessions that are in use or have ended, and open HTTP+SSE streams. After a reload, a client can
// still respond to a request of the old Server and cancel a call to it, and it is notified about
// lists that differ. A Memory is safe for concurrent use.
type Memory struct {
	lives  *session.States
	legacy sync.Map // open HTTP+SSE streams: session.Key to *connection

	mu      sync.Mutex
	servers []*Server // Servers in use, oldest first
}

// Usage says how much of a limit with shares is in use, and who uses most.
type Usage = share.Usage

// NewMemory returns an empty Memory. warn is called when the use of the limit of sessions rises above 80 %. It must
// not block, and may be nil.
func NewMemory(warn func(Usage)) *Memory { return &Memory{lives: session.NewStates(warn)} }

// Connected notifies the clients of a user, who got a URL elicitation for the account, that the user has connected it.
// Account is that of tools.Connection.
func (m *Memory) Connected(user, account string) { m.lives.Complete(user, account) }

func (m *Memory) attach(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, s)
}

// detach removes a Server and returns its successor: the newest later Server with the same
// Options.Instance, or nil.
func (m *Memory) detach(s *Server) (next *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.servers, s)
	if at < 0 {
		return nil
	}
	for _, later := range m.servers[at+1:] {
		if later.options.Instance == s.options.Instance {
			next = later
		}
	}
	m.servers = slices.Delete(m.servers, at, at+1)
	return next
}
