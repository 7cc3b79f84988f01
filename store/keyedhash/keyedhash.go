// Package keyedhash hashes values with a secret key that all nodes of a site share
// (HMAC-SHA-256). Without the key, no one can guess a hashed value, such as a caller's token, by
// hashing candidates.
//
// Keys provides the key: the operator's, or a random one that the first node creates in the
// store. A Key hashes a list of fields for one purpose. Hashes for different purposes are
// unrelated, and different lists never have the same hash.
//
// Two users of the package share one key: package tools/once finds the record of a
// call by such hashes, and Callers distinguishes callers that the site has not authenticated.
package keyedhash

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	keySize     = 32               // bytes
	keyRecord   = "otc/key"        // the record of the store that has the key
	keyReload   = time.Minute      // how long a key is used before it is read from the store again
	keyLifetime = store.MaxTTL - 1 // in the store, after the last use by a node
)

// A Digest is a keyed hash.
type Digest [sha256.Size]byte

// A Key hashes values. It is safe for concurrent use.
type Key struct {
	secret []byte
	loaded time.Time
	hashes sync.Pool // of *state; creating one costs more than using it
}

// newKey returns a Key that was loaded now.
func newKey(secret []byte) *Key {
	k := &Key{secret: secret, loaded: time.Now()}
	k.hashes.New = func() any { return &state{hash: hmac.New(sha256.New, secret)} }
	return k
}

// Keys provides the current key. The zero value uses a random key from the store.
type Keys struct {
	configured *Key // nil if the operator has configured none
	current    atomic.Pointer[Key]
}

// NewKeys returns Keys that use the secret. If it is empty, they use a random key from the store.
func NewKeys(secret []byte) *Keys {
	k := new(Keys)
	if len(secret) > 0 {
		k.configured = newKey(secret)
	}
	return k
}

// Current returns the key, and creates it in the store if necessary.
func (k *Keys) Current(ctx context.Context, st store.Store) (*Key, error) {
	if k.configured != nil {
		return k.configured, nil
	}
	previous := k.current.Load()
	if previous != nil && time.Since(previous.loaded) < keyReload {
		return previous, nil
	}
	var secret []byte
	err := st.Update(ctx, keyRecord, func(old store.Record) (store.Change, error) {
		if secret = bytes.Clone(old.Value); len(secret) != keySize {
			secret = previous.secretOrRandom()
		}
		return store.Change{Value: secret, TTL: keyLifetime, Async: previous != nil}, nil
	})
	if err != nil {
		return nil, err
	}
	loaded := newKey(secret)
	k.current.Store(loaded)
	return loaded, nil
}

// secretOrRandom returns the secret to save if the store has none. A store that lost its key
// gets this node's key back, so that the node still finds its records.
func (k *Key) secretOrRandom() []byte {
	if k != nil {
		return k.secret
	}
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// state is a reusable hash.
type state struct {
	hash  hash.Hash
	chunk [512]byte // storage for a part of a field, since a hash does not take strings
}

// A Hash is a hash in progress. Every Hash must end with Digest.
type Hash struct {
	state *state
	key   *Key
}

// Hash starts a hash for a purpose.
func (k *Key) Hash(purpose string) Hash {
	h := Hash{k.hashes.Get().(*state), k}
	h.state.hash.Reset()
	h.Add(purpose)
	return h
}

// Add adds a field, preceded by its length.
func (h Hash) Add(field string) {
	h.addLength(len(field))
	for len(field) > 0 {
		n := copy(h.state.chunk[:], field)
		_, _ = h.state.hash.Write(h.state.chunk[:n])
		field = field[n:]
	}
}

// AddBytes adds a field, preceded by its length.
func (h Hash) AddBytes(field []byte) {
	h.addLength(len(field))
	_, _ = h.state.hash.Write(field)
}

func (h Hash) addLength(n int) {
	_, _ = h.state.hash.Write(binary.BigEndian.AppendUint64(h.state.chunk[:0], uint64(n)))
}

// AddCredentials adds the credentials that authenticate a caller to the API: the header
// Authorization, and the headers in which the API takes keys.
func (h Hash) AddCredentials(header http.Header, keyHeaders []string) {
	h.Add(header.Get("Authorization"))
	for _, name := range keyHeaders {
		if value := header.Get(name); value != "" {
			h.Add(name)
			h.Add(value)
		}
	}
}

// Digest returns the hash and ends it.
func (h Hash) Digest() (d Digest) {
	copy(d[:], h.state.hash.Sum(h.state.chunk[:0]))
	clear(h.state.chunk[:]) // parts of credentials
	h.key.hashes.Put(h.state)
	return d
}

// Callers distinguishes callers that the site has not authenticated. It hashes the credentials
// that they send for the API. The key of the hash is in the store, so hashes are equal on every
// node and after a restart. The zero value is ready for use.
type Callers struct{ keys Keys }

// callerHashSize is the number of bytes of a hash that are used.
const callerHashSize = 16

// Hash returns the hash of the credentials in a request's header: Authorization and the headers
// in keyHeaders, which must be canonical and sorted. Further contains other credentials as pairs
// of a name and a value. The credentials cannot be recovered from the hash.
func (c *Callers) Hash(ctx context.Context, st store.Store, header http.Header, keyHeaders, further []string) (string, error) {
	key, err := c.keys.Current(ctx, st)
	if err != nil {
		return "", err
	}
	h := key.Hash("caller")
	h.AddCredentials(header, keyHeaders)
	for _, field := range further {
		h.Add(field)
	}
	digest := h.Digest()
	return base64.RawURLEncoding.EncodeToString(digest[:callerHashSize]), nil
}
