package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// digests are those of the options of the app and its handlers.
type digests struct {
	mu  sync.Mutex
	all []string
}

// AddDigest adds the options of a handler to the digest of the configuration. The handler calls it before it loads its modules.
func (d *digests) AddDigest(handler any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, digestOf(handler))
}

// Digest returns the SHA-256 digest of the configuration. It is complete when the app starts.
func (d *digests) Digest() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.all) // Caddy provisions servers in a random order
	return digestOf(d.all)
}

// digestOf returns the digest of the type and the JSON of a value.
func digestOf(value any) string {
	options, _ := json.Marshal(value) // Caddy has read the options from JSON
	sum := sha256.Sum256(fmt.Appendf(options, "%T", value))
	return hex.EncodeToString(sum[:])
}
