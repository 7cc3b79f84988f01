package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
)

// commits holds commits up, so that a test can see what happens meanwhile.
type commits struct {
	held    atomic.Bool
	began   chan struct{}
	proceed chan error
}

func holdCommits() *commits {
	return &commits{began: make(chan struct{}), proceed: make(chan error)}
}

func (c *commits) before() error {
	if !c.held.Load() {
		return nil
	}
	c.began <- struct{}{}
	return <-c.proceed
}

func text(value string, async bool) store.Change {
	return store.Change{Value: []byte(value), Entries: [][]byte{[]byte(value)}, TTL: time.Hour, Async: async}
}

// update starts Update, which sends the value that it has seen and its error.
func update(ctx context.Context, s *Store, key string, change func(old string) (store.Change, error)) <-chan error {
	result := make(chan error, 1)
	go func() {
		result <- s.Update(ctx, key, func(old store.Record) (store.Change, error) { return change(string(old.Value)) })
	}()
	return result
}

// TestReaders_see_only_durable_changes checks that no reader sees a change before it is committed, that later changes see it, and that
// what depends on it fails if it cannot be committed: also a decision that changes nothing.
func TestReaders_see_only_durable_changes(t *testing.T) {
	for _, failure := range []error{nil, errors.New("the disk is broken")} {
		t.Run(fmt.Sprint(failure), func(t *testing.T) {
			var mu sync.Mutex
			var reported []error
			hold := holdCommits()
			s := openTest(t, Options{beforeCommit: hold.before, Options: store.Options{Failed: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, err)
			}}})
			if err := s.Put(t.Context(), "k", text("a", false)); err != nil {
				t.Fatal(err)
			}
			hold.held.Store(true)
			written := update(t.Context(), s, "k", func(string) (store.Change, error) { return text("b", false), nil })
			<-hold.began
			if r, err := s.Get(t.Context(), "k"); err != nil || string(r.Value) != "a" || r.Length != 1 {
				t.Errorf("before the commit: %q with %d entries, %v", r.Value, r.Length, err)
			}
			if entries, err := s.Read(t.Context(), "k", 0, 9); err != nil || len(entries) != 1 {
				t.Errorf("before the commit: the log %q, %v", entries, err)
			}
			var seen string
			if err := s.Update(t.Context(), "k", func(old store.Record) (store.Change, error) {
				seen = string(old.Value)
				return text("c", true), nil
			}); err != nil || seen != "b" {
				t.Errorf("an asynchronous change saw %q, %v, want b without waiting for a commit", seen, err)
			}
			unchanged := errors.New("nothing to change")
			deciding := make(chan struct{})
			decided := update(t.Context(), s, "k", func(string) (store.Change, error) {
				close(deciding)
				return store.Change{}, unchanged
			})
			<-deciding
			testkit.Eventually(t, "the decision is handed over", func() bool { return s.pending.count() == 0 })
			other := update(t.Context(), s, "other", func(string) (store.Change, error) { return store.Change{}, unchanged })
			if err := <-other; !errors.Is(err, unchanged) {
				t.Errorf("a decision about another record: %v", err)
			}
			select {
			case err := <-decided:
				t.Errorf("a decision that depends on the change came before it: %v", err)
			default:
			}
			hold.held.Store(false)
			hold.proceed <- failure
			if err := <-written; !errors.Is(err, failure) {
				t.Errorf("the change: %v, want %v", err, failure)
			}
			value, wantDecided := "c", unchanged
			if failure != nil {
				value, wantDecided = "a", failure
			}
			if err := <-decided; !errors.Is(err, wantDecided) {
				t.Errorf("the decision: %v, want %v", err, wantDecided)
			}
			testkit.Eventually(t, "the asynchronous change", func() bool {
				r, err := s.Get(t.Context(), "k")
				return err == nil && string(r.Value) == value
			})
			if mu.Lock(); failure != nil && (len(reported) != 1 || !errors.Is(reported[0], failure)) {
				t.Errorf("reported %v, want the asynchronous change", reported)
			}
			mu.Unlock()
		})
	}
}

// TestUpdate_of_one_caller_leaves_the_others_alone: errors, panics and callers that have gone do not touch the other changes of a batch.
func TestUpdate_of_one_caller_leaves_the_others_alone(t *testing.T) {
	hold := holdCommits()
	s := openTest(t, Options{beforeCommit: hold.before, MaxBytes: 10 << 10})
	hold.held.Store(true)
	first := update(t.Context(), s, "first", func(string) (store.Change, error) { return text("x", false), nil })
	<-hold.began
	add := func(old string) (store.Change, error) { return text(old+"1", false), nil }
	var counted []<-chan error
	for range 3 {
		counted = append(counted, update(t.Context(), s, "counted", add))
	}
	refused := errors.New("refused")
	fails := update(t.Context(), s, "fails", func(string) (store.Change, error) { return store.Change{}, refused })
	large := update(t.Context(), s, "large", func(string) (store.Change, error) {
		return store.Change{Value: make([]byte, 20<<10), TTL: time.Hour}, nil
	})
	panics := make(chan any)
	go func() {
		defer func() { panics <- recover() }()
		_ = s.Update(t.Context(), "panics", func(store.Record) (store.Change, error) { panic("of the caller") })
	}()
	if got := <-panics; got != "of the caller" {
		t.Errorf("the caller got the panic %v", got)
	}
	hold.held.Store(false)
	hold.proceed <- nil
	for what, c := range map[string]struct {
		result <-chan error
		want   error
	}{"first": {first, nil}, "fails": {fails, refused}, "large": {large, store.ErrFull}, "1": {counted[0], nil}, "2": {counted[1], nil}, "3": {counted[2], nil}} {
		if err := <-c.result; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if r, err := s.Get(t.Context(), "counted"); err != nil || string(r.Value) != "111" || r.Length != 3 {
		t.Errorf("counted is %q with %d entries, %v", r.Value, r.Length, err)
	}
}

// count returns how many callers have their turn at a record, or wait for it.
func (p *pending) count() (n int) {
	p.Lock()
	defer p.Unlock()
	for _, t := range p.turns {
		n += 1 + len(t.waiting)
	}
	return n
}

// TestUpdate_that_is_given_up_early changes nothing, and its function does not run after it has returned.
func TestUpdate_that_is_given_up_early(t *testing.T) {
	s := openTest(t, Options{})
	block, ctx := make(chan struct{}), t.Context()
	began := make(chan struct{})
	blocked := update(ctx, s, "blocks", func(string) (store.Change, error) {
		close(began)
		<-block
		return text("x", false), nil
	})
	<-began
	ctx, cancel := context.WithCancel(ctx)
	ran := false
	late := update(ctx, s, "blocks", func(string) (store.Change, error) {
		ran = true
		return text("late", false), nil
	})
	testkit.Eventually(t, "the caller waits for its turn", func() bool { return s.pending.count() == 2 })
	if err := s.Put(t.Context(), "another", text("x", false)); err != nil {
		t.Errorf("a change of another record: %v", err)
	}
	cancel()
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(block)
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	if r, err := s.Get(t.Context(), "blocks"); ran || err != nil || string(r.Value) != "x" {
		t.Errorf("the change was made: %t, %q, %v", ran, r.Value, err)
	}
	if n := s.pending.count(); n > 0 {
		t.Errorf("%d callers have not ended", n)
	}
}

// TestUpdate_of_a_record_that_is_removed_meanwhile computes the change again: the committer has removed the record since it was read.
func TestUpdate_of_a_record_that_is_removed_meanwhile(t *testing.T) {
	s := openTest(t, Options{})
	if err := s.Put(t.Context(), "k", text("old", false)); err != nil {
		t.Fatal(err)
	}
	began, removed := make(chan string, 2), make(chan struct{})
	changed := update(t.Context(), s, "k", func(old string) (store.Change, error) {
		began <- old
		<-removed
		return text(old+"new", false), nil
	})
	if old := <-began; old != "old" {
		t.Errorf("the change begins with %q", old)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	close(removed)
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if old := <-began; old != "" {
		t.Errorf("the change begins again with %q", old)
	}
	if r, err := s.Get(t.Context(), "k"); err != nil || string(r.Value) != "new" || r.Length != 1 {
		t.Errorf("the record has %q and %d entries, %v", r.Value, r.Length, err)
	}
}

// TestFullDisk checks that all callers get the error while the disk is full, that Health has it, that reads go on, and that the store
// works again without a change when there is room.
func TestFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	var isFull atomic.Bool
	s := openTest(t, Options{Options: store.Options{Failed: func(error) {}}, beforeCommit: func() error {
		if isFull.Load() {
			return full
		}
		return nil
	}})
	if err := s.Put(t.Context(), "k", text("a", false)); err != nil {
		t.Fatal(err)
	}
	isFull.Store(true)
	for range 3 {
		if err := s.Put(t.Context(), "k", text("b", false)); !errors.Is(err, full) {
			t.Errorf("a change: %v", err)
		}
		if err := s.Put(t.Context(), "k", text("b", true)); !errors.Is(err, full) {
			t.Errorf("an asynchronous change: %v", err)
		}
	}
	if err := s.Health(); !errors.Is(err, full) {
		t.Errorf("Health returns %v", err)
	}
	if r, err := s.Get(t.Context(), "k"); err != nil || string(r.Value) != "a" {
		t.Errorf("%q, %v", r.Value, err)
	}
	isFull.Store(false)
	testkit.Eventually(t, "Health after there is room", func() bool { return s.Health() == nil })
	if err := s.Put(t.Context(), "k", text("c", false)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.file.path + ".probe"); !os.IsNotExist(err) {
		t.Errorf("the probe is left: %v", err)
	}
	if got := total(t, s); got.records != 1 {
		t.Errorf("totals are %+v", got)
	}
}

// TestGroups checks that concurrent writers share commits.
func TestGroups(t *testing.T) {
	const writers, each = 64, 20
	var n atomic.Int64
	s := openTest(t, Options{beforeCommit: func() error {
		n.Add(1)
		return nil
	}})
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				if err := s.Put(context.Background(), fmt.Sprintf("%d/%d", i, n), text("x", false)); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := n.Load(); n > writers*each/4 {
		t.Errorf("%d changes took %d commits", writers*each, n)
	}
}
