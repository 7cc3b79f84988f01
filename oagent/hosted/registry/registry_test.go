package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

// patience is how long a test waits for a condition.
const patience = time.Minute

// onStores runs a test on each kind of store. open opens the same place again: of a shared store for
// another node, of the embedded store after close.
func onStores(t *testing.T, test func(t *testing.T, open func() store.Store, nodes bool)) {
	t.Run("embedded", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "records.db")
		test(t, func() store.Store { return opened(t)(embedded.Open(path, embedded.Options{})) }, false)
	})
	t.Run("redis", func(t *testing.T) {
		server := storetest.Shared()["redis"](t)
		test(t, func() store.Store { return server.Open(t) }, true)
	})
}

// onNodes runs a test on each kind of store that nodes can share, and on the embedded store.
func onNodes(t *testing.T, test func(t *testing.T, open func() store.Store, nodes bool)) {
	onStores(t, test)
	t.Run("postgres", func(t *testing.T) {
		server := storetest.Shared()["postgres"](t)
		test(t, func() store.Store { return server.Open(t) }, true)
	})
}

func opened(t *testing.T) func(store.Store, error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

func newRegistry(t *testing.T, s store.Store) *Registry {
	r := New(Options{Store: s, Scope: "a.example/agents", Report: func(err error) { t.Errorf("reported: %v", err) }})
	r.pause = time.Millisecond
	return r
}

// given returns the condition of a request with these headers, as pairs of name and value.
func given(header ...string) Condition {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return ConditionOf(h)
}

// put accepts a document with some text.
func put(t *testing.T, r *Registry, name, text string, condition Condition) Entry {
	t.Helper()
	e, _, err := r.Put(t.Context(), Change{name, []byte(text), "ada", condition})
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return e
}

// list returns the documents as name=source.
func list(documents []Document) string {
	var all []string
	for _, d := range documents {
		all = append(all, d.Name+"="+string(d.Source))
	}
	return strings.Join(all, " ")
}

func expect(t *testing.T, r *Registry, want string) {
	t.Helper()
	if documents, err := r.Documents(t.Context()); err != nil || list(documents) != want {
		t.Errorf("documents %q, %v, want %q", list(documents), err, want)
	}
}

func TestPut(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		s := open()
		r := newRegistry(t, s)
		expect(t, r, "")
		first, created, err := r.Put(t.Context(), Change{Name: "b", Source: []byte("1"), By: strings.Repeat("a", 1000)})
		if err != nil || !created {
			t.Fatalf("created: got %t, want true; error %v", created, err)
		}
		if len(first.By) > maxBy || first.Size != 1 || first.Tag() == "" {
			t.Fatalf("got %d bytes by a user with an id of %d bytes, want 1 and at most %d; got the tag %q", first.Size, len(first.By), maxBy, first.Tag())
		}
		put(t, r, "a", "2", Condition{})
		expect(t, r, "a=2 b=1")
		second, created, err := r.Put(t.Context(), Change{Name: "b", Source: []byte("3")})
		if err != nil || created || second.Digest == first.Digest {
			t.Errorf("%+v, %v, %v", second, created, err)
		}
		expect(t, r, "a=2 b=3")
		if again, created, err := r.Put(t.Context(), Change{Name: "b", Source: []byte("3")}); err != nil || created || again != second {
			t.Errorf("same version: %+v, %v, %v", again, created, err)
		}
		if err := r.Delete(t.Context(), "b", Condition{}); err != nil {
			t.Error(err)
		}
		if err := r.Delete(t.Context(), "b", Condition{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete again: %v", err)
		}
		expect(t, r, "a=2")
		other := New(Options{Store: s, Scope: "b.example/agents"})
		expect(t, other, "")
		if keys, err := s.Keys(t.Context(), keyPrefix, "", 100); err != nil || len(keys) != 2 {
			t.Errorf("%d records, %v: old versions must not stay", len(keys), err)
		}
	})
}

func TestConditions(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		r := newRegistry(t, open())
		tag := put(t, r, "a", "1", Condition{}).Tag()
		for name, test := range map[string]struct {
			agent     string
			condition Condition
			want      bool
		}{
			"match":                     {"a", given("If-Match", `"x", `+tag), true},
			"match in a second header":  {"a", given("If-Match", `"x"`, "If-Match", tag), true},
			"any":                       {"a", given("If-Match", "*"), true},
			"other version":             {"a", given("If-Match", `"x"`), false},
			"weak":                      {"a", given("If-Match", "W/"+tag), false},
			"empty":                     {"a", given("If-Match", ""), false},
			"match of no agent":         {"b", given("If-Match", tag), false},
			"any of no agent":           {"b", given("If-Match", "*"), false},
			"none match":                {"a", given("If-None-Match", `"x"`), true},
			"none match, but it has":    {"a", given("If-None-Match", tag), false},
			"only new":                  {"a", given("If-None-Match", "*"), false},
			"only new, and it is":       {"b", given("If-None-Match", "*"), true},
			"both, and one of them not": {"a", given("If-Match", tag, "If-None-Match", "*"), false},
		} {
			_, _, err := r.Put(t.Context(), Change{test.agent, []byte("2"), "ada", test.condition})
			if (err == nil) != test.want || err != nil && !errors.Is(err, ErrPrecondition) {
				t.Errorf("put, %s: %v", name, err)
			}
			if err != nil && test.agent == "a" {
				if err := r.Delete(t.Context(), "a", test.condition); !errors.Is(err, ErrPrecondition) {
					t.Errorf("delete, %s: %v", name, err)
				}
			}
			_ = r.Delete(t.Context(), "b", Condition{})
			put(t, r, "a", "1", Condition{})
		}
		if _, _, err := r.Put(t.Context(), Change{"a", []byte("1"), "ada", given("If-Match", `"x"`)}); !errors.Is(err, ErrPrecondition) {
			t.Errorf("same version with a wrong condition: %v", err)
		}
	})
}

// TestPut_race checks that of several changes that expect the same version only one is made.
func TestPut_race(t *testing.T) {
	onNodes(t, func(t *testing.T, open func() store.Store, nodes bool) {
		s := open()
		registries := []*Registry{newRegistry(t, s), newRegistry(t, s)}
		if nodes {
			registries[1] = newRegistry(t, open())
		}
		tag := put(t, registries[0], "a", "0", Condition{}).Tag()
		var made sync.Map
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				text := fmt.Sprint("version ", i)
				_, _, err := registries[i%2].Put(context.Background(), Change{"a", []byte(text), "ada", given("If-Match", tag)})
				switch {
				case err == nil:
					made.Store(text, true)
				case !errors.Is(err, ErrPrecondition):
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		count := 0
		made.Range(func(text, _ any) bool {
			count++
			expect(t, registries[0], "a="+text.(string))
			return true
		})
		if keys, _ := s.Keys(t.Context(), keyPrefix, "", 100); count != 1 || len(keys) != 2 {
			t.Errorf("%d changes, %d records", count, len(keys))
		}
	})
}

func TestLimits(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		r := newRegistry(t, open())
		large := strings.Repeat("x", MaxDocument)
		for i := range maxTotal / MaxDocument {
			put(t, r, fmt.Sprintf("large-%03d", i), large, Condition{})
		}
		if _, _, err := r.Put(t.Context(), Change{Name: "one-more", Source: []byte("x")}); !errors.Is(err, ErrFull) {
			t.Errorf("total: %v", err)
		}
		put(t, r, "large-000", large[1:], Condition{}) // a replaced document does not count
		for i := range maxTotal / MaxDocument {
			put(t, r, fmt.Sprintf("large-%03d", i), "x", Condition{})
		}
		for i := range maxDocuments - maxTotal/MaxDocument {
			put(t, r, fmt.Sprintf("small-%03d", i), "x", Condition{})
		}
		if _, _, err := r.Put(t.Context(), Change{Name: "one-more", Source: []byte("x")}); !errors.Is(err, ErrFull) {
			t.Errorf("number: %v", err)
		}
		put(t, r, "small-000", "y", Condition{})
	})
}

// watched collects what Watch reports.
type watched struct {
	t       *testing.T
	changes chan string
	stop    func()
}

func watch(t *testing.T, r *Registry) *watched {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{t: t, changes: make(chan string, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Watch(ctx, func(ctx context.Context) error {
			documents, err := r.Documents(ctx)
			if err == nil {
				w.changes <- list(documents)
			}
			return err
		})
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(w.stop)
	return w
}

// until waits until Watch has reported these documents.
func (w *watched) until(want string) {
	w.t.Helper()
	timeout := time.After(patience)
	for last := ""; ; {
		select {
		case last = <-w.changes:
			if last == want {
				return
			}
		case <-timeout:
			w.t.Fatalf("the last reported documents are %q, want %q", last, want)
		}
	}
}

// TestWatch checks that each node sees the documents at the start, and then each change.
func TestWatch(t *testing.T) {
	onNodes(t, func(t *testing.T, open func() store.Store, nodes bool) {
		s := open()
		writer, reader := newRegistry(t, s), newRegistry(t, s)
		if nodes {
			reader = newRegistry(t, open())
		}
		w := watch(t, reader)
		w.until("")
		put(t, writer, "a", "1", Condition{})
		w.until("a=1")
		put(t, writer, "b", "2", Condition{})
		put(t, writer, "a", "3", Condition{})
		w.until("a=3 b=2")
		for _, name := range []string{"a", "b"} {
			if err := writer.Delete(t.Context(), name, Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		w.until("")
		put(t, writer, "c", "4", Condition{})
		w.until("c=4")
		w.stop()
		later := watch(t, reader)
		later.until("c=4")
	})
}

// TestRestart checks that the documents are there after a restart.
func TestRestart(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		s := open()
		put(t, newRegistry(t, s), "a", "1", Condition{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		expect(t, newRegistry(t, open()), "a=1")
	})
}

// failing is a store whose reads fail for a while.
type failing struct {
	store.Store
	mu    sync.Mutex
	fails int
}

func (f *failing) Get(ctx context.Context, key string) (store.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 {
		f.fails--
		return store.Record{}, errors.New("no connection")
	}
	return f.Store.Get(ctx, key)
}

// TestWatch_failures checks that Watch goes on after errors of the store, reports them, and never
// reports an empty list because of them.
func TestWatch_failures(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		s := &failing{Store: open(), fails: 2}
		reported := make(chan error, 10)
		r := New(Options{Store: s, Report: func(err error) { reported <- err }})
		r.pause = time.Millisecond
		if err := s.Store.Put(t.Context(), r.key, store.Change{Value: []byte("{"), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w := watch(t, r)
		for range 3 { // two failed reads, and the damaged index
			<-reported
		}
		if len(w.changes) != 0 {
			t.Errorf("reported %q", <-w.changes)
		}
		if err := s.Store.Delete(t.Context(), r.key); err != nil {
			t.Fatal(err)
		}
		w.until("")
	})
}

// TestLost checks that a document without its record does not hide the others.
func TestLost(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		s := open()
		var reported []error
		r := New(Options{Store: s, Report: func(err error) { reported = append(reported, err) }})
		put(t, r, "a", "1", Condition{})
		e := put(t, r, "b", "2", Condition{})
		if err := s.Delete(t.Context(), r.documentKey(&e)); err != nil {
			t.Fatal(err)
		}
		expect(t, r, "a=1")
		if len(reported) != 1 {
			t.Errorf("reported: %v", reported)
		}
		put(t, r, "b", "3", Condition{})
		expect(t, r, "a=1 b=3")
	})
}

// TestRenew checks that the lifetime of old documents is extended, and that of new ones is not.
func TestRenew(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store, _ bool) {
		s := &counting{Store: open()}
		now := time.Now()
		r := New(Options{Store: s, Now: func() time.Time { return now }, Report: func(err error) { t.Error(err) }})
		put(t, r, "a", "1", Condition{})
		put(t, r, "b", "2", Condition{})
		s.updates = nil
		r.renew(t.Context())
		if len(s.updates) != 0 {
			t.Errorf("new: %v", s.updates)
		}
		now = now.Add(renewAge + time.Hour)
		r.renew(t.Context())
		if len(s.updates) != 3 {
			t.Errorf("old: %v", s.updates)
		}
		r.renew(t.Context())
		if len(s.updates) != 3 {
			t.Errorf("renewed again: %v", s.updates)
		}
		expect(t, r, "a=1 b=2")
	})
}

// counting records the keys of updates.
type counting struct {
	store.Store
	updates []string
}

func (c *counting) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	c.updates = append(c.updates, key)
	return c.Store.Update(ctx, key, change)
}
