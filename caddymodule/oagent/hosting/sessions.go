package hosting

import (
	"container/list"
	"net/http"
	"sync"
)

// Limits on the headers of users that are kept in memory, of all runs of a Host.
const (
	maxSessions     = 20_000
	maxSessionBytes = 64 << 20
)

// session is the data of a user's request that must not be stored, because it may contain credentials:
// headers, address and variables. It is immutable.
type session struct {
	header  http.Header
	address string         // http.Request.RemoteAddr
	vars    map[string]any // variables that handlers of the site have set
}

// size returns the approximate size of a session in bytes.
func (s *session) size() int {
	size := 0
	for name, values := range s.header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// sessions keeps the sessions of runs in memory. At a limit it drops the least recently used ones. Their
// runs then wait until their users send another request.
type sessions struct {
	mu    sync.Mutex
	byRun map[string]*list.Element // of heldSession
	used  list.List                // the latest first
	bytes int
}

type heldSession struct {
	run string
	*session
}

// put keeps the session of a run. It replaces an earlier one.
func (s *sessions) put(run string, of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(run)
	if s.byRun == nil {
		s.byRun = make(map[string]*list.Element)
	}
	s.byRun[run] = s.used.PushFront(heldSession{run, of})
	s.bytes += of.size()
	for s.used.Len() > maxSessions || s.bytes > maxSessionBytes {
		s.drop(s.used.Back().Value.(heldSession).run)
	}
}

// get returns the session of a run, or nil if there is none.
func (s *sessions) get(run string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byRun[run]
	if e == nil {
		return nil
	}
	s.used.MoveToFront(e)
	return e.Value.(heldSession).session
}

// remove drops the session of a run that has ended.
func (s *sessions) remove(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(run)
}

func (s *sessions) drop(run string) {
	if e := s.byRun[run]; e != nil {
		s.used.Remove(e)
		s.bytes -= e.Value.(heldSession).size()
		delete(s.byRun, run)
	}
}

// runs returns the runs that have a session.
func (s *sessions) runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make([]string, 0, len(s.byRun))
	for run := range s.byRun {
		runs = append(runs, run)
	}
	return runs
}
