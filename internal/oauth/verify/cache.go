package verify

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// maxRemembered limits the number of tokens in one generation of the cache.
const maxRemembered = 2048

// remembered is a verified token, and the key set that was current then. When an issuer has a
// new key set, all of its tokens are verified again. Of an introspected token, until is set instead of keys.
type remembered struct {
	token *oauth.Token // nil if the introspection endpoint has rejected it
	keys  *keySet
	until time.Time
}

// cache holds verified tokens by their hash. It has two generations. When the younger one is
// full, it becomes the elder one, and tokens that were not used since are dropped.
type cache struct {
	mu            sync.RWMutex
	recent, older map[[sha256.Size]byte]remembered
}

// get returns a token and moves it to the younger generation.
func (c *cache) get(hash [sha256.Size]byte) (remembered, bool) {
	c.mu.RLock()
	found, ok := c.recent[hash]
	if !ok {
		found, ok = c.older[hash]
		c.mu.RUnlock()
		if ok {
			c.put(hash, found)
		}
		return found, ok
	}
	c.mu.RUnlock()
	return found, ok
}

// put adds a token to the younger generation.
func (c *cache) put(hash [sha256.Size]byte, r remembered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxRemembered {
		c.older, c.recent = c.recent, nil
	}
	if c.recent == nil {
		c.recent = make(map[[sha256.Size]byte]remembered)
	}
	c.recent[hash] = r
}

// forget drops a token that is no longer valid.
func (c *cache) forget(hash [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recent, hash)
	delete(c.older, hash)
}
