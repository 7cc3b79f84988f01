// Package session holds what clients and server share beyond one request of MCP: signed session ids, and
// the state of sessions that are in use.
//
// The server stores no sessions. A Signer writes all fields of a Session into its id, so every server
// with the same secret can resume it. States has a State for each session only while the session is in
// use: requests in progress, requests of the server that wait for a response, and subscriptions. It also
// remembers which sessions have ended until they expire.
package session

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
)

// A Session is what initialize has negotiated. The server stores nothing: the session id contains
// all fields, signed, so every server with the same secret can read it.
type Session struct {
	Key     Key
	Version revision.Revision
	Client  elicit.Capabilities
	Expires time.Time
	Lists   subscription.Digests // lists when the session began
}

// A Key identifies a session.
type Key [12]byte

// Layout of a session id before Base64 encoding: format (1 byte), revision (1), capabilities (2),
// expiry in Unix seconds (4), digests of the lists, key, and the first idMAC bytes of an
// HMAC-SHA256 over all of that and the user.
const (
	idFormat  = 2
	idKeyAt   = 1 + 1 + 2 + 4 + subscription.DigestSize
	idPayload = idKeyAt + len(Key{})
	idMAC     = 16
	IDLength  = (idPayload + idMAC) * 4 / 3
)

// Reasons why a session is rejected.
var (
	ErrForeign = errors.New("was issued by another server or for another user")
	ErrExpired = errors.New("has expired")
	ErrEnded   = errors.New("has ended")
)

// A Signer creates and verifies session ids. Its sealer encrypts state that clients store for the
// server.
type Signer struct {
	macs   sync.Pool // pool of hash.Hash
	Sealer *elicit.Sealer
}

// NewSigner returns a Signer for a secret. If the secret is empty, it uses a random one.
func NewSigner(secret []byte) *Signer {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never returns an error
	}
	derive := func(purpose string) []byte {
		key, err := hkdf.Key(sha256.New, secret, nil, "fairway mcp "+purpose, sha256.Size)
		if err != nil {
			panic(err) // cannot happen: the length is valid
		}
		return key
	}
	g := &Signer{Sealer: elicit.NewSealer(derive("request state"))}
	key := derive("session")
	g.macs.New = func() any { return hmac.New(sha256.New, key) }
	return g
}

// Issue returns the id of a new session.
func (g *Signer) Issue(v revision.Revision, client elicit.Capabilities, lists subscription.Digests, user string, expires time.Time) string {
	raw := make([]byte, 0, idPayload+idMAC)
	raw = append(raw, idFormat, byte(v))
	raw = binary.BigEndian.AppendUint16(raw, uint16(client))
	raw = binary.BigEndian.AppendUint32(raw, uint32(expires.Unix()))
	raw = lists.AppendTo(raw)
	raw = raw[:idPayload]
	_, _ = rand.Read(raw[idKeyAt:])
	return base64.RawURLEncoding.EncodeToString(g.sign(raw, raw, user))
}

// sign appends the MAC of the payload and the user.
func (g *Signer) sign(dst, payload []byte, user string) []byte {
	mac := g.macs.Get().(hash.Hash)
	defer g.macs.Put(mac)
	mac.Reset()
	mac.Write(payload)
	mac.Write([]byte(user))
	var sum [sha256.Size]byte
	return append(dst, mac.Sum(sum[:0])[:idMAC]...)
}

// Open verifies a session id for a user and returns its session.
func (g *Signer) Open(id, user string, now time.Time) (Session, error) {
	var raw [idPayload + idMAC]byte
	if len(id) != IDLength {
		return Session{}, ErrForeign
	}
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(id)); err != nil || n != len(raw) {
		return Session{}, ErrForeign
	}
	var signed [idMAC]byte
	payload := raw[:idPayload]
	if !hmac.Equal(g.sign(signed[:0], payload, user), raw[idPayload:]) || raw[0] != idFormat {
		return Session{}, ErrForeign
	}
	s := Session{
		Version: revision.Revision(raw[1]),
		Client:  elicit.Capabilities(binary.BigEndian.Uint16(raw[2:])),
		Expires: time.Unix(int64(binary.BigEndian.Uint32(raw[4:])), 0),
		Lists:   subscription.ReadDigests(raw[8:]),
	}
	copy(s.Key[:], raw[idKeyAt:])
	if !now.Before(s.Expires) {
		return Session{}, ErrExpired
	}
	return s, nil
}
