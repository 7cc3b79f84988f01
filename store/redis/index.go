package redis

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An index has the keys of all records that begin with one of Options.Indexed, so that the cost of Keys
// does not depend on the number of records. It consists of two sorted sets:
//
//   - names has the keys with the score 0, so that they are in byte order.
//   - expiry has the keys with the time at which the record expires, in milliseconds since 1970.
//     changeScript uses it to remove the entries of expired records.
//
// changeScript adds a record and its entries atomically. Entries are missing only if the record is older
// than the index, or if the server has evicted the index. In both cases the member indexComplete is
// missing, and Keys rebuilds the index. An entry without a record is ignored.
type index struct{ names, expiry string }

// indexPrefix is the prefix of the keys of indexes. No key of a record begins with it.
const indexPrefix = "index/"

// indexComplete is the member of both sets of an index that has the entries of all records.
const indexComplete = ""

// indexOf returns the index that has the keys with a prefix.
func (s *Store) indexOf(prefix string) (x index, ok bool) {
	for _, indexed := range s.options.Indexed {
		if strings.HasPrefix(prefix, indexed) {
			base := s.options.Prefix + indexPrefix + indexed
			return index{base + "names", base + "expiry"}, true
		}
	}
	return x, false
}

// keysOf returns the keys for changeScript.
func (s *Store) keysOf(key string) []string {
	if x, ok := s.indexOf(key); ok {
		return []string{s.options.Prefix + key, x.names, x.expiry}
	}
	return []string{s.options.Prefix + key}
}

// indexed is Keys for keys that are in an index.
func (s *Store) indexed(ctx context.Context, x index, prefix, after string, limit int) ([]string, error) {
	if err := s.completeIndex(ctx, x, prefix); err != nil {
		return nil, err
	}
	first := "[" + prefix
	if after >= prefix {
		first = "(" + after
	}
	end := []byte("(" + prefix)
	end[len(end)-1]++ // Indexed is text, which does not end with 0xff
	keys := make([]string, 0, min(limit, scanAtOnce))
	for {
		count := min(limit-len(keys), scanAtOnce)
		var found []string
		err := s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) (err error) {
			found, err = client.Do(ctx, "ZRANGEBYLEX", x.names, first, string(end), "LIMIT", 0, count).StringSlice() // ZRANGE BYLEX needs Redis 6.2
			return err
		})
		if err != nil {
			return nil, err
		}
		live, err := s.lifetimes(ctx, found)
		if err != nil {
			return nil, err
		}
		for i, key := range found {
			if live[i] > 0 {
				keys = append(keys, key)
			}
		}
		if len(found) < count || len(keys) == limit {
			return keys, nil
		}
		first = "(" + found[len(found)-1]
	}
}

// lifetimes returns the remaining lifetimes of records. It is 0 or less for a record that does not exist.
func (s *Store) lifetimes(ctx context.Context, keys []string) (lifetimes []time.Duration, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) error {
		lifetimes = lifetimes[:0]
		replies, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.PTTL(ctx, s.options.Prefix+key)
			}
			return nil
		})
		for _, reply := range replies {
			lifetimes = append(lifetimes, reply.(*redis.DurationCmd).Val())
		}
		return err
	})
	return lifetimes, err
}

// completeIndex builds the index if it is not complete. It does not replace entries that concurrent
// changes add.
func (s *Store) completeIndex(ctx context.Context, x index, prefix string) error {
	complete := true
	err := s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) error {
		complete = true
		for _, set := range []string{x.names, x.expiry} {
			err := client.ZScore(ctx, set, indexComplete).Err()
			if errors.Is(err, redis.Nil) {
				complete, err = false, nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || complete {
		return err
	}
	for _, indexed := range s.options.Indexed {
		if !strings.HasPrefix(prefix, indexed) {
			continue
		}
		keys, err := s.scan(ctx, indexed, "", math.MaxInt-scanAtOnce-1)
		if err != nil {
			return err
		}
		for len(keys) > 0 {
			part := keys[:min(len(keys), scanAtOnce)]
			keys = keys[len(part):]
			if err := s.addToIndex(ctx, x, part); err != nil {
				return err
			}
		}
		break
	}
	return s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) error {
		_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.ZAdd(ctx, x.names, redis.Z{Member: indexComplete})
			p.ZAdd(ctx, x.expiry, redis.Z{Score: math.Inf(1), Member: indexComplete})
			return nil
		})
		return err
	})
}

// addToIndex adds entries for records that have none.
func (s *Store) addToIndex(ctx context.Context, x index, keys []string) error {
	lifetimes, err := s.lifetimes(ctx, keys)
	if err != nil {
		return err
	}
	return s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) error {
		now, err := client.Time(ctx).Result()
		if err != nil {
			return err
		}
		_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				if lifetimes[i] <= 0 {
					continue
				}
				p.ZAddNX(ctx, x.expiry, redis.Z{Score: float64(now.Add(lifetimes[i]).UnixMilli()), Member: key})
				p.ZAddNX(ctx, x.names, redis.Z{Member: key})
			}
			return nil
		})
		return err
	})
}
