package session

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
)

// Sessions that have set a log level and are gone do not keep others from being
// canceled and asked.
func TestIdle_sessions_are_forgotten(t *testing.T) {
	ls := NewStates(nil)
	session := func(n int) *Session {
		s := new(Session)
		copy(s.Key[:], strconv.Itoa(n))
		return s
	}
	used, leave := ls.Enter(session(-1), share.Gateway)
	for n := range maxStates + 10 {
		l, leave := ls.Enter(session(n), share.Gateway)
		if l == nil {
			t.Fatalf("session %d is not remembered", n)
		}
		l.LogLevel.Store(uint32(1))
		leave()
	}
	if len(ls.sessions) > maxStates {
		t.Errorf("%d are remembered", len(ls.sessions))
	}
	if again, leave := ls.Enter(session(-1), share.Gateway); again != used {
		t.Error("a session that is in use was forgotten")
	} else {
		leave()
	}
	leave()
}

// Sessions in use of one user leave room for those of others.
func TestSessions_have_shares(t *testing.T) {
	ls := NewStates(nil)
	enter := func(user string, n int) *State {
		s := new(Session)
		copy(s.Key[:], user+strconv.Itoa(n))
		l, _ := ls.Enter(s, share.OwnerOf(user, ""))
		return l
	}
	for n := range maxStates {
		enter("bob", n)
	}
	for n := range 1000 {
		if enter("ada", n) == nil {
			t.Fatalf("session %d of another user has no state", n)
		}
	}
	if enter("bob", maxStates) != nil {
		t.Error("a session above the share has a state")
	}
}

func TestEnded_session_is_not_entered(t *testing.T) {
	ls := NewStates(nil)
	s := &Session{Expires: time.Now().Add(time.Hour)}
	_, leave := ls.Enter(s, share.Gateway)
	ls.End(*s)
	if l, _ := ls.Enter(s, share.Gateway); l != nil {
		t.Error("a session that has ended was entered")
	}
	leave()
}

func TestSubscriptions_are_bounded(t *testing.T) {
	var l State
	for i := range MaxWatched {
		if !l.Subscribe(strings.Repeat("a", i)) {
			t.Fatal("too few")
		}
	}
	if !l.Subscribe("aa") || l.Subscribe("b") {
		t.Error("the limit is not one of different resources")
	}
	l.Unsubscribe("a")
	if !l.Subscribe("b") {
		t.Error("nothing was unsubscribed")
	}
}
