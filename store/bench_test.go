package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// allStores runs a benchmark with each kind of store. The servers of Redis and Postgres do not wait for the disk.
func allStores(b *testing.B, run func(*testing.B, store.Store)) {
	b.Run("embedded", func(b *testing.B) {
		s, err := embedded.Open(filepath.Join(b.TempDir(), "records.db"), embedded.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		run(b, s)
	})
	b.Run("redis", func(b *testing.B) {
		address, _ := storetest.Redis(b)
		s, err := redis.Open(address, redis.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		run(b, s)
	})
	b.Run("postgres", func(b *testing.B) {
		s, err := postgres.Open(storetest.Postgres(b), postgres.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		run(b, s)
	})
}

// BenchmarkUpdate makes durable changes of new records with several numbers of writers.
func BenchmarkUpdate(b *testing.B) {
	allStores(b, func(b *testing.B, s store.Store) {
		for _, writers := range []int{1, 8, 64} {
			b.Run(strconv.Itoa(writers), func(b *testing.B) {
				var n atomic.Int64
				value := make([]byte, 500)
				b.SetParallelism(max(writers/2, 1))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						key := fmt.Sprintf("%x/%d", time.Now().UnixNano(), n.Add(1))
						err := s.Update(context.Background(), key, func(store.Record) (store.Change, error) {
							return store.Change{Value: value, TTL: time.Hour}, nil
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			})
		}
	})
}

// BenchmarkCall makes the two changes of a call with a call_id, with 64 callers: a durable
// claim and a durable response.
func BenchmarkCall(b *testing.B) {
	allStores(b, func(b *testing.B, s store.Store) {
		var n atomic.Int64
		value := make([]byte, 500)
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				key := fmt.Sprintf("%016x", uint64(n.Add(1))*0x9e3779b97f4a7c15)
				claim := store.Change{Value: value[:40], TTL: time.Hour}
				answer := store.Change{Value: value, TTL: time.Hour, Evictable: true}
				err := s.Update(context.Background(), key, func(store.Record) (store.Change, error) { return claim, nil })
				if err != nil {
					b.Error(err)
				}
				if err := s.Put(context.Background(), key, answer); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	})
}

// BenchmarkAppend appends one entry to logs of several lengths.
func BenchmarkAppend(b *testing.B) {
	allStores(b, func(b *testing.B, s store.Store) {
		for _, length := range []int{10, 1000, 100_000} {
			key := "log" + strconv.Itoa(length)
			entry := make([]byte, 300)
			for done := 0; done < length; {
				entries := make([][]byte, min(store.MaxEntries, length-done))
				for i := range entries {
					entries[i] = entry
				}
				if err := s.Put(b.Context(), key, store.Change{Entries: entries, TTL: time.Hour}); err != nil {
					b.Fatal(err)
				}
				done += len(entries)
			}
			b.Run(strconv.Itoa(length), func(b *testing.B) {
				for b.Loop() {
					err := s.Put(b.Context(), key, store.Change{Value: entry, Entries: [][]byte{entry}, TTL: time.Hour})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}
