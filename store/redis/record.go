package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

// The fields of a record's hash. The fields of its log are the numbers of the entries.
const (
	fieldValue    = "v"
	fieldRevision = "r"
	fieldLength   = "n"

	anyRevision = "*" // matches every revision
	scanAtOnce  = 1000
)

// Results of changeScript.
const (
	changeDone     = 1
	changeConflict = 0  // the revision has changed
	changeTooLong  = -1 // the log would exceed its limit
	changeNoShare  = -2 // the owner has used its share
)

// changeScript changes the record at KEYS[1]. If the change has been made already, by a
// request whose response was lost, the script does not make it again. ARGV:
//
//  1. expected revision, or "*"
//  2. new revision
//  3. operation on the value: set, keep or delete
//  4. value
//  5. time to live in milliseconds
//  6. maximum length of the log
//  7. channel to publish to
//  8. message to publish: the key
//  9. owner, "" to count nothing; see shares.go
//  10. evictable: 1 or 0
//  11. tombstone
//  12. and 13. memory in use, and its limit, in KiB
//  14. prefix of all keys
//  15. and following: entries to append to the log
//
// The result is changeDone or another constant above, and by how many KiB the records have grown. If the record is in
// an index (index.go), KEYS[2] and KEYS[3] are its keys. The script adds the entries of the index together with the
// record. For each new record it removes up to 4 entries of records that have expired.
var changeScript = redis.NewScript(sharesLua + changeLua)

//go:embed change.lua
var changeLua string

// readScript returns entries of the log of KEYS[1]. ARGV: the number of the first entry,
// the maximum number of entries, and the number of bytes after which to stop.
var readScript = redis.NewScript(readLua)

//go:embed read.lua
var readLua string

// write makes the change if the record still has the revision, and reports whether it did.
func (s *Store) write(ctx context.Context, key, revision string, c *store.Change) (bool, error) {
	what, ttl := "keep", c.TTL
	switch {
	case c.Delete:
		what = "delete"
	case c.Value != nil:
		what = "set"
	}
	owner, used, limit, err := s.memory.counted(ctx, c.Owner)
	if err != nil {
		return false, err
	}
	tombstone := c.Tombstone
	if !c.Evictable {
		tombstone = nil
	}
	args := make([]any, 0, 14+len(c.Entries))
	args = append(args, revision, rand.Text(), what, c.Value, max(ttl.Milliseconds(), 1), store.MaxLength, s.changes.channel, key,
		string(owner), c.Evictable, tombstone, used, limit, s.options.Prefix)
	if !c.Delete {
		for _, entry := range c.Entries {
			args = append(args, entry)
		}
	}
	tries, outcome := 0, int64(0)
	err = s.connection.retryOnce(ctx, func(client *redis.Client) (err error) {
		var result []int64
		if result, err = changeScript.Run(ctx, client, s.keysOf(key), args...).Int64Slice(); err == nil && len(result) == 2 {
			outcome = result[0]
			s.memory.grow(result[1])
		}
		if !refused(err) {
			tries++
		}
		return err
	})
	switch {
	case err != nil:
		return false, err
	case outcome == changeTooLong:
		return false, fmt.Errorf("%w: the log has no room for %d more entries; the limit is %d", store.ErrTooLarge, len(c.Entries), store.MaxLength)
	case outcome == changeNoShare:
		return false, fmt.Errorf("%w: %s at %s", store.ErrShare, c.Owner, s.connection.name)
	case outcome == changeConflict && tries > 1:
		return false, fmt.Errorf("redis at %s: the connection was lost before the response; the record has changed since, so it is unknown whether this change was made", s.connection.name)
	case outcome == changeDone:
		s.changes.waiters.Wake(key)
	}
	return outcome == changeDone, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := store.CheckKey(key); err != nil {
			return err
		}
	}
	ctx, done := s.connection.begin(ctx)
	defer done()
	for _, key := range keys {
		if _, err := s.write(ctx, key, anyRevision, &store.Change{Delete: true}); err != nil {
			return err
		}
	}
	return nil
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	limit, err := store.CheckRange(from, limit)
	if err != nil {
		return nil, err
	}
	var texts []string
	err = s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) (err error) {
		texts, err = readScript.Run(ctx, client, []string{s.options.Prefix + key}, from, limit, store.MaxReadBytes).StringSlice()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	entries := make([][]byte, len(texts))
	for i, text := range texts {
		entries[i] = []byte(text)
	}
	return entries, err
}

// Keys implements store.Store.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := store.CheckRange(0, limit)
	if err != nil {
		return nil, err
	}
	if x, ok := s.indexOf(prefix); ok {
		return s.indexed(ctx, x, prefix, after, limit)
	}
	return s.scan(ctx, prefix, after, limit)
}

// scan returns keys without an index. SCAN returns keys in no order, so it scans all of them and keeps the
// first limit keys.
func (s *Store) scan(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	var keys []string
	pattern := quoteGlob(s.options.Prefix+prefix) + "*"
	for cursor := uint64(0); ; {
		var found []string
		var next uint64
		// The timeout is that of one step; the caller's context limits the whole scan.
		err := s.connection.timed(ctx, func(ctx context.Context, client *redis.Client) (err error) {
			found, next, err = client.Scan(ctx, cursor, pattern, scanAtOnce).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		cursor = next
		for _, name := range found {
			if key := strings.TrimPrefix(name, s.options.Prefix); key > after && !strings.HasPrefix(key, indexPrefix) {
				keys = append(keys, key)
			}
		}
		if len(keys) > limit+scanAtOnce || cursor == 0 {
			slices.Sort(keys)
			keys = slices.Compact(keys)
			keys = keys[:min(limit, len(keys))]
		}
		if cursor == 0 {
			return keys, nil
		}
	}
}

// quoteGlob escapes the special characters of SCAN patterns.
func quoteGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
