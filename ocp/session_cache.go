package ocp

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxCachedSessions is the largest number of decoded sessions in one generation of a
	// cache. A cache has two generations.
	maxCachedSessions = 128

	// maxCachedJSON is the maximum size of a cached session's JSON, in bytes.
	maxCachedJSON = 32 << 10
)

// A SessionCache keeps the most recently decoded sessions. The same session often comes
// again: an agent sends it with parallel requests or when nothing has changed, and a tool
// call reads it twice. The key is the whole value of the session, so a client can only get
// the content of a value that it has sent. The zero value is ready for use. It holds at
// most 256 sessions with at most 32 KB of JSON each.
type SessionCache struct {
	mu       sync.Mutex
	young    map[sessionKey]*decodedSession
	old      map[sessionKey]*decodedSession // the previous generation
	decoding func()                         // called for each session that is decoded; for tests

	inflations atomic.Int64
}

// Inflations returns how many sessions have been decompressed with this cache in their
// ReadOptions. A session found in the cache is not decompressed again.
func (c *SessionCache) Inflations() int64 {
	return c.inflations.Load()
}

// sessionKey is everything that a decoded session depends on.
type sessionKey struct {
	encoded     string
	strict      bool
	maxInflated int
}

func (c *SessionCache) open(encoded string, options ReadOptions) *decodedSession {
	key := sessionKey{encoded, options.Strict, options.maxInflated()}
	if found := c.get(key); found != nil {
		return found
	}
	if c.decoding != nil {
		c.decoding()
	}
	d := openSession(encoded, options)
	if len(d.fields.all) <= maxCachedJSON {
		key.encoded = strings.Clone(encoded) // the copy does not keep the whole header in memory
		c.mu.Lock()
		c.put(key, d)
		c.mu.Unlock()
	}
	return d
}

func (c *SessionCache) get(key sessionKey) *decodedSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.young[key]; found != nil {
		return found
	}
	found := c.old[key]
	if found != nil {
		c.put(key, found)
	}
	return found
}

// put adds a session. If the young generation is full, it becomes the old one.
func (c *SessionCache) put(key sessionKey, d *decodedSession) {
	if len(c.young) >= maxCachedSessions {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[sessionKey]*decodedSession)
	}
	c.young[key] = d
}
