package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	storedTimes = 20      // how often the keys of Redis are measured in a run
	scanned     = 1000    // keys that are measured with one request
	printed     = 12      // kinds of keys that are printed
	maxLasting  = 2.25    // growth of what lives longer than half of the run, from the middle of the run to its end
	maxExtra    = 1 << 20 // bytes that it may grow more: the middle of a short run has few keys
)

// kind is what Redis has of one kind of records.
type kind struct {
	keys  int
	bytes float64
	life  time.Duration // the longest time that one of the keys still lives
}

// stored is what Redis has at one time, by the name of the kind.
type stored struct {
	at    time.Duration
	kinds map[string]kind
}

// stored measures each key of Redis.
func (s *site) stored(ctx context.Context) (map[string]kind, error) {
	kinds := make(map[string]kind)
	keys := s.client.Scan(ctx, 0, "*", scanned).Iterator()
	for more := true; more; {
		var some []string
		for len(some) < scanned && more {
			if more = keys.Next(ctx); more {
				some = append(some, keys.Val())
			}
		}
		sizes, lives := make([]*redis.IntCmd, len(some)), make([]*redis.DurationCmd, len(some))
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range some {
				sizes[i], lives[i] = p.MemoryUsage(ctx, key), p.PTTL(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) { // Nil: a key has expired
			return nil, err
		}
		for i, key := range some {
			k := kinds[kindOf(key)]
			k.keys++
			k.bytes += float64(sizes[i].Val())
			k.life = max(k.life, lives[i].Val())
			kinds[kindOf(key)] = k
		}
	}
	return kinds, keys.Err()
}

// ofOneRecord matches the parts of a key that differ between records of one kind.
var ofOneRecord = regexp.MustCompile(`/[^/]*(\d|[A-Z]| )[^/]*`)

// kindOf returns the kind of the records of a key. The index of a kind does not expire, and belongs to that kind.
func kindOf(key string) string {
	key = ofOneRecord.ReplaceAllString(strings.TrimPrefix(key, "fairway:"), "")
	if index, ok := strings.CutPrefix(key, "index/"); ok {
		if name, ok := strings.CutSuffix(index, "/names"); ok {
			return name
		}
		if name, ok := strings.CutSuffix(index, "/expiry"); ok {
			return name
		}
	}
	return key
}

// printStored prints what Redis has. What lives shorter than half of the run must not grow in the second half. What
// lives longer must not grow faster in the second half than in the first one. The index by time, for example, keeps
// what has expired for an hour.
func (r *report) printStored() bool {
	if len(r.stored) < 2 {
		return verdict(false, "keys of Redis", "measured %d times", len(r.stored))
	}
	life := make(map[string]time.Duration)
	for _, s := range r.stored {
		for name, k := range s.kinds {
			life[name] = max(life[name], k.life)
		}
	}
	size := func(s stored, lasting bool) (sum float64) {
		for name, k := range s.kinds {
			if (life[name] > r.length/2) == lasting {
				sum += k.bytes
			}
		}
		return sum
	}
	middle, end := r.stored[len(r.stored)/2], r.stored[len(r.stored)-1]
	fmt.Printf("\n%-32s %8s %8s %12s\n", fmt.Sprintf("keys of Redis after %.0f s", end.at.Seconds()), "number", "MB", "lives at most")
	names := slices.Collect(maps.Keys(end.kinds))
	slices.SortFunc(names, func(a, b string) int { return int(end.kinds[b].bytes - end.kinds[a].bytes) })
	for _, name := range names[:min(printed, len(names))] {
		k := end.kinds[name]
		fmt.Printf("%-32s %8d %8.1f %12s\n", name, k.keys, k.bytes/(1<<20), life[name].Round(time.Second))
	}
	fmt.Println()

	var brief []sample
	for _, s := range r.stored {
		brief = append(brief, sample{at: s.at, redis: size(s, false)})
	}
	ok := printTrend(brief, "keys that live less than half of the run, MB", 1<<20, maxGrowthRedis, func(s sample) float64 { return s.redis })
	before, after := size(middle, true), size(end, true)
	return verdict(after <= maxLasting*before+maxExtra, "keys that live longer, MB", "%.1f after %.0fs, %.1f after %.0fs",
		before/(1<<20), middle.at.Seconds(), after/(1<<20), end.at.Seconds()) && ok
}
