package oauth

import (
	"crypto/sha256"
	"sync"
)

// maxRemembered is how many tokens one generation of the cache has at most.
const maxRemembered = 2048

// remembered is a token that was good, and the keys that were in force then: once
// an issuer has other keys, all its tokens are looked at afresh.
type remembered struct {
	token *Token
	keys  *keySet
}

// cache remembers verified tokens by their hash. It has two generations: when
// the younger is full it becomes the elder, and what was not asked for since is
// forgotten.
type cache struct {
	mu             sync.RWMutex
	younger, elder map[[sha256.Size]byte]remembered
}

func (c *cache) get(hash [sha256.Size]byte) (remembered, bool) {
	c.mu.RLock()
	found, ok := c.younger[hash]
	if !ok {
		found, ok = c.elder[hash]
		c.mu.RUnlock()
		if ok {
			c.put(hash, found)
		}
		return found, ok
	}
	c.mu.RUnlock()
	return found, ok
}

func (c *cache) put(hash [sha256.Size]byte, r remembered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.younger) >= maxRemembered {
		c.elder, c.younger = c.younger, nil
	}
	if c.younger == nil {
		c.younger = make(map[[sha256.Size]byte]remembered)
	}
	c.younger[hash] = r
}

// forget drops a token that is good no more.
func (c *cache) forget(hash [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.younger, hash)
	delete(c.elder, hash)
}
