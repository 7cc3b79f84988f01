package mcpadapter

import (
	"slices"
	"sync"
)

// Memory is what the successive Servers of one endpoint have in common: sessions
// that have something going on or were ended, and open HTTP+SSE streams. With it a
// client can answer a question, or cancel a call, of the Server before, and is told
// how the lists of the next Server differ. It is safe for concurrent use.
type Memory struct {
	lives  lives
	legacy legacyClients

	mu      sync.Mutex
	servers []*Server // that are in use, oldest first
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return new(Memory) }

func (m *Memory) attach(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, s)
}

// detach takes a Server out of use and returns the one that takes its place: the
// newest that came after it. It is nil if there is none.
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
