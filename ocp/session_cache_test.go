package ocp

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestSessionCache(t *testing.T) {
	decoded := 0
	cache := &SessionCache{decoding: func() { decoded++ }}
	read := func(session string, options ReadOptions) (*Context, Judgement) {
		t.Helper()
		options.Cache = cache
		s, err := NewSession(session, options)
		if err != nil {
			t.Fatal(err)
		}
		return s.Context()
	}
	named := func(user string) string { return encoded(minimal[:len(minimal)-1] + `,"user":"` + user + `"}`) }

	first, _ := read(named("alice"), ReadOptions{})
	if again, judgement := read(named("alice"), ReadOptions{}); again != first || judgement.Verdict != Conforming || decoded != 1 {
		t.Errorf("decoded %d times", decoded)
	}
	if other, _ := read(named("bob"), ReadOptions{}); other.User != "bob" {
		t.Errorf("got %+v", other)
	}
	loose := encoded(`{"user":"alice"}`)
	if c, _ := read(loose, ReadOptions{}); c == nil {
		t.Error("not usable")
	}
	if c, _ := read(loose, ReadOptions{Strict: true}); c != nil {
		t.Error("a session that was read loosely is found strictly")
	}
	if _, judgement := read(named("alice"), ReadOptions{MaxInflated: 50}); judgement.Verdict != Ignored {
		t.Error("a session that was read with one limit is found with another")
	}
	for i := range 3 * maxCachedSessions {
		read(named(fmt.Sprint(i)), ReadOptions{})
		read(named("kept"), ReadOptions{})
		if n := len(cache.young) + len(cache.old); n > 2*maxCachedSessions {
			t.Fatalf("%d sessions are kept", n)
		}
	}
	decoded = 0
	if read(named("kept"), ReadOptions{}); decoded != 0 {
		t.Error("a session that is used all the time was dropped")
	}
	if read(named("alice"), ReadOptions{}); decoded != 1 {
		t.Error("an unused session was kept")
	}
	big := "gzip:" + encodedBytes(zip(`{"user":"`+strings.Repeat("a", maxCachedJSON)+`"}`))
	decoded = 0
	read(big, ReadOptions{})
	if read(big, ReadOptions{}); decoded != 2 {
		t.Error("a big session was kept")
	}
}

func TestSessionCache_concurrent(t *testing.T) {
	var cache SessionCache
	session := bigSession(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s, err := NewSession(session, ReadOptions{Cache: &cache})
				if err != nil {
					t.Error(err)
					return
				}
				if c, _ := s.Context(); len(c.History) < 40 {
					t.Error("no history")
				}
			}
		})
	}
	all.Wait()
}
