package session

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
)

// Sessions that have set a log level and are gone do not keep others from being
// canceled and asked.
func TestIdleSessionsAreForgotten(t *testing.T) {
	var ls States
	session := func(n int) *Session {
		s := new(Session)
		copy(s.Key[:], strconv.Itoa(n))
		return s
	}
	used, leave := ls.Enter(session(-1))
	for n := range maxStates + 10 {
		l, leave := ls.Enter(session(n))
		if l == nil {
			t.Fatalf("session %d is not remembered", n)
		}
		l.SetLogLevel(1)
		leave()
	}
	if len(ls.sessions) > maxStates {
		t.Errorf("%d are remembered", len(ls.sessions))
	}
	if again, leave := ls.Enter(session(-1)); again != used {
		t.Error("a session that is in use was forgotten")
	} else {
		leave()
	}
	leave()
}

func TestEndedSessionIsNotEntered(t *testing.T) {
	var ls States
	s := &Session{Expires: time.Now().Add(time.Hour)}
	_, leave := ls.Enter(s)
	ls.End(*s)
	if l, _ := ls.Enter(s); l != nil {
		t.Error("a session that has ended was entered")
	}
	leave()
}

func TestSubscriptionsAreBounded(t *testing.T) {
	var l State
	for i := range subscription.MaxWatched {
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
