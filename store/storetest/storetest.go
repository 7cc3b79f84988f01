// Package storetest is the conformance test suite for stores. Run gets a function that
// provides a new, empty place for records, opens stores there and checks everything that
// package store documents.
//
// The crash test kills a process that writes: the test binary, started once more. A
// package whose tests call Run must call Child first in its TestMain.
//
//	func TestMain(m *testing.M) {
//		storetest.Child(func(address string) (store.Store, error) { return mystore.Open(address) })
//		os.Exit(m.Run())
//	}
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Place {
//			file := filepath.Join(t.TempDir(), "records")
//			return storetest.Place{Address: file, Open: func(t testing.TB) store.Store {
//				s, err := mystore.Open(file)
//				if err != nil {
//					t.Fatal(err)
//				}
//				return s
//			}}
//		})
//	}
package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// patience is how long a test waits for a condition.
const patience = time.Minute

// Place is where a store keeps its records. It is empty at first.
type Place struct {
	// Open opens a store at this place. The test closes the store.
	Open func(testing.TB) store.Store
	// Nodes reports whether several stores can be open at this place at the same time.
	Nodes bool
	// Address is the address that Child opens. It is empty if no other process can open the place, as in
	// memory. Then there is no crash test.
	Address string
}

// Run runs the test suite. Each test gets a new place.
func Run(t *testing.T, place func(*testing.T) Place) {
	for _, check := range []struct {
		name string
		run  func(*testing.T, Place)
	}{
		{"get, put, update, delete", basics},
		{"exclusive", exclusive},
		{"limits", limits},
		{"an error of change changes nothing", changeFails},
		{"value and log change together", together},
		{"update under contention is exact", contention},
		{"put under contention loses no entry", appending},
		{"later is visible at once", later},
		{"a record expires with its log", expiry},
		{"each change counts the ttl anew", refresh},
		{"a key that comes again has a new log", rebirth},
		{"a large record", large},
		{"a long log", long},
		{"keys", keys},
		{"a restart", restart},
		{"wait", wait},
		{"wait ends when a record expires", waitExpiry},
		{"a context that ends", contexts},
		{"close", closing},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, place(t)) })
	}
	t.Run("a crash in the middle", func(t *testing.T) {
		if at := place(t); at.Address != "" {
			crash(t, at)
		}
	})
}

func exclusive(t *testing.T, place Place) {
	if got, want := open(t, place).Exclusive(), !place.Nodes; got != want {
		t.Errorf("Exclusive returns %t, want %t", got, want)
	}
}

// open opens a store and closes it at the end of the test.
func open(t *testing.T, place Place) store.Store {
	t.Helper()
	s := place.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// nodes returns two stores at the place, or the same store twice if Nodes is false.
func nodes(t *testing.T, place Place) []store.Store {
	t.Helper()
	first := open(t, place)
	if !place.Nodes {
		return []store.Store{first, first}
	}
	return []store.Store{first, open(t, place)}
}

func value(text string) store.Change {
	return store.Change{Value: []byte(text), TTL: time.Hour}
}

func put(t *testing.T, s store.Store, key string, c store.Change) {
	t.Helper()
	if err := s.Put(t.Context(), key, c); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func want(t *testing.T, s store.Store, key, text string, length int64) {
	t.Helper()
	r, err := s.Get(t.Context(), key)
	if err != nil || r.Value == nil {
		t.Fatalf("%s has the value %v and the error %v, want %q", key, r.Value, err, text)
	}
	if string(r.Value) != text || r.Length != length {
		t.Fatalf("%s is %q with %d entries, want %q with %d", key, r.Value, r.Length, text, length)
	}
}

func wantNone(t *testing.T, s store.Store, key string) {
	t.Helper()
	if r, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) || r.Value != nil {
		t.Fatalf("%s is %q, error %v, want none", key, r.Value, err)
	}
}

func wantLog(t *testing.T, s store.Store, key string, from int64, limit int, wanted ...string) {
	t.Helper()
	entries, err := s.Read(t.Context(), key, from, limit)
	got := make([]string, len(entries))
	for i, e := range entries {
		got[i] = string(e)
	}
	if err != nil || !slices.Equal(got, wanted) {
		t.Fatalf("log of %s from %d: %q, error %v, want %q", key, from, got, err, wanted)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func basics(t *testing.T, place Place) {
	s := open(t, place)
	key := "a/\x00b*?[é]{}"
	wantNone(t, s, key)
	put(t, s, key, value("one"))
	want(t, s, key, "one", 0)
	wantNone(t, s, key+"x")
	err := s.Update(t.Context(), key, func(old store.Record) (store.Change, error) {
		return value(string(old.Value) + " two"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, key, "one two", 0)
	put(t, s, key, value(""))
	want(t, s, key, "", 0)
	if err := s.Delete(t.Context(), key, "ghost"); err != nil {
		t.Fatal(err)
	}
	wantNone(t, s, key)

	err = s.Update(t.Context(), key, func(old store.Record) (store.Change, error) {
		if old.Value != nil || old.Length != 0 {
			t.Errorf("no record is %q with %d entries", old.Value, old.Length)
		}
		return value("three"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to delete
		err = s.Update(t.Context(), key, func(store.Record) (store.Change, error) { return store.Change{Delete: true}, nil })
		if err != nil {
			t.Fatal(err)
		}
		wantNone(t, s, key)
	}
	put(t, s, key, store.Change{Delete: true})
	wantNone(t, s, key)
}

func limits(t *testing.T, place Place) {
	s := open(t, place)
	many := make([][]byte, store.MaxEntries+1)
	big := make([]byte, store.DefaultMaxValue+1)
	for name, test := range map[string]struct {
		key    string
		change store.Change
		large  bool
	}{
		"no key":            {"", value("x"), false},
		"key":               {strings.Repeat("k", store.MaxKey+1), value("x"), true},
		"no ttl":            {"k", store.Change{Value: []byte("x")}, false},
		"ttl":               {"k", store.Change{Value: []byte("x"), TTL: store.MaxTTL + 1}, false},
		"value":             {"k", store.Change{Value: big, TTL: time.Hour}, true},
		"number of entries": {"k", store.Change{Entries: many, TTL: time.Hour}, true},
		"bytes of entries":  {"k", store.Change{Entries: [][]byte{big[1:], {1}}, TTL: time.Hour}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{
				s.Put(t.Context(), test.key, test.change),
				s.Update(t.Context(), test.key, func(store.Record) (store.Change, error) { return test.change, nil }),
			} {
				if err == nil || errors.Is(err, store.ErrTooLarge) != test.large {
					t.Errorf("error %v, want one; ErrTooLarge: %v", err, test.large)
				}
			}
		})
	}
	wantNone(t, s, "k")
	longest := strings.Repeat("k", store.MaxKey)
	put(t, s, longest, store.Change{Value: big[1:], TTL: store.MaxTTL})
	if _, err := s.Read(t.Context(), longest, -1, 1); err == nil {
		t.Error("a log is read from -1 on")
	}
	if _, err := s.Keys(t.Context(), "", "", 0); err == nil {
		t.Error("0 keys may be asked for")
	}
}

func changeFails(t *testing.T, place Place) {
	s := open(t, place)
	put(t, s, "k", store.Change{Value: []byte("old"), Entries: [][]byte{{1}}, TTL: time.Hour})
	refused := errors.New("refused")
	err := s.Update(t.Context(), "k", func(store.Record) (store.Change, error) { return value("new"), refused })
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want change's own", err)
	}
	want(t, s, "k", "old", 1)
}

func together(t *testing.T, place Place) {
	s := open(t, place)
	put(t, s, "k", store.Change{Entries: [][]byte{[]byte("a"), {}}, TTL: time.Hour})
	want(t, s, "k", "", 2)
	err := s.Update(t.Context(), "k", func(old store.Record) (store.Change, error) {
		if old.Length != 2 {
			t.Errorf("the log has %d entries, want 2", old.Length)
		}
		return store.Change{Value: []byte("v"), Entries: [][]byte{[]byte("c")}, TTL: time.Hour}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", store.Change{Entries: [][]byte{[]byte("d")}, TTL: time.Hour})
	want(t, s, "k", "v", 4)
	wantLog(t, s, "k", 0, 10, "a", "", "c", "d")
	wantLog(t, s, "k", 1, 2, "", "c")
	wantLog(t, s, "k", 4, 10)
	wantLog(t, s, "other", 0, 10)
	put(t, s, "k2", store.Change{Value: []byte("other"), Entries: [][]byte{[]byte("z")}, TTL: time.Hour})
	wantLog(t, s, "k", 3, 10, "d")
}

// contention checks that concurrent increments are all counted, each with its log entry.
func contention(t *testing.T, place Place) {
	const clients, each = 64, 10
	stores := nodes(t, place)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range each {
				err := stores[i%len(stores)].Update(t.Context(), "counter", func(old store.Record) (store.Change, error) {
					n, _ := strconv.Atoi(string(old.Value))
					c := value(strconv.Itoa(n + 1))
					c.Entries = [][]byte{c.Value}
					return c, nil
				})
				if err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range stores {
		want(t, s, "counter", strconv.Itoa(clients*each), clients*each)
		wantCounted(t, s, "counter", clients*each)
	}
}

// wantCounted checks that the log has the numbers from 1 to n.
func wantCounted(t testing.TB, s store.Store, key string, n int) {
	t.Helper()
	entries, err := s.Read(context.Background(), key, 0, n+1)
	if err != nil || len(entries) != n {
		t.Fatalf("%s has %d entries, error %v, want %d", key, len(entries), err, n)
	}
	for i, e := range entries {
		if string(e) != strconv.Itoa(i+1) {
			t.Fatalf("entry %d of %s is %q", i, key, e)
		}
	}
}

func appending(t *testing.T, place Place) {
	const clients, each = 16, 20
	stores := nodes(t, place)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := range each {
				entry := fmt.Sprintf("%02d-%02d", i, n)
				err := stores[i%len(stores)].Put(t.Context(), "log", store.Change{Entries: [][]byte{[]byte(entry)}, TTL: time.Hour})
				if err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	all.Wait()
	entries, err := stores[1].Read(t.Context(), "log", 0, store.MaxRead)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, e := range entries {
		seen[string(e)] = true
	}
	if len(entries) != clients*each || len(seen) != clients*each {
		t.Errorf("%d entries, %d different, want %d", len(entries), len(seen), clients*each)
	}
}

func later(t *testing.T, place Place) {
	s := place.Open(t)
	const n = 10_000 // more than the queue of asynchronous changes holds
	for i := range n {
		c := value(strconv.Itoa(i))
		c.Entries, c.Async = [][]byte{[]byte(strconv.Itoa(i + 1))}, true
		put(t, s, "k", c)
		if i%1000 == 0 {
			want(t, s, "k", strconv.Itoa(i), int64(i+1))
		}
	}
	wantCounted(t, s, "k", n)
	c := value("last")
	c.Async = true
	put(t, s, "other", c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, place)
	want(t, s, "k", strconv.Itoa(n-1), n)
	want(t, s, "other", "last", 0)
}

func keys(t *testing.T, place Place) {
	s := open(t, place)
	for _, key := range []string{"b/2", "a/1", "b/1", "b/*", "c", "b"} {
		put(t, s, key, value("x"))
	}
	for _, test := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 10, []string{"a/1", "b", "b/*", "b/1", "b/2", "c"}},
		{"b/", "", 10, []string{"b/*", "b/1", "b/2"}},
		{"b/", "b/*", 1, []string{"b/1"}},
		{"b/", "b/2", 10, nil},
		{"b/", "a", 1, []string{"b/*"}},
		{"b/", "c", 10, nil},
		{"b/*", "", 10, []string{"b/*"}},
		{"ghost", "", 10, nil},
	} {
		got, err := s.Keys(t.Context(), test.prefix, test.after, test.limit)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("keys %q after %q: %q, error %v, want %q", test.prefix, test.after, got, err, test.want)
		}
	}
}

func restart(t *testing.T, place Place) {
	s := place.Open(t)
	put(t, s, "k", store.Change{Value: []byte("x"), Entries: [][]byte{[]byte("a")}, TTL: time.Hour})
	put(t, s, "short", store.Change{Value: []byte("x"), TTL: time.Millisecond})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, place)
	want(t, s, "k", "x", 1)
	put(t, s, "k", store.Change{Entries: [][]byte{[]byte("b")}, TTL: time.Hour})
	put(t, s, "k2", store.Change{Entries: [][]byte{[]byte("z")}, TTL: time.Hour})
	wantLog(t, s, "k", 0, 10, "a", "b")
	until(t, "what expired meanwhile is gone", func() bool {
		_, err := s.Get(t.Context(), "short")
		return errors.Is(err, store.ErrNotFound)
	})
}
