package redis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// The sorted sets of the index of TestIndex.
const names, expiry = redis.DefaultPrefix + "index/x/names", redis.DefaultPrefix + "index/x/expiry"

// TestIndex checks that Keys finds exactly the records that exist, whatever happens to them and to the index.
func TestIndex(t *testing.T) {
	address, _ := storetest.Redis(t)
	options, err := goredis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	server := goredis.NewClient(options)
	t.Cleanup(func() { _ = server.Close() })
	plain := openStore(t, address) // without the index, as an earlier version
	t.Cleanup(func() { _ = plain.Close() })
	s := openWith(t, address, redis.Options{Indexed: []string{"x/"}})
	t.Cleanup(func() { _ = s.Close() })
	put := func(s *redis.Store, key string, ttl time.Duration) {
		t.Helper()
		if err := s.Put(t.Context(), key, store.Change{Value: []byte("v"), TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := s.Keys(t.Context(), "x/", after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); len(page) < 2 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	put(plain, "x/old", time.Hour)
	put(s, "x/a", time.Hour)
	put(s, "y/a", time.Hour)
	check("a record that is older than the index", "x/a", "x/old")
	put(s, "x/b", time.Hour)
	put(s, "x/a", time.Hour)
	check("a new record", "x/a", "x/b", "x/old")
	if err := s.Delete(t.Context(), "x/b"); err != nil {
		t.Fatal(err)
	}
	check("a deleted record", "x/a", "x/old")
	server.ZAdd(t.Context(), names, goredis.Z{Member: "x/ghost"})
	check("an entry without a record", "x/a", "x/old")
	for _, set := range []string{names, expiry} {
		server.Del(t.Context(), set)
		put(s, "x/c", time.Hour)
		check("after the server has evicted "+set, "x/a", "x/c", "x/old")
	}
	for i := range 10 {
		put(s, fmt.Sprint("x/short", i), time.Millisecond)
	}
	put(s, "x/prolonged", 50*time.Millisecond)
	put(s, "x/prolonged", time.Hour)
	for server.Exists(t.Context(), redis.DefaultPrefix+"x/short9").Val() > 0 {
	}
	check("after records have expired", "x/a", "x/c", "x/old", "x/prolonged")
	for i := range 5 { // each new record removes entries of expired ones
		put(s, fmt.Sprint("x/z", i), time.Hour)
	}
	check("after further records", "x/a", "x/c", "x/old", "x/prolonged", "x/z0", "x/z1", "x/z2", "x/z3", "x/z4")
	if got := server.ZCard(t.Context(), expiry).Val(); got != 10 { // and the mark that it is complete
		t.Errorf("the index has %d entries, want 10: %v", got, server.ZRange(t.Context(), expiry, 0, -1).Val())
	}
}

// BenchmarkKeys lists a page of 10,000 records with the index and without it.
func BenchmarkKeys(b *testing.B) {
	address, _ := storetest.Redis(b)
	for name, indexed := range map[string][]string{"index": {"x/"}, "scan": nil} {
		s, err := redis.Open(address, redis.Options{Indexed: indexed})
		if err != nil {
			b.Fatal(err)
		}
		if indexed != nil {
			for i := range 10_000 {
				if err := s.Put(b.Context(), fmt.Sprintf("x/%06d", i), store.Change{Value: []byte("v"), TTL: time.Hour}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if keys, err := s.Keys(b.Context(), "x/", "x/005000", 50); err != nil || len(keys) != 50 {
					b.Fatalf("%d keys, error %v", len(keys), err)
				}
			}
		})
		_ = s.Close()
	}
}
