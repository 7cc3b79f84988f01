package session

import (
	"errors"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
)

const (
	// maxStates is the maximum number of sessions whose state a server keeps, with a share for each
	// owner. At the limit, the server drops the state of a session that is not in use. If all are in
	// use, it serves the new session without state: its requests cannot be canceled, and the server
	// cannot send it requests.
	maxStates = 100_000

	// maxForgettable is how many sessions are examined to find one that is not in use.
	maxForgettable = 64

	// maxEnded is the maximum number of ended sessions that are kept until they expire. At the
	// limit, the oldest is dropped.
	maxEnded = 100_000
)

// States holds the state of all sessions.
type States struct {
	mu       sync.Mutex
	sessions map[Key]*State
	bound    *share.Bound      // counts sessions by owner
	over     map[Key]time.Time // expiry of ended sessions
	order    []Key             // keys of over, oldest first

	elicitations []Elicitation // oldest first
}

// NewStates returns the state of no sessions. See share.Options.Warn for warn.
func NewStates(warn func(share.Usage)) *States {
	return &States{sessions: make(map[Key]*State), bound: share.NewBound(share.Options{Name: "mcp sessions", Limit: maxStates, Warn: warn})}
}

// Usage returns how many sessions have a State.
func (ls *States) Usage() share.Usage { return ls.bound.Usage() }

// Enter returns the state of a session of the owner; the caller must call leave when it is done with it. l is
// nil for an ended session, and if there is no room for it.
func (ls *States) Enter(s *Session, owner share.Owner) (l *State, leave func()) {
	key := s.Key
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l = ls.sessions[key]
	if l == nil {
		if _, ended := ls.over[key]; ended || !ls.take(owner) {
			return nil, func() {}
		}
		l = &State{owner: owner}
		ls.sessions[key] = l
	}
	l.uses++
	return l, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if l.uses--; l.uses == 0 && l.idle() && ls.sessions[key] == l {
			ls.remove(key)
		}
	}
}

// remove removes the state of a session.
func (ls *States) remove(key Key) {
	ls.bound.Give(ls.sessions[key].owner, 1)
	delete(ls.sessions, key)
}

// take counts a new session. To make room it drops the state of a session that is not in use: its log level,
// and its subscriptions without an open stream. It returns false if it finds none.
func (ls *States) take(owner share.Owner) bool {
	full, _ := errors.AsType[*share.FullError](ls.bound.Take(owner, 1))
	if full == nil {
		return true
	}
	victim, found := ls.bound.Yields(full, func(share.Owner) bool { return true })
	looked := 0
	for key, l := range ls.sessions {
		if found && l.uses == 0 && l.owner == victim {
			ls.remove(key)
			return ls.bound.Take(owner, 1) == nil
		}
		if looked++; looked == maxForgettable {
			break
		}
	}
	return false
}

// End ends a session (HTTP DELETE): it cancels the requests in progress and closes the streams.
func (ls *States) End(s Session) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.over == nil {
		ls.over = make(map[Key]time.Time)
	}
	if _, again := ls.over[s.Key]; !again {
		ls.order = append(ls.order, s.Key)
	}
	ls.over[s.Key] = s.Expires
	now := time.Now()
	for len(ls.order) > 0 && (len(ls.order) > maxEnded || now.After(ls.over[ls.order[0]])) {
		delete(ls.over, ls.order[0])
		ls.order = ls.order[1:]
	}
	if l := ls.sessions[s.Key]; l != nil {
		ls.remove(s.Key)
		l.End()
	}
}

// End cancels the requests in progress and closes the streams.
func (l *State) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.running {
		r.cancel(ErrCanceled)
	}
	for _, w := range l.watchers {
		w.Close()
	}
}

// Resume returns the session of an id that the signer issued to the user. It returns an error if the id
// is not valid, or the session has expired or has ended.
func (ls *States) Resume(g *Signer, id, user string, now time.Time) (Session, error) {
	s, err := g.Open(id, user, now)
	if err == nil && ls.ended(s.Key) {
		err = errEnded
	}
	return s, err
}

// Len returns the number of sessions with a State.
func (ls *States) Len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.sessions)
}

func (ls *States) ended(key Key) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, ended := ls.over[key]
	return ended
}
