package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/lease"
	"github.com/fairwayhq/fairway/store/storetest"
)

// onStores runs a test on each store, with two nodes that share it.
func onStores(t *testing.T, test func(t *testing.T, here, there store.Store)) {
	t.Run("embedded", func(t *testing.T) {
		s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s, s)
	})
	storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) { test(t, server.Open(t), server.Open(t)) })
}

const (
	jobKey   = "job"
	duration = time.Minute // of leases that tests do not wait for
)

// job is a record with a lease.
type job struct {
	Lease lease.Lease `json:"lease,omitzero"`
	Steps []string    `json:"steps"`
	Done  bool        `json:"done"`
}

var errOver = errors.New("there is nothing to do")

// node is a node that works on the job.
type node struct {
	terms lease.Terms
	store store.Store
}

func newNode(s store.Store, now func() time.Time) *node {
	return &node{terms: lease.Terms{Duration: duration, Now: now, Pause: time.Second, MaxPause: 10 * time.Second}, store: s}
}

// ahead returns a clock that is ahead of the clock of the machine.
func ahead(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

func (n *node) transact(ctx context.Context, change func(*job, *lease.Lease) error) error {
	return n.store.Update(ctx, jobKey, func(old store.Record) (store.Change, error) {
		if old.Value == nil {
			return store.Change{}, store.ErrNotFound
		}
		j := new(job)
		if err := json.Unmarshal(old.Value, j); err != nil {
			return store.Change{}, err
		}
		if err := change(j, &j.Lease); err != nil {
			return store.Change{}, err
		}
		value, err := json.Marshal(j)
		return store.Change{Value: value, TTL: time.Hour}, err
	})
}

// claim claims the job, or returns errOver.
func (n *node) claim(ctx context.Context) (*lease.Claim[*job], error) {
	c, err := lease.Take(ctx, &n.terms, n.transact, func(j *job) bool { return !j.Done })
	if c == nil && err == nil {
		err = errOver
	}
	return c, err
}

func mustClaim(t *testing.T, n *node) *lease.Claim[*job] {
	t.Helper()
	c, err := n.claim(t.Context())
	if err != nil {
		t.Fatalf("claiming: %v", err)
	}
	return c
}

// step returns a change that records a step.
func step(name string) func(*job, *lease.Lease) error {
	return func(j *job, _ *lease.Lease) error {
		j.Steps = append(j.Steps, name)
		return nil
	}
}

func finish(j *job, _ *lease.Lease) error {
	j.Done = true
	return nil
}

func putJob(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Put(t.Context(), jobKey, store.Change{Value: []byte(`{}`), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
}

func readJob(t *testing.T, s store.Store) *job {
	t.Helper()
	r, err := s.Get(t.Context(), jobKey)
	if err != nil {
		t.Fatal(err)
	}
	j := new(job)
	if err := json.Unmarshal(r.Value, j); err != nil {
		t.Fatal(err)
	}
	return j
}

var errDead = errors.New("this node is dead")

// mortal is a store as a node sees it that dies at one of its writes, before or after the write is made.
type mortal struct {
	store.Store
	at     int // number of the last write, from 1; 0 is never
	after  bool
	writes int
	isDead bool
}

func (m *mortal) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if m.isDead {
		return errDead
	}
	if m.writes++; m.writes != m.at {
		return m.Store.Update(ctx, key, change)
	}
	m.isDead = true
	if m.after {
		_ = m.Store.Update(ctx, key, change)
	}
	return errDead
}

// work does the job, whose effect may happen once only, as a node would: what a dead node had begun is not
// repeated.
func work(ctx context.Context, n *node, effect func()) error {
	c, err := n.claim(ctx)
	if err != nil {
		return err
	}
	isFirst := false
	if err := c.Change(ctx, func(j *job, _ *lease.Lease) error {
		isFirst = len(j.Steps) == 0
		if isFirst {
			j.Steps = append(j.Steps, "begun")
		}
		return nil
	}); err != nil {
		return err
	}
	result := "unknown"
	if isFirst {
		effect()
		result = "done"
	}
	return c.End(ctx, func(j *job, _ *lease.Lease) error {
		j.Steps, j.Done = append(j.Steps, result), true
		return nil
	})
}

// TestClaim_node_dies_at_each_write lets another node finish the job. Its effect happens at most once, and the
// record says whether it has.
func TestClaim_node_dies_at_each_write(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		const writes = 3
		for at := range writes + 1 {
			for _, after := range []bool{false, true} {
				putJob(t, here)
				effects := 0
				effect := func() { effects++ }
				m := &mortal{Store: here, at: at, after: after}
				first := work(t.Context(), newNode(m, nil), effect)
				if at == 0 && m.writes != writes {
					t.Fatalf("the job takes %d writes, not %d", m.writes, writes)
				}
				if at > 0 && !errors.Is(first, errDead) {
					t.Errorf("write %d, made %t: the dying node returns %v", at, after, first)
				}
				held := errors.Is(work(t.Context(), newNode(there, nil), effect), errOver)
				if want := at > 1 || at == 1 && after || at == 0; held != want {
					t.Errorf("write %d, made %t: the job is held: %t, want %t", at, after, held, want)
				}
				if err := work(t.Context(), newNode(there, ahead(duration)), effect); err != nil && !errors.Is(err, errOver) {
					t.Errorf("write %d, made %t: taking over: %v", at, after, err)
				}
				j := readJob(t, there)
				if !j.Done {
					t.Errorf("write %d, made %t: the job is not done", at, after)
				}
				if effects > 1 {
					t.Errorf("write %d, made %t: the effect happened %d times", at, after, effects)
				}
				if isKnown := j.Steps[len(j.Steps)-1] == "done"; isKnown && effects == 0 {
					t.Errorf("write %d, made %t: the record says %v, and there was no effect", at, after, j.Steps)
				}
			}
		}
	})
}

func TestClaim_is_exclusive(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		putJob(t, here)
		var claims atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			n := newNode([]store.Store{here, there}[i%2], nil)
			all.Go(func() {
				switch _, err := n.claim(t.Context()); {
				case err == nil:
					claims.Add(1)
				case !errors.Is(err, errOver):
					t.Errorf("claiming: %v", err)
				}
			})
		}
		all.Wait()
		if n := claims.Load(); n != 1 {
			t.Errorf("%d claims hold the lease", n)
		}
	})
}

// TestClaim_that_lost_its_lease_does_not_write tests each operation of a claim that another one has replaced.
func TestClaim_that_lost_its_lease_does_not_write(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		putJob(t, here)
		first := mustClaim(t, newNode(here, nil))
		second := mustClaim(t, newNode(there, ahead(duration))) // as after a jump of its clock
		if err := second.Change(t.Context(), step("second")); err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func() error{
			"Change":  func() error { return first.Change(t.Context(), step("first")) },
			"End":     func() error { return first.End(t.Context(), step("first")) },
			"Release": func() error { return first.Release(t.Context()) },
		} {
			if err := write(); !errors.Is(err, lease.ErrLost) {
				t.Errorf("%s: error %v, want ErrLost", name, err)
			}
		}
		if err := second.End(t.Context(), finish); err != nil {
			t.Errorf("the second claim: %v", err)
		}
		if err := first.End(t.Context(), step("first")); !errors.Is(err, lease.ErrLost) {
			t.Errorf("after the end of the second claim: error %v, want ErrLost", err)
		}
		if j := readJob(t, here); !slices.Equal(j.Steps, []string{"second"}) {
			t.Errorf("the steps are %v", j.Steps)
		}
	})
}

// TestClaim_released_after_takeover keeps the first of two claims from writing after the second was released.
func TestClaim_released_after_takeover(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		putJob(t, here)
		first := mustClaim(t, newNode(here, nil))
		if err := mustClaim(t, newNode(there, ahead(duration))).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := first.End(t.Context(), step("first")); !errors.Is(err, lease.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
		if tries := readJob(t, here).Lease.Tries; tries != 1 {
			t.Errorf("%d tries, want 1: a released claim does not count", tries)
		}
	})
}

// uncertain is a store whose writes are made, but return an error.
type uncertain struct{ store.Store }

func (u uncertain) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if err := u.Store.Update(ctx, key, change); err != nil {
		return err
	}
	return errDead
}

// TestClaim_repeated_change has one effect if the outcome of the first attempt is unknown.
func TestClaim_repeated_change(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		n := newNode(here, nil)
		var c *lease.Claim[*job]
		for name, write := range map[string]func(func(*job, *lease.Lease) error) error{
			"changed": func(change func(*job, *lease.Lease) error) error { return c.Change(t.Context(), change) },
			"ended":   func(change func(*job, *lease.Lease) error) error { return c.End(t.Context(), change) },
		} {
			putJob(t, here)
			n.store = here
			c = mustClaim(t, n)
			n.store = uncertain{here}
			if err := write(step(name)); !errors.Is(err, errDead) {
				t.Fatalf("%s: error %v", name, err)
			}
			n.store = there
			if err := write(step(name)); err != nil {
				t.Errorf("%s: the second attempt: %v", name, err)
			}
			if j := readJob(t, here); !slices.Equal(j.Steps, []string{name}) {
				t.Errorf("the steps are %v, want one: %s", j.Steps, name)
			}
		}
	})
}

func TestClaim_of_an_earlier_process_is_void(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		putJob(t, here)
		before, after := newNode(here, nil), newNode(there, nil)
		before.terms.Node, before.terms.Process = "p1.a", "p1."
		after.terms.Node, after.terms.Process = "p2.a", "p2."
		first := mustClaim(t, before)
		if _, err := before.claim(t.Context()); !errors.Is(err, errOver) {
			t.Errorf("another node of the same process: error %v, want errOver", err)
		}
		mustClaim(t, after)
		if err := first.Change(t.Context(), step("first")); !errors.Is(err, lease.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
	})
}

func TestProcessOf(t *testing.T) {
	onStores(t, func(t *testing.T, here, _ store.Store) {
		name := lease.ProcessOf(here)
		if here.Exclusive() && len(name) != lease.TokenSize {
			t.Errorf("the process is %q", name)
		}
		if !here.Exclusive() && name != "" {
			t.Errorf("the process is %q on a store of many nodes", name)
		}
	})
}

func TestClaim_retried_later(t *testing.T) {
	pauses := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
	onStores(t, func(t *testing.T, here, _ store.Store) {
		putJob(t, here)
		now := time.Now()
		n := newNode(here, func() time.Time { return now })
		n.terms.MaxTries = len(pauses)
		for i, pause := range pauses {
			again := false
			if err := mustClaim(t, n).End(t.Context(), func(_ *job, l *lease.Lease) error {
				again = n.terms.Retry(l)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := i+1 < len(pauses); again != want {
				t.Errorf("after try %d: again is %t, want %t", i+1, again, want)
			}
			now = now.Add(pause - time.Millisecond)
			if _, err := n.claim(t.Context()); !errors.Is(err, errOver) {
				t.Errorf("before the pause after try %d has ended: error %v, want errOver", i+1, err)
			}
			now = now.Add(time.Millisecond)
		}
		mustClaim(t, n)
	})
}

// TestClaim_kept_and_lost extends a short lease until another claim takes it.
func TestClaim_kept_and_lost(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		putJob(t, here)
		n := newNode(here, nil)
		n.terms.Duration = 300 * time.Millisecond
		c := mustClaim(t, n)
		before := readJob(t, here).Lease
		lost := make(chan struct{})
		defer c.Keep(t.Context(), func() { close(lost) })()
		r, err := there.Get(t.Context(), jobKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, changed, err := lease.Wait(t.Context(), there, jobKey, r.Value, time.Now().Add(time.Minute)); err != nil || !changed {
			t.Fatalf("waiting for an extension: changed %t, error %v", changed, err)
		}
		if extended := readJob(t, there).Lease; !extended.Until.After(before.Until) || extended.Seq != before.Seq {
			t.Errorf("the lease was %+v and is %+v", before, extended)
		}
		mustClaim(t, newNode(there, ahead(time.Hour)))
		select {
		case <-lost:
		case <-time.After(time.Minute):
			t.Error("the claim is not told that it has lost the lease")
		}
	})
}

// memory is a Transaction on a record in memory.
type memory struct {
	mu    sync.Mutex
	job   job
	fails error
	calls int
}

func (m *memory) transact(_ context.Context, change func(*job, *lease.Lease) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.fails != nil {
		return m.fails
	}
	return change(&m.job, &m.job.Lease)
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		var failed, lost atomic.Int64
		terms := &lease.Terms{Duration: duration, Failed: func(error) { failed.Add(1) }}
		terms.Take(&m.job.Lease)
		stop := lease.Hold(terms, m.transact, &m.job.Lease).Keep(t.Context(), func() { lost.Add(1) })
		for range 10 {
			time.Sleep(duration)
			m.mu.Lock()
			if !terms.IsHeld(&m.job.Lease) {
				t.Error("the lease has expired")
			}
			m.mu.Unlock()
		}
		m.fail(errDead)
		time.Sleep(duration / 2)
		if failed.Load() == 0 {
			t.Error("an error of the store was not reported")
		}
		m.fail(nil)
		time.Sleep(duration / 2)
		stop() // returns when no extension runs any more
		if !terms.IsHeld(&m.job.Lease) {
			t.Error("the lease was not extended after the store had failed")
		}
		calls := m.calls
		time.Sleep(duration)
		if m.calls != calls {
			t.Error("the lease was extended after stop")
		}
		if n := lost.Load(); n != 0 {
			t.Errorf("lost was called %d times", n)
		}
	})
}

func TestKeep_record_deleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fails: fmt.Errorf("the job: %w", store.ErrNotFound)}
		terms := &lease.Terms{Duration: duration}
		terms.Take(&m.job.Lease)
		var lost atomic.Int64
		defer lease.Hold(terms, m.transact, &m.job.Lease).Keep(t.Context(), func() { lost.Add(1) })()
		time.Sleep(2 * duration)
		if n := lost.Load(); n != 1 {
			t.Errorf("lost was called %d times, want 1", n)
		}
	})
}

func TestRepeat(t *testing.T) {
	for _, test := range []struct {
		name  string
		last  error // of the third attempt
		calls int
	}{
		{"success", nil, 3},
		{"a lost lease", lease.ErrLost, 3},
		{"a record that is gone", store.ErrNotFound, 3},
		{"a closed store", store.ErrClosed, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := 0
				terms := &lease.Terms{Failed: func(error) { failed++ }}
				calls := 0
				err := terms.Repeat(t.Context(), func() error {
					if calls++; calls < test.calls {
						return errDead
					}
					return test.last
				})
				if !errors.Is(err, test.last) {
					t.Errorf("error %v, want %v", err, test.last)
				}
				if calls != test.calls || failed != test.calls-1 {
					t.Errorf("%d calls and %d reports, want %d and %d", calls, failed, test.calls, test.calls-1)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := new(lease.Terms).Repeat(ctx, func() error { return errDead }); !errors.Is(err, errDead) {
			t.Errorf("after the context has ended: error %v", err)
		}
	})
}

func TestWait(t *testing.T) {
	onStores(t, func(t *testing.T, here, there store.Store) {
		later := time.Now().Add(time.Hour)
		if _, _, err := lease.Wait(t.Context(), here, jobKey, []byte("seen"), later); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("without a record: error %v, want ErrNotFound", err)
		}
		putJob(t, here)
		seen := []byte(`{}`)
		if _, changed, err := lease.Wait(t.Context(), here, jobKey, seen, time.Now().Add(10*time.Millisecond)); changed || err != nil {
			t.Errorf("until the time: changed %t, error %v", changed, err)
		}
		const waiters = 10
		woken := make(chan error, waiters)
		for i := range waiters {
			go func() {
				_, changed, err := lease.Wait(t.Context(), []store.Store{here, there}[i%2], jobKey, seen, later)
				if err == nil && !changed {
					err = errors.New("nothing has changed")
				}
				woken <- err
			}()
		}
		mustClaim(t, newNode(there, nil))
		for range waiters {
			if err := <-woken; err != nil {
				t.Errorf("a waiter: %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := lease.Wait(ctx, here, jobKey, []byte(`x`), later); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("with a canceled context: error %v", err)
		}
	})
}

func TestList(t *testing.T) {
	const key = "owner"
	errFull := errors.New("full")
	onStores(t, func(t *testing.T, here, there store.Store) {
		list := func(s store.Store) *lease.List[int] {
			return &lease.List[int]{Store: s, TTL: time.Hour, IsOver: func(n *int) bool { return *n < 0 }}
		}
		if entries, err := list(here).Get(t.Context(), key); err != nil || len(entries) != 0 {
			t.Errorf("without a list: %v, error %v", entries, err)
		}
		var all sync.WaitGroup
		for i, s := range []store.Store{here, there, here, there} {
			all.Go(func() {
				if err := list(s).Change(t.Context(), key, "", func(entries []int) ([]int, error) {
					return append(entries, i, -i-1), nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		entries, err := list(there).Get(t.Context(), key)
		if slices.Sort(entries); err != nil || !slices.Equal(entries, []int{0, 1, 2, 3}) {
			t.Errorf("the list is %v, error %v", entries, err)
		}
		if err := list(here).Change(t.Context(), key, "", func([]int) ([]int, error) { return nil, errFull }); !errors.Is(err, errFull) {
			t.Errorf("error %v, want that of the function", err)
		}
		if err := list(here).Change(t.Context(), key, "", func([]int) ([]int, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an empty list: error %v, want ErrNotFound", err)
		}
	})
}

func TestList_does_not_grow_beyond_its_size(t *testing.T) {
	const key = "owner"
	onStores(t, func(t *testing.T, here, _ store.Store) {
		l := &lease.List[string]{Store: here, TTL: time.Hour, MaxSize: 8, IsOver: func(*string) bool { return false }}
		set := func(entries ...string) func([]string) ([]string, error) {
			return func([]string) ([]string, error) { return entries, nil }
		}
		if err := l.Change(t.Context(), key, "", set("1234")); err != nil {
			t.Fatal(err)
		}
		if err := l.Check(t.Context(), key, set("12345")); !errors.Is(err, lease.ErrListFull) {
			t.Errorf("checking a list that is too large: error %v, want ErrListFull", err)
		}
		if err := l.Change(t.Context(), key, "", set("12345")); !errors.Is(err, lease.ErrListFull) {
			t.Errorf("a list that is too large: error %v, want ErrListFull", err)
		}
		if err := l.Check(t.Context(), key, set("1")); err != nil {
			t.Errorf("checking a smaller list: error %v", err)
		}
		if entries, err := l.Get(t.Context(), key); err != nil || !slices.Equal(entries, []string{"1234"}) {
			t.Errorf("the list is %v, error %v", entries, err)
		}
	})
}
