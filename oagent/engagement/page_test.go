package engagement_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
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

// TestRecords_PageOf_many lists the 5 Engagements of a user among 10,000, and a page of all of them, with
// both stores.
func TestRecords_PageOf_many(t *testing.T) {
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
				return records.PageOf(t.Context(), "ada", after, 2)
			}, 2, own, own)
			list("all", func(after string) ([]*engagement.Summary, string, error) {
				return records.Page(t.Context(), after, 50)
			}, 50, 3, 150)
			if found, _, err := records.PageOf(t.Context(), "bob", "", 50); err != nil || len(found) != 0 {
				t.Errorf("a user without Engagements: %d, error %v", len(found), err)
			}
			of := engagement.Ref{Agent: "desk", ID: "0", User: engagement.User{ID: "ada"}}
			if other := (&engagement.Ref{Agent: "desk", ID: "1", User: engagement.User{ID: "ada"}}).Key(); !engagement.IsKey(of.Key()) || of.Key() == other || strings.Contains(of.Key(), "ada") {
				t.Errorf("keys %s and %s", of.Key(), other)
			}
		})
	}
}
