package engagement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// countingStore counts the records that are read.
type countingStore struct {
	store.Store
	read atomic.Int64
}

func (s *countingStore) Get(ctx context.Context, key string) (store.Record, error) {
	s.read.Add(1)
	return s.Store.Get(ctx, key)
}

func (s *countingStore) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	keys, err := s.Store.Keys(ctx, prefix, after, limit)
	s.read.Add(int64(len(keys)))
	return keys, err
}

// TestRecords_page_of_many lists the 5 Engagements of a user among 10,000, and a page of all of them, with
// both stores.
func TestRecords_page_of_many(t *testing.T) {
	const many, own = 10_000, 5
	for name, open := range map[string]func(*testing.T) store.Store{
		"embedded": func(t *testing.T) store.Store {
			s, err := embedded.Open(t.TempDir()+"/store.db", embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"redis": func(t *testing.T) store.Store {
			address, _ := storetest.Redis(t)
			s, err := redis.Open(address, redis.Options{Indexed: []string{engagement.KeyPrefix}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			counting := &countingStore{Store: open(t)}
			t.Cleanup(func() { _ = counting.Close() })
			records := engagement.NewRecords(engagement.Options{
				Store: counting, TTL: time.Hour, MaxPayload: 1 << 10, MaxRecord: 1 << 20, CacheSize: 1 << 20, Now: time.Now,
			})
			begin := func(user, id string) {
				of := engagement.Ref{Agent: "desk", ID: id, User: engagement.User{ID: user}}
				err := records.Change(t.Context(), of.Key(), func(now time.Time) *engagement.State { return engagement.NewState(of, now) }, func(tx *engagement.Tx) error {
					tx.State.Total = 1
					tx.State.IndexOf("get-trip")
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range many - own {
				begin(fmt.Sprint("user", i%1000), fmt.Sprint(i))
			}
			for i := range own {
				begin("ada", fmt.Sprint(i))
			}
			list := func(what string, page func(after string) ([]*engagement.Summary, string, error), limit, pages, want int) {
				t.Helper()
				seen := make(map[string]bool)
				after := ""
				for range pages {
					counting.read.Store(0)
					began := time.Now()
					found, next, err := page(after)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%s: a page of %d in %s, %d reads", what, len(found), time.Since(began), counting.read.Load())
					if read := counting.read.Load(); read > int64(2*limit+1) {
						t.Errorf("%s: a page of %d reads %d records and keys", what, limit, read)
					}
					for _, e := range found {
						if what == "own" && e.User.ID != "ada" || seen[e.Key] {
							t.Errorf("%s: got %+v", what, e)
						}
						seen[e.Key] = true
					}
					if after = next; next == "" {
						break
					}
				}
				if len(seen) != want {
					t.Errorf("%s: %d Engagements, want %d", what, len(seen), want)
				}
			}
			list("own", func(after string) ([]*engagement.Summary, string, error) {
				return records.Page(t.Context(), "ada", after, 2)
			}, 2, own, own)
			list("all", func(after string) ([]*engagement.Summary, string, error) {
				return records.Page(t.Context(), "", after, 50)
			}, 50, 3, 150)
			if found, _, err := records.Page(t.Context(), "bob", "", 50); err != nil || len(found) != 0 {
				t.Errorf("a user without Engagements: %d, error %v", len(found), err)
			}
			of := engagement.Ref{Agent: "desk", ID: "0", User: engagement.User{ID: "ada"}}
			if other := (&engagement.Ref{Agent: "desk", ID: "1", User: engagement.User{ID: "ada"}}).Key(); !engagement.IsKey(of.Key()) || of.Key() == other || strings.Contains(of.Key(), "ada") {
				t.Errorf("keys %s and %s", of.Key(), other)
			}
		})
	}
}

// TestRecords_Newest lists Engagements with the latest change first, over pages and hours, with both stores.
func TestRecords_Newest(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{
		"embedded": func(t *testing.T) store.Store {
			s, err := embedded.Open(t.TempDir()+"/store.db", embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"redis": func(t *testing.T) store.Store {
			address, _ := storetest.Redis(t)
			s, err := redis.Open(address, redis.Options{Indexed: []string{engagement.KeyPrefix, engagement.TimeIndexPrefix}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { _ = s.Close() })
			now := time.Now().Truncate(time.Hour)
			records := engagement.NewRecords(engagement.Options{
				Store: s, TTL: 240 * time.Hour, MaxPayload: 1 << 10, MaxRecord: 1 << 20, CacheSize: 1 << 20, Now: func() time.Time { return now },
			})
			call := func(user, id string) {
				t.Helper()
				of := engagement.Ref{Agent: "desk", ID: id, User: engagement.User{ID: user}}
				begin := func(now time.Time) *engagement.State { return engagement.NewState(of, now) }
				if err := records.Change(t.Context(), of.Key(), begin, func(tx *engagement.Tx) error { tx.Begin("get-trip", nil, "", logonly.Would{}, false); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			const all = 40
			for i := range all { // three in an hour
				call([]string{"ada", "bob"}[i%2], fmt.Sprint(i))
				now = now.Add(20 * time.Minute)
			}
			call("ada", "0") // the oldest becomes the newest
			list := func(user string, limit int) (ids []string) {
				t.Helper()
				for after := ""; ; {
					found, next, err := records.Newest(t.Context(), user, after, limit, func(e *engagement.Summary) bool { return e.ID != "6" })
					if err != nil || len(found) > limit {
						t.Fatalf("%d Engagements, error %v", len(found), err)
					}
					for _, e := range found {
						ids = append(ids, e.ID)
					}
					if after = next; after == "" {
						return ids
					}
				}
			}
			want := map[string][]string{"": {"0"}, "ada": {"0"}, "bob": nil}
			for i := all - 1; i > 0; i-- {
				if i != 6 {
					owner := []string{"ada", "bob"}[i%2]
					want[""], want[owner] = append(want[""], fmt.Sprint(i)), append(want[owner], fmt.Sprint(i))
				}
			}
			for user, ids := range want {
				for _, limit := range []int{1, 7, 100} {
					if got := list(user, limit); !slices.Equal(got, ids) {
						t.Errorf("user %q, pages of %d: got %v, want %v", user, limit, got, ids)
					}
				}
			}
			if _, _, err := records.Newest(t.Context(), "", "x", 1, func(*engagement.Summary) bool { return true }); !errors.Is(err, engagement.ErrNotFound) {
				t.Errorf("an invalid position: error %v", err)
			}
		})
	}
}
