package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/storetest"
)

// increment adds 1 to a counter, with a log entry.
func increment(ctx context.Context, s store.Store, key string) error {
	return s.Update(ctx, key, func(old store.Record) (store.Change, error) {
		n, _ := strconv.Atoi(string(old.Value))
		c := change(strconv.Itoa(n + 1))
		c.Entries = [][]byte{c.Value}
		return c, nil
	})
}

// wantCounter returns the value of a counter, and checks that its log has all values.
func wantCounter(t *testing.T, s store.Store, key string) int {
	t.Helper()
	r, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	n, _ := strconv.Atoi(string(r.Value))
	entries, err := s.Read(t.Context(), key, 0, store.MaxRead)
	if err != nil || len(entries) != n || r.Length != int64(n) {
		t.Fatalf("%s is %d with %d entries of %d, error %v", key, n, len(entries), r.Length, err)
	}
	for i, e := range entries {
		if string(e) != strconv.Itoa(i+1) {
			t.Fatalf("entry %d of %s is %q", i, key, e)
		}
	}
	return n
}

// checkTables checks what must be true of the tables after each transaction.
func checkTables(t *testing.T, address string) {
	t.Helper()
	for what, statement := range map[string]string{
		"records with another number of entries": `SELECT count(*) FROM records r
			WHERE length <> (SELECT count(*) FROM entries e WHERE e.log = r.log)`,
		"records with another size": `SELECT count(*) FROM records r WHERE size <> 400 + octet_length(key) + octet_length(value) +
			coalesce((SELECT sum(octet_length(data) + 80) FROM entries e WHERE e.log = r.log), 0)`,
		"entries without a record": `SELECT count(*) FROM entries e
			WHERE NOT EXISTS (SELECT FROM records r WHERE r.log = e.log) AND NOT EXISTS (SELECT FROM deleted_logs d WHERE d.log = e.log)`,
		"owners with another sum": `SELECT count(*) FROM (SELECT owner, sum(size) AS size FROM records GROUP BY owner) r
			FULL JOIN (SELECT owner, sum(bytes) AS bytes FROM owner_bytes GROUP BY owner HAVING sum(bytes) <> 0) o USING (owner)
			WHERE size IS DISTINCT FROM bytes`,
	} {
		if n := query[int](t, address, statement); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// TestStorm changes few records from many goroutines on two nodes, with expiry, deletion and eviction in between.
func TestStorm(t *testing.T) {
	const clients, each, counters = 32, 60, 3
	address := storetest.Postgres(t)
	var stores [2]*postgres.Store
	for i := range stores {
		s, err := postgres.Open(address, postgres.Options{MaxBytes: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	var added [counters]atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			s, owner := stores[i%2], store.Owner(fmt.Sprint("user ", i%4))
			for n := range each {
				shared := fmt.Sprint("shared", rand.N(5)) //nolint:gosec // any will do
				var err error
				switch n % 6 {
				case 0, 1:
					counter := (i + n) % counters
					if err = increment(t.Context(), s, fmt.Sprint("counter", counter)); err == nil {
						added[counter].Add(1)
					}
				case 2:
					err = s.Put(t.Context(), shared, store.Change{Entries: [][]byte{{1}, {2}}, TTL: time.Duration(1+n) * time.Millisecond, Owner: owner})
				case 3:
					err = s.Delete(t.Context(), shared)
				case 4:
					c := store.Change{Value: make([]byte, 30_000), TTL: time.Hour, Owner: owner, Evictable: true}
					if n%12 == 4 {
						c.Tombstone = []byte("tombstone")
					}
					if err = s.Put(t.Context(), fmt.Sprint("large", i, "/", n), c); errors.Is(err, store.ErrShare) || errors.Is(err, store.ErrFull) {
						err = nil
					}
				case 5:
					if _, err = s.Get(t.Context(), fmt.Sprint("large", i, "/", n-1)); errors.Is(err, store.ErrNotFound) {
						err = nil // evicted
					}
				}
				if err != nil {
					t.Errorf("operation %d: %v", n%6, err)
				}
			}
		})
	}
	all.Wait()
	for i := range added {
		if got, want := wantCounter(t, stores[i%2], fmt.Sprint("counter", i)), int(added[i].Load()); got != want {
			t.Errorf("counter %d is %d, want %d", i, got, want)
		}
	}
	checkTables(t, address)
	used, large := query[int](t, address, "SELECT sum(bytes)::bigint FROM owner_bytes"), query[int](t, address, "SELECT count(*) FROM records WHERE octet_length(value) = 30000")
	if used > 3<<20 || large == 0 || large == clients*each/6 {
		t.Errorf("%d bytes are in use with a limit of %d; %d large values remain", used, 2<<20, large)
	}
}

// TestTerminated ends connections at random during changes. Each acknowledged change is there, each failed one is not, and
// the others are there or not, as a whole.
func TestTerminated(t *testing.T) {
	const clients, ends, enough = 8, 40, 50
	address := storetest.Postgres(t)
	var stores [2]*postgres.Store
	for i := range stores {
		stores[i] = openStore(t, address)
	}
	var acknowledged, unknown [clients]int
	var ended atomic.Bool
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for !ended.Load() || acknowledged[i] < enough {
				switch err := increment(t.Context(), stores[i%2], fmt.Sprint("counter", i)); {
				case err == nil:
					acknowledged[i]++
				case strings.Contains(err.Error(), "unknown"):
					unknown[i]++
				case !strings.Contains(err.Error(), "postgres at"):
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	for n := 0; n < ends; {
		n += query[int](t, address, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'fairway' AND datname = current_database() AND random() < 0.5`)
	}
	ended.Store(true)
	all.Wait()
	sum := 0
	for i := range clients {
		sum += unknown[i]
		if got := wantCounter(t, stores[(i+1)%2], fmt.Sprint("counter", i)); got < acknowledged[i] || got > acknowledged[i]+unknown[i] {
			t.Errorf("counter %d is %d; %d changes were acknowledged, and %d were interrupted", i, got, acknowledged[i], unknown[i])
		}
	}
	checkTables(t, address)
	t.Logf("%d changes with an unknown outcome", sum)
}
