package caddymodule

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/fairwayhq/fairway/ocp"
)

const (
	// keptSessions is how many sessions a handler keeps that it has decoded.
	keptSessions = 128

	// maxKeptSession is the largest JSON of a session that is kept, in bytes; what
	// it is decoded to takes about twice as much again.
	maxKeptSession = 32 << 10
)

// sessions keeps what was decoded lately: an agent sends the same session with
// every request until it has learnt something from an answer. Each session has
// one slot, which the next one that falls into it takes over.
type sessions struct {
	seed  maphash.Seed
	slots [keptSessions]atomic.Pointer[ocp.Session]
}

func newSessions() *sessions {
	return &sessions{seed: maphash.MakeSeed()}
}

// decode decodes the session and returns it, or the one that it is a copy of. The
// error is that of ocp.Session.JSON.
func (s *sessions) decode(session *ocp.Session) (*ocp.Session, error) {
	slot := &s.slots[maphash.String(s.seed, session.Encoded())%keptSessions]
	if kept := slot.Load(); kept != nil && kept.Encoded() == session.Encoded() {
		return kept, nil
	}
	content, err := session.JSON()
	if err == nil && len(content) <= maxKeptSession {
		slot.Store(session)
	}
	return session, err
}
