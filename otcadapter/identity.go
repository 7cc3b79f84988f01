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

// Records are found by keyed hashes, and hold one of what was called: neither who
// called nor a token or secret can be read out of them, or guessed without the
// key.
const (
	keySize      = 32               // bytes
	keyAt        = "otc/key"        // where the store has the key of all nodes
	keyRefreshed = time.Minute      // how long a key is used before the store is asked for it again
	recordPrefix = "otc/call/"      // before the key of each record
	keyLife      = store.MaxTTL - 1 // of its record
)

// A hashKey is the key of the hashes.
type hashKey struct {
	bytes  []byte
	loaded time.Time
	idle   sync.Pool // of hash.Hash, as setting one up costs more than using it
}

func newHashKey(key []byte) *hashKey {
	k := &hashKey{bytes: key, loaded: time.Now()}
	k.idle.New = func() any { return hmac.New(sha256.New, key) }
	return k
}

// hashKeys finds the key: the operator's, or a random one that the store keeps.
type hashKeys struct {
	configured *hashKey // nil if there is none
	current    atomic.Pointer[hashKey]
}

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

// orRandom returns the key to put where the store has none. A store that has lost
// it gets back the one by which this node still finds its records.
func (k *hashKey) orRandom() []byte {
	if k != nil {
		return k.bytes
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// A hasher hashes fields so that no two lists of fields give the same bytes.
type hasher struct {
	hash.Hash
	key *hashKey
}

func (k *hashKey) hasher(purpose string) hasher {
	h := hasher{k.idle.Get().(hash.Hash), k}
	h.Reset()
	h.add(purpose)
	return h
}

func (h hasher) add(field string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	_, _ = h.Write(length[:])
	_, _ = h.Write([]byte(field))
}

// sum ends the hasher.
func (h hasher) sum() (d digest) {
	h.Sum(d[:0])
	h.key.idle.Put(h.Hash)
	return d
}

// recordKey returns where the record of the call is: at one place for one call_id
// of one user at one endpoint. Who has not been authenticated here, but
// identifies to the API, is told apart by that.
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

// addCredentials adds the credentials by which a caller identifies to the API: the
// header Authorization, and those in which the API takes keys.
func (h hasher) addCredentials(header http.Header, keyHeaders []string) {
	h.add(header.Get("Authorization"))
	for _, name := range keyHeaders {
		if value := header.Get(name); value != "" {
			h.add(name)
			h.add(value)
		}
	}
}

// CallerHashes tell apart callers whom the site has not authenticated, by a keyed hash
// of the credentials that they bring for the API. The key is the one that hashes call
// records, which the store keeps: hashes are the same on every node, and after a
// restart. The zero value is ready for use.
type CallerHashes struct{ keys hashKeys }

// callerHashSize is how many bytes of a hash are used.
const callerHashSize = 16

// Of returns the hash of the credentials in a request's header: Authorization and the
// headers of these names, canonical and sorted. Further are other credentials, in
// pairs of a name and a value. Nothing of the credentials can be read out of the hash.
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

// hostOf returns the site's host name: records of one site are not for another.
// Nodes of one site may have different ports.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// contentOf hashes what makes a call the same call: the tool, its input and its
// context, and the cookies of who has not been authenticated. What traces a call
// is no part of it, nor is the form in which it is answered (recast).
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

// canonical writes JSON without spaces and with sorted members. Nothing is the
// same as an empty object.
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
