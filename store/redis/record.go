package redis

import (
	"context"
	"crypto/rand"
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
//
// The entries to append follow. KEYS[2] and KEYS[3] are those of the index (index.go), if the record is in one.
// An entry of the index is added in the same step as the record. Each new record removes up to 4
// entries of records that have expired.
var changeScript = redis.NewScript(`
local now = redis.call('HMGET', KEYS[1], 'r', 'n')
local revision, length = now[1] or '', tonumber(now[2] or '0')
if revision == ARGV[2] then return 1 end
if ARGV[1] ~= '*' and ARGV[1] ~= revision then return 0 end
if ARGV[3] == 'delete' then
	redis.call('UNLINK', KEYS[1])
	for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[8]) end
else
	local more = #ARGV - 8
	if length + more > tonumber(ARGV[6]) then return -1 end
	for i = 1, more do
		redis.call('HSET', KEYS[1], string.format('%d', length + i - 1), ARGV[8 + i])
	end
	if ARGV[3] == 'set' or revision == '' then
		redis.call('HSET', KEYS[1], 'v', ARGV[4])
	end
	redis.call('HSET', KEYS[1], 'r', ARGV[2], 'n', string.format('%d', length + more))
	redis.call('PEXPIRE', KEYS[1], ARGV[5])
	if KEYS[2] then
		local clock = redis.call('TIME')
		local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
		if revision == '' then
			for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', time), 'LIMIT', 0, 4)) do
				redis.call('ZREM', KEYS[2], expired)
				redis.call('ZREM', KEYS[3], expired)
			end
			redis.call('ZADD', KEYS[2], 0, ARGV[8])
		end
		redis.call('ZADD', KEYS[3], string.format('%d', time + ARGV[5]), ARGV[8])
	end -- of the index
end
redis.call('PUBLISH', ARGV[7], ARGV[8])
return 1
`)

// readScript returns entries of the log of KEYS[1]. ARGV: the number of the first entry,
// the maximum number of entries, and the number of bytes after which to stop.
var readScript = redis.NewScript(`
local first = tonumber(ARGV[1])
local last = math.min(first + tonumber(ARGV[2]), tonumber(redis.call('HGET', KEYS[1], 'n') or '0')) - 1
local entries, size = {}, 0
for i = first, last do
	local entry = redis.call('HGET', KEYS[1], string.format('%d', i))
	if not entry then break end
	size = size + #entry
	if #entries > 0 and size > tonumber(ARGV[3]) then break end
	entries[#entries + 1] = entry
end
return entries
`)

// write makes the change if the record still has the revision, and reports whether it did.
func (s *Store) write(ctx context.Context, key, revision string, c *store.Change) (bool, error) {
	what, ttl := "keep", c.TTL
	switch {
	case c.Delete:
		what = "delete"
	case c.Value != nil:
		what = "set"
	}
	args := make([]any, 0, 8+len(c.Entries))
	args = append(args, revision, rand.Text(), what, c.Value, max(ttl.Milliseconds(), 1), store.MaxLength, s.changes.channel, key)
	if !c.Delete {
		for _, entry := range c.Entries {
			args = append(args, entry)
		}
	}
	tries, outcome := 0, int64(0)
	err := s.connection.retryOnce(ctx, func() (err error) {
		tries++
		outcome, err = changeScript.Run(ctx, s.connection.client, s.keysOf(key), args...).Int64()
		return err
	})
	switch {
	case err != nil:
		return false, err
	case outcome == changeTooLong:
		return false, fmt.Errorf("%w: the log has no room for %d more entries; the limit is %d", store.ErrTooLarge, len(c.Entries), store.MaxLength)
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
	ctx, done := s.connection.begin(ctx)
	defer done()
	var texts []string
	err = s.connection.retryOnce(ctx, func() (err error) {
		texts, err = readScript.Run(ctx, s.connection.client, []string{s.options.Prefix + key}, from, limit, store.MaxReadBytes).StringSlice()
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
		within, done := s.connection.begin(ctx) // timeout for one step; the caller's context limits the whole scan
		var found []string
		var next uint64
		err := s.connection.retryOnce(within, func() (err error) {
			found, next, err = s.connection.client.Scan(within, cursor, pattern, scanAtOnce).Result()
			return err
		})
		done()
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
