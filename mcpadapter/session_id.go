package mcpadapter

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

// A session is what initialize has negotiated. The server stores nothing: the session id contains
// all fields, signed, so every server with the same secret can read it.
type session struct {
	key     sessionKey
	version revision.Revision
	client  elicit.Capabilities
	expires time.Time
	lists   subscription.Digests // lists when the session began
}

// A sessionKey identifies a session.
type sessionKey [12]byte

// Layout of a session id before Base64 encoding: format (1 byte), revision (1), capabilities (2),
// expiry in Unix seconds (4), digests of the lists, key, and the first sessionMAC bytes of an
// HMAC-SHA256 over all of that and the user.
const (
	sessionFormat  = 2
	sessionKeyAt   = 1 + 1 + 2 + 4 + subscription.DigestSize
	sessionPayload = sessionKeyAt + len(sessionKey{})
	sessionMAC     = 16
	sessionLength  = (sessionPayload + sessionMAC) * 4 / 3
)

// Reasons why a session id is rejected.
var (
	errForeignSession = errors.New("is not of this server, or of another user")
	errExpiredSession = errors.New("has expired")
	errEndedSession   = errors.New("has been ended")
)

// A signer creates and verifies session ids. Its sealer encrypts state that clients store for the
// server.
type signer struct {
	macs   sync.Pool // pool of hash.Hash
	sealer *elicit.Sealer
}

// newSigner returns a signer for a secret. If the secret is empty, it uses a random one.
func newSigner(secret []byte) *signer {
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
	g := &signer{sealer: elicit.NewSealer(derive("request state"))}
	key := derive("session")
	g.macs.New = func() any { return hmac.New(sha256.New, key) }
	return g
}

// issue returns the id of a new session.
func (g *signer) issue(v revision.Revision, client elicit.Capabilities, lists subscription.Digests, user string, expires time.Time) string {
	raw := make([]byte, 0, sessionPayload+sessionMAC)
	raw = append(raw, sessionFormat, byte(v))
	raw = binary.BigEndian.AppendUint16(raw, uint16(client))
	raw = binary.BigEndian.AppendUint32(raw, uint32(expires.Unix()))
	raw = lists.AppendTo(raw)
	raw = raw[:sessionPayload]
	_, _ = rand.Read(raw[sessionKeyAt:])
	return base64.RawURLEncoding.EncodeToString(g.sign(raw, raw, user))
}

// sign appends the MAC of the payload and the user.
func (g *signer) sign(dst, payload []byte, user string) []byte {
	mac := g.macs.Get().(hash.Hash)
	defer g.macs.Put(mac)
	mac.Reset()
	mac.Write(payload)
	mac.Write([]byte(user))
	var sum [sha256.Size]byte
	return append(dst, mac.Sum(sum[:0])[:sessionMAC]...)
}

// open verifies a session id for a user and returns its session.
func (g *signer) open(id, user string, now time.Time) (session, error) {
	var raw [sessionPayload + sessionMAC]byte
	if len(id) != sessionLength {
		return session{}, errForeignSession
	}
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(id)); err != nil || n != len(raw) {
		return session{}, errForeignSession
	}
	var signed [sessionMAC]byte
	payload := raw[:sessionPayload]
	if !hmac.Equal(g.sign(signed[:0], payload, user), raw[sessionPayload:]) || raw[0] != sessionFormat {
		return session{}, errForeignSession
	}
	s := session{
		version: revision.Revision(raw[1]),
		client:  elicit.Capabilities(binary.BigEndian.Uint16(raw[2:])),
		expires: time.Unix(int64(binary.BigEndian.Uint32(raw[4:])), 0),
		lists:   subscription.ReadDigests(raw[8:]),
	}
	copy(s.key[:], raw[sessionKeyAt:])
	if !now.Before(s.expires) {
		return session{}, errExpiredSession
	}
	return s, nil
}
