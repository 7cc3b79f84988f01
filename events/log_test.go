package events

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// clock is a time that tests set.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Now().Truncate(period).Add(10 * time.Minute)} }

func logOn(st store.Store, c *clock, options Options) *Log {
	options.Open = func(context.Context) (store.Store, error) { return st, nil }
	options.Source = "shop"
	if c != nil {
		options.Now = func() time.Time { return c.now }
	}
	return NewLog(options)
}

func mustAppend(t *testing.T, l *Log, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if added, err := l.Append(t.Context(), &Event{ID: id, Name: "paid", Received: time.Now(), Body: []byte(`{ "id": "` + id + `" }`)}); err != nil || !added {
			t.Fatalf("event %s: added %t, error %v", id, added, err)
		}
	}
}

// read returns the ids of the events after a cursor, read in parts.
func read(t *testing.T, l *Log, after Cursor, limit int) (ids string, next Cursor, truncated bool) {
	t.Helper()
	for {
		found, to, gap, err := l.Read(t.Context(), after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			ids += e.ID + " "
		}
		if after, truncated = to, truncated || gap; len(found) == 0 {
			return strings.TrimSpace(ids), after, truncated
		}
	}
}

func TestLog_is_in_order_on_all_nodes(t *testing.T) {
	st, c := samples.Open(t), newClock()
	one, two := logOn(st, c, Options{}), logOn(st, c, Options{})
	start, err := two.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, one, "a", "b")
	mustAppend(t, two, "c")
	_, middle, _ := read(t, one, "", 10)
	c.now = c.now.Add(3 * period)
	mustAppend(t, two, "d")
	mustAppend(t, one, "e")
	for _, limit := range []int{1, 2, 100} {
		for after, want := range map[Cursor]string{"": "a b c d e", start: "a b c d e", middle: "d e"} {
			if ids, _, truncated := read(t, one, after, limit); ids != want || truncated {
				t.Errorf("after %q, %d at a time: %s, truncated %t; want %s", after, limit, ids, truncated, want)
			}
		}
	}
	found, _, _, err := two.Read(t.Context(), "", 10)
	if err != nil || len(found) != 5 {
		t.Fatalf("%d events, error %v", len(found), err)
	}
	if got := found[0]; string(got.Body) != `{ "id": "a" }` || got.Name != "paid" || got.Received.IsZero() {
		t.Errorf("the first event is %+v", got)
	}
	if ids, _, _ := read(t, one, found[3].Next, 10); ids != "e" {
		t.Errorf("after the fourth: %s, want e", ids)
	}
	if end, err := one.End(t.Context()); err != nil || end != found[4].Next {
		t.Errorf("the end is %s, error %v; want %s", end, err, found[4].Next)
	}
}

func TestLog_knows_ids_for_three_days(t *testing.T) {
	c := newClock()
	l := logOn(samples.Open(t), c, Options{Retention: time.Hour})
	mustAppend(t, l, "a")
	for _, age := range []time.Duration{0, 30 * time.Hour} {
		c.now = c.now.Add(age)
		if added, err := l.Append(t.Context(), &Event{ID: "a", Name: "paid"}); err != nil || added {
			t.Errorf("after %s: added %t, error %v", age, added, err)
		}
	}
	r, err := l.options.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := r.Keys(t.Context(), "events/shop/id/", "", 10); err != nil || len(keys) != 1 {
		t.Errorf("the records of ids are %q, error %v", keys, err)
	}
}

func TestLog_tells_events_of_two_types_apart(t *testing.T) {
	st, c := samples.Open(t), newClock()
	one, two := logOn(st, c, Options{}), logOn(st, c, Options{})
	two.options.Source = "store"
	for _, l := range []*Log{one, two} {
		for i, name := range []string{"paid", "sent", "lost", "paid", "sent", "lost"} {
			added, err := l.Append(t.Context(), &Event{ID: "a", Name: name, Received: c.now})
			if want := i < 3; err != nil || added != want {
				t.Errorf("%s, event %d (%s): added %t, error %v; want %t", l.options.Source, i, name, added, err, want)
			}
		}
		if ids, _, _ := read(t, l, "", 10); ids != "a a a" {
			t.Errorf("%s has %s", l.options.Source, ids)
		}
	}
}

// crashing is a store of a process that ends after it has deleted a record.
type crashing struct {
	store.Store
	crashed bool
}

var errCrashed = errors.New("crashed")

func (c *crashing) Delete(ctx context.Context, keys ...string) error {
	c.crashed = true
	return c.Store.Delete(ctx, keys...)
}

func (c *crashing) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	if c.crashed {
		return errCrashed
	}
	return c.Store.Update(ctx, key, change)
}

// TestLog_reports_a_gap_after_a_crash has a process that ends while it deletes the oldest events, and one that is behind.
func TestLog_reports_a_gap_after_a_crash(t *testing.T) {
	st, c := samples.Open(t), newClock()
	l := logOn(&crashing{Store: st}, c, Options{MaxSize: 4096})
	start, err := l.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	behind := logOn(st, c, Options{})
	if err := behind.begin(t.Context(), st, behind.numberAt(0)); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil; i++ {
		_, err = l.Append(t.Context(), &Event{ID: fmt.Sprintf("%03d", i), Received: c.now, Body: []byte(`"` + strings.Repeat("x", 100) + `"`)})
	}
	if !errors.Is(err, errCrashed) {
		t.Fatal(err)
	}
	ids, end, truncated := read(t, logOn(st, c, Options{}), start, 7)
	if ids == "" || !truncated {
		t.Errorf("%d events are left, truncated %t", len(strings.Fields(ids)), truncated)
	}
	mustAppend(t, behind, "last")
	if ids, _, truncated := read(t, logOn(st, c, Options{}), end, 7); ids != "last" || truncated {
		t.Errorf("after the last: %q, truncated %t", ids, truncated)
	}
}

func TestLog_reports_events_that_are_gone(t *testing.T) {
	t.Run("retention", func(t *testing.T) {
		c := newClock()
		l := logOn(samples.Open(t), c, Options{Retention: 24 * time.Hour})
		mustAppend(t, l, "a", "b")
		_, old, _ := read(t, l, "", 1)
		c.now = c.now.Add(20 * time.Hour)
		_, polled, _ := read(t, l, old, 1)
		c.now = c.now.Add(20 * time.Hour)
		mustAppend(t, l, "c")
		for after, want := range map[Cursor]bool{"": false, polled: false, old: true} {
			if ids, _, truncated := read(t, l, after, 10); ids != "c" || truncated != want {
				t.Errorf("after %q: %s, truncated %t; want c and %t", after, ids, truncated, want)
			}
		}
	})
	t.Run("size", func(t *testing.T) {
		l := logOn(samples.Open(t), newClock(), Options{MaxSize: 4096})
		start, err := l.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			mustAppend(t, l, fmt.Sprintf("%03d", i))
		}
		ids, _, truncated := read(t, l, start, 7)
		if kept := len(strings.Fields(ids)); kept < 20 || kept > 60 || !truncated {
			t.Errorf("%d events are kept, truncated %t", kept, truncated)
		}
		if !slices.IsSorted(strings.Fields(ids)) || !strings.HasSuffix(ids, "099") {
			t.Errorf("the order is %s", ids)
		}
	})
	t.Run("another store", func(t *testing.T) {
		c := newClock()
		l := logOn(samples.Open(t), c, Options{})
		mustAppend(t, l, "a", "b", "c")
		_, after, _ := read(t, l, "", 10)
		other := logOn(samples.Open(t), c, Options{})
		mustAppend(t, other, "d")
		if _, _, truncated := read(t, other, after, 10); !truncated {
			t.Error("the change of the store is not reported")
		}
	})
}

// TestLog_makes_room_in_a_full_store checks that new events replace the oldest, which are reported as gone.
func TestLog_makes_room_in_a_full_store(t *testing.T) {
	st, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"), embedded.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := newClock()
	l := logOn(st, c, Options{})
	start, err := l.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	for i := range 40 {
		if i%4 == 0 {
			c.now = c.now.Add(period)
		}
		if _, err := l.Append(t.Context(), &Event{ID: fmt.Sprint(i), Name: "paid", Received: c.now, Body: large}); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if ids, _, truncated := read(t, l, start, 100); !truncated || !strings.HasSuffix(ids, "36 37 38 39") {
		t.Errorf("events %s, truncated %t", ids, truncated)
	}
}

func TestLog_refuses(t *testing.T) {
	l := logOn(samples.Open(t), nil, Options{})
	if _, err := l.Append(t.Context(), &Event{ID: "a", Body: make([]byte, MaxSize)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large event: %v", err)
	}
	for _, cursor := range []Cursor{"x", "1", "1.", ".1", "-1.0", "1.-1", "1.x", "2562047788015215.0", "9223372036854775807.0"} {
		if _, _, _, err := l.Read(t.Context(), cursor, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	failing := errors.New("no store")
	l.options.Open = func(context.Context) (store.Store, error) { return nil, failing }
	if added, err := l.Append(t.Context(), &Event{ID: "a"}); added || !errors.Is(err, failing) {
		t.Errorf("without a store: added %t, error %v", added, err)
	}
}

func TestLog_wakes_those_that_wait(t *testing.T) {
	st := samples.Open(t)
	one, two := logOn(st, nil, Options{}), logOn(st, nil, Options{})
	for range 2 { // before and after the first event
		end, err := one.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan error, 2)
		for _, l := range []*Log{one, two} {
			go func() { woken <- l.Wait(t.Context(), end) }()
		}
		mustAppend(t, two, "of "+string(end))
		for range 2 {
			if err := <-woken; err != nil {
				t.Error(err)
			}
		}
	}
	end, err := one.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := one.Wait(ctx, end); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an event: %v", err)
	}
}

// TestLog_takes_events_at_once has two nodes add events, some of them on both, while a reader follows the log.
func TestLog_takes_events_at_once(t *testing.T) {
	const senders, each = 8, 50
	st := samples.Open(t)
	nodes := []*Log{logOn(st, nil, Options{MaxSize: 64 << 10}), logOn(st, nil, Options{MaxSize: 64 << 10})}
	after, err := nodes[0].End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for j := range each {
				if _, err := nodes[i%2].Append(t.Context(), &Event{ID: fmt.Sprintf("%d-%d", i/2, j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen, last := make(map[string]bool), make(map[string]int)
	for len(seen) < senders/2*each {
		if err := nodes[1].Wait(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		found, next, truncated, err := nodes[1].Read(t.Context(), after, 10)
		if err != nil || truncated {
			t.Fatalf("truncated %t, error %v", truncated, err)
		}
		for _, e := range found {
			seen[e.ID] = true
			last[e.ID]++
		}
		after = next
	}
	all.Wait()
	for id, n := range last {
		if n > 2 {
			t.Errorf("event %s is there %d times", id, n)
		}
	}
}

func TestStored_events_are_read(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	samples.Store(t, "events", func(st store.Store) error {
		l := logOn(st, c, Options{})
		for _, e := range []Event{{ID: "evt_1", Name: "invoice.paid", Received: c.now, Body: []byte("{ \"id\": \"evt_1\" }\n")}, {ID: "evt_2", Name: "x", Received: c.now, Body: []byte(`[]`)}} {
			if _, err := l.Append(t.Context(), &e); err != nil {
				return err
			}
		}
		return nil
	}, func(st store.Store) (any, error) {
		l := logOn(st, c, Options{})
		found, next, truncated, err := l.Read(t.Context(), Cursor("500000.0"), 10)
		if err != nil {
			return nil, err
		}
		added, err := l.Append(t.Context(), &Event{ID: "evt_2"})
		return map[string]any{"events": found, "next": next, "truncated": truncated, "added again": added}, err
	})
}
