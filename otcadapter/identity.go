package otcadapter

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"net/textproto"
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
	keyRefreshed = 24 * time.Hour   // the record of the key is prolonged this often
	recordPrefix = "otc/call/"      // before the key of each record
	keyLife      = store.MaxTTL - 1 // of its record
)

// A hashKey is the key of the hashes.
type hashKey struct {
	bytes  []byte
	loaded time.Time
}

// hashKeys finds the key: the operator's, or a random one that the store keeps.
type hashKeys struct {
	configured []byte
	current    atomic.Pointer[hashKey]
}

func (h *hashKeys) key(ctx context.Context, st store.Store) ([]byte, error) {
	if h.configured != nil {
		return h.configured, nil
	}
	current := h.current.Load()
	if current != nil && time.Since(current.loaded) < keyRefreshed {
		return current.bytes, nil
	}
	fresh := &hashKey{loaded: time.Now()}
	err := st.Update(ctx, keyAt, func(old store.Record) (store.Change, error) {
		fresh.bytes = old.Value
		if len(fresh.bytes) != keySize {
			fresh.bytes = make([]byte, keySize)
			_, _ = rand.Read(fresh.bytes) // never fails
		}
		return store.Change{Value: fresh.bytes, TTL: keyLife}, nil
	})
	if err != nil {
		return nil, err
	}
	h.current.Store(fresh)
	return fresh.bytes, nil
}

// A hasher hashes fields so that no two lists of fields give the same bytes.
type hasher struct {
	mac interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
}

func newHasher(key []byte, purpose string) hasher {
	h := hasher{hmac.New(sha256.New, key)}
	h.add(purpose)
	return h
}

func (h hasher) add(field string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	_, _ = h.mac.Write(length[:])
	_, _ = h.mac.Write([]byte(field))
}

func (h hasher) sum() (d digest) {
	h.mac.Sum(d[:0])
	return d
}

// recordKey returns where the record of the call is: at one place for one call_id
// of one user at one endpoint. Who has not been authenticated here, but
// identifies to the API, is told apart by that.
func recordKey(key []byte, endpoint, user string, r *http.Request, c *call) string {
	h := newHasher(key, "record")
	h.add(endpoint)
	h.add(hostOf(r))
	h.add(user)
	if user == "" {
		h.add(r.Header.Get("Authorization"))
		for _, all := range c.tool.requirements {
			for _, need := range all {
				if s := need.scheme; s.Type == "apiKey" && s.In == "header" {
					h.add(r.Header.Get(textproto.CanonicalMIMEHeaderKey(s.ParameterName)))
				}
			}
		}
	}
	h.add(c.callID)
	sum := h.sum()
	return recordPrefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// hostOf returns the site's host name: records of one site are not for another.
// Nodes of one site may have different ports.
func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}

// contentOf hashes what makes a call the same call: the tool, its input and its
// context, in which form it is answered, and the cookies of who has not been
// authenticated. What traces a call is no part of it.
func contentOf(key []byte, user string, r *http.Request, c *call) digest {
	h := newHasher(key, "content")
	h.add(c.form.schema)
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
