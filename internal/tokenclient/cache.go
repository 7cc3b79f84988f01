package tokenclient

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fairwayhq/fairway/internal/share"
)

const (
	// unknownLifetime is how long a token is used whose server does not say when it expires.
	unknownLifetime = 5 * time.Minute

	// margin is the time before its end in which a token is not used.
	margin = 15 * time.Second

	// maxCached limits the tokens in a cache, in bytes. Most tokens have less than 2 KiB, so that is the room for those of
	// about 15,000 users.
	maxCached = 32 << 20

	// entrySize is what an entry needs beside its token, in bytes.
	entrySize = 512

	// purged is the number of the oldest entries that are checked with each new one.
	purged = 4
)

// A CacheKey identifies a token: the subject and the parameters.
type CacheKey [sha256.Size]byte

// A Cache keeps tokens until shortly before they expire. Its room is shared among users. It is safe for concurrent use.
type Cache struct {
	flights singleflight.Group
	bound   *share.Bound

	mu     sync.Mutex
	byKey  map[CacheKey]*list.Element // of *entry
	oldest list.List
}

type entry struct {
	key   CacheKey
	owner share.Owner
	value string
	until time.Time
}

func (e *entry) size() int64 { return int64(len(e.value) + entrySize) }

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{bound: share.NewBound(share.Options{Name: "tokens for APIs", Limit: maxCached}), byKey: make(map[CacheKey]*list.Element)}
}

// Get returns the token of the key. If there is none, fetch gets one; callers with the same key wait for the same fetch,
// which continues if they stop waiting. The token is not used after its Until, if that is set.
func (c *Cache) Get(ctx context.Context, key CacheKey, owner share.Owner, fetch func(context.Context) (*Token, error)) (string, error) {
	if value, ok := c.get(key); ok {
		return value, nil
	}
	detached := context.WithoutCancel(ctx)
	flight := c.flights.DoChan(string(key[:]), func() (any, error) {
		if value, ok := c.get(key); ok { // of a flight that ended in the meantime
			return value, nil
		}
		got, err := fetch(detached)
		if err != nil {
			return "", err
		}
		c.put(&entry{key: key, owner: owner, value: got.Value, until: end(got.Expires, got.Until)})
		return got.Value, nil
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case result := <-flight:
		return result.Val.(string), result.Err
	}
}

// end returns when a token must not be used any more.
func end(expires, until time.Time) time.Time {
	if expires.IsZero() {
		expires = time.Now().Add(unknownLifetime)
	}
	if !until.IsZero() && until.Before(expires) {
		expires = until
	}
	return expires.Add(-margin)
}

// Drop removes a token that an API has refused, unless another one has replaced it.
func (c *Cache) Drop(key CacheKey, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil && at.Value.(*entry).value == value {
		c.remove(at)
	}
}

func (c *Cache) get(key CacheKey) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[key]
	if at == nil {
		return "", false
	}
	e := at.Value.(*entry)
	if !time.Now().Before(e.until) {
		c.remove(at)
		return "", false
	}
	return e.value, true
}

// put keeps a token if there is room for its owner. Others are dropped as package share says.
func (c *Cache) put(e *entry) {
	if !time.Now().Before(e.until) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[e.key]; at != nil {
		c.remove(at)
	}
	for range purged {
		if at := c.oldest.Front(); at != nil && !time.Now().Before(at.Value.(*entry).until) {
			c.remove(at)
		}
	}
	for {
		full, isFull := errors.AsType[*share.FullError](c.bound.Take(e.owner, e.size()))
		if !isFull {
			break
		}
		owner, found := c.bound.Yields(full, func(share.Owner) bool { return true })
		if !found || !c.removeOldest(owner) {
			return
		}
	}
	c.byKey[e.key] = c.oldest.PushBack(e)
}

// removeOldest removes the oldest token of an owner.
func (c *Cache) removeOldest(owner share.Owner) bool {
	for at := c.oldest.Front(); at != nil; at = at.Next() {
		if at.Value.(*entry).owner == owner {
			c.remove(at)
			return true
		}
	}
	return false
}

func (c *Cache) remove(at *list.Element) {
	e := c.oldest.Remove(at).(*entry)
	delete(c.byKey, e.key)
	c.bound.Give(e.owner, e.size())
}

// KeyOf returns the key of a token for the subject. The digest is that of the parameters.
func KeyOf(subject string, parameters [sha256.Size]byte) CacheKey {
	const usual = 2 << 10 // of a subject, in bytes; the buffer is then on the stack
	return sha256.Sum256(append(append(make([]byte, 0, sha256.Size+usual), parameters[:]...), subject...))
}
