package ocp

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxCachedSessions is how many decoded sessions one generation of a cache
	// holds; there are two.
	maxCachedSessions = 128

	// maxCachedJSON is the size, in bytes, up to which a session's JSON is kept.
	maxCachedJSON = 32 << 10
)

// A SessionCache keeps the sessions that were decoded last: an agent that makes
// several requests at once, or has nothing new to say, sends the same one again,
// and a tool call passes the same one twice. Sessions are found by their whole
// value, so that nobody gets what he has not sent. The zero value is ready for
// use; it holds at most 256 sessions, of which none has more than 32 KB of JSON.
type SessionCache struct {
	mu       sync.Mutex
	young    map[sessionKey]*decodedSession
	old      map[sessionKey]*decodedSession // was young before
	decoding func()                         // called for each session that has to be decoded; for tests

	inflations atomic.Int64
}

// Inflations returns how many sessions have been decompressed with this cache in their
// ReadOptions. A session found in the cache is not decompressed again.
func (c *SessionCache) Inflations() int64 {
	return c.inflations.Load()
}

// sessionKey is all that a decoded session depends on.
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
		key.encoded = strings.Clone(encoded) // not the whole header that it came in
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

// put adds a session; a generation that is full becomes the old one.
func (c *SessionCache) put(key sessionKey, d *decodedSession) {
	if len(c.young) >= maxCachedSessions {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[sessionKey]*decodedSession)
	}
	c.young[key] = d
}
