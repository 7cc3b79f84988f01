package otcadapter

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/store"
)

// Records are found by keyed hashes and contain a keyed hash of the call's content. Without the
// key, the caller, tokens and secrets can be neither read nor guessed from them.
const (
	keySize      = 32               // bytes
	keyAt        = "otc/key"        // where the store keeps the key that all nodes share
	keyRefreshed = time.Minute      // how long a key is used before it is read from the store again
	recordPrefix = "otc/call/"      // prefix of the key of each record
	keyLife      = store.MaxTTL - 1 // lifetime of the key in the store
)

// A hashKey is the key of the hashes.
type hashKey struct {
	bytes  []byte
	loaded time.Time
	idle   sync.Pool // of hash.Hash; creating one costs more than using it
}

// newHashKey returns a hashKey that was loaded now.
func newHashKey(key []byte) *hashKey {
	k := &hashKey{bytes: key, loaded: time.Now()}
	k.idle.New = func() any { return hmac.New(sha256.New, key) }
	return k
}

// hashKeys provides the key: the operator's, or a random one from the store.
type hashKeys struct {
	configured *hashKey // nil if none is configured
	current    atomic.Pointer[hashKey]
}

// key returns the key and creates it in the store if necessary.
func (h *hashKeys) key(ctx context.Context, st store.Store) (*hashKey, error) {
	if h.configured != nil {
		return h.configured, nil
	}
	had := h.current.Load()
	if had != nil && time.Since(had.loaded) < keyRefreshed {
		return had, nil
	}
	var key []byte
	err := st.Update(ctx, keyAt, func(old store.Record) (store.Change, error) {
		if key = bytes.Clone(old.Value); len(key) != keySize {
			key = had.orRandom()
		}
		return store.Change{Value: key, TTL: keyLife, Later: had != nil}, nil
	})
	if err != nil {
		return nil, err
	}
	fresh := newHashKey(key)
	h.current.Store(fresh)
	return fresh, nil
}

// orRandom returns the key to save if the store has none. A store that lost its key gets this
// node's key back, so that the node still finds its records.
func (k *hashKey) orRandom() []byte {
	if k != nil {
		return k.bytes
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// A hasher hashes lists of fields. Different lists never produce the same input of the hash.
type hasher struct {
	hash.Hash
	key *hashKey
}

// hasher returns a hasher for a purpose. Hashes for different purposes are unrelated.
func (k *hashKey) hasher(purpose string) hasher {
	h := hasher{k.idle.Get().(hash.Hash), k}
	h.Reset()
	h.add(purpose)
	return h
}

// add adds a field, preceded by its length.
func (h hasher) add(field string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	_, _ = h.Write(length[:])
	_, _ = h.Write([]byte(field))
}

// sum returns the hash and releases the hasher.
func (h hasher) sum() (d digest) {
	h.Sum(d[:0])
	h.key.idle.Put(h.Hash)
	return d
}

// recordKey returns the key of the call's record. There is one record for each call_id of one
// user at one endpoint. Callers that the site has not authenticated are distinguished by their
// credentials for the API.
func recordKey(key *hashKey, endpoint, user string, r *http.Request, c *call) string {
	h := key.hasher("record")
	h.add(endpoint)
	h.add(hostOf(r))
	h.add(user)
	if user == "" {
		h.addCredentials(r.Header, c.keyHeaders)
	}
	h.add(c.callID)
	sum := h.sum()
	return recordPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// addCredentials adds the credentials that authenticate a caller to the API: the header
// Authorization, and the headers in which the API takes keys.
func (h hasher) addCredentials(header http.Header, keyHeaders []string) {
	h.add(header.Get("Authorization"))
	for _, name := range keyHeaders {
		if value := header.Get(name); value != "" {
			h.add(name)
			h.add(value)
		}
	}
}

// CallerHashes distinguishes callers that the site has not authenticated. It hashes the
// credentials that they send for the API. The hash uses the same key as call records, which is
// in the store, so hashes are equal on every node and after a restart. The zero value is ready
// for use.
type CallerHashes struct{ keys hashKeys }

// callerHashSize is the number of bytes of a hash that are used.
const callerHashSize = 16

// Of returns the hash of the credentials in a request's header: Authorization and the headers
// in keyHeaders, which must be canonical and sorted. Further contains other credentials as
// pairs of a name and a value. The credentials cannot be recovered from the hash.
func (c *CallerHashes) Of(ctx context.Context, st store.Store, header http.Header, keyHeaders, further []string) (string, error) {
	key, err := c.keys.key(ctx, st)
	if err != nil {
		return "", err
	}
	h := key.hasher("caller")
	h.addCredentials(header, keyHeaders)
	for _, field := range further {
		h.add(field)
	}
	sum := h.sum()
	return base64.RawURLEncoding.EncodeToString(sum[:callerHashSize]), nil
}

// hostOf returns the site's host name without the port, because nodes of one site may have
// different ports. Records of one site are not valid for another.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// contentOf hashes what two requests must have in common to be the same call: the tool, its
// input, its context, and the cookies of an unauthenticated caller. Tracing headers and the
// form of the response (recast) are not included.
func contentOf(key *hashKey, user string, r *http.Request, c *call) digest {
	h := key.hasher("content")
	h.add(string(c.kit.appendID(nil, c.tool.Name)))
	h.add(canonical(c.input))
	h.add(canonical(c.context.raw))
	if user == "" {
		for _, cookie := range r.Header["Cookie"] {
			h.add(cookie)
		}
	}
	return h.sum()
}

// canonical returns JSON without white space and with sorted members. Null is treated as an
// empty object.
func canonical(value jsontext.Value) string {
	if isNull(value) {
		return "{}"
	}
	value = value.Clone()
	err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return string(value)
	}
	return string(value)
}
