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
	"net/http"
	"sync"
	"time"
)

// DefaultSessionTTL is how long the session of a client that began with
// initialize lasts. It then begins a new one, which clients do by themselves.
const DefaultSessionTTL = 24 * time.Hour

// sessionHeader carries the id of a session (MCP 2025-03-26 to 2025-11-25,
// Streamable HTTP, Session Management), in canonical form.
const sessionHeader = "Mcp-Session-Id"

// A session is what a client settled with initialize. Nothing is stored: its id
// carries all of it, signed, so that every server that has the secret knows it.
type session struct {
	key     sessionKey
	version revision
	client  capabilities
	expires time.Time
	lists   listDigests // when the session began
}

// A sessionKey tells sessions apart.
type sessionKey [12]byte

// The layout of an id before it is written in Base64: format, revision,
// capabilities, expiry in Unix seconds, the digests of the lists, key, and the first
// bytes of an HMAC-SHA256 over all that and the user.
const (
	sessionFormat  = 2
	sessionKeyAt   = 1 + 1 + 2 + 4 + listDigestSize
	sessionPayload = sessionKeyAt + len(sessionKey{})
	sessionMAC     = 16
	sessionLength  = (sessionPayload + sessionMAC) * 4 / 3
)

// What is wrong with the id of a session.
var (
	errForeignSession = errors.New("is not of this server, or of another user")
	errExpiredSession = errors.New("has expired")
	errEndedSession   = errors.New("has been ended")
)

// A signer makes and checks the ids of sessions, and seals what clients keep for
// the server (seal.go).
type signer struct {
	macs  sync.Pool // of hash.Hash
	state []byte    // the key of sealed states
}

// newSigner returns the signer for the secret that the options have or load.
func (o *Options) newSigner() *signer {
	secret := o.Secret
	if len(secret) == 0 && o.LoadSecret != nil {
		secret = o.LoadSecret()
	}
	return newSigner(secret)
}

// newSigner returns the signer for a secret; without one, for a random one that
// no other server has.
func newSigner(secret []byte) *signer {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	derive := func(purpose string) []byte {
		key, err := hkdf.Key(sha256.New, secret, nil, "fairway mcp "+purpose, sha256.Size)
		if err != nil {
			panic(err) // only for lengths that are wrong
		}
		return key
	}
	g := &signer{state: derive("request state")}
	key := derive("session")
	g.macs.New = func() any { return hmac.New(sha256.New, key) }
	return g
}

// issue returns the id of a new session.
func (g *signer) issue(v revision, client capabilities, lists listDigests, user string, expires time.Time) string {
	raw := make([]byte, 0, sessionPayload+sessionMAC)
	raw = append(raw, sessionFormat, byte(v))
	raw = binary.BigEndian.AppendUint16(raw, uint16(client))
	raw = binary.BigEndian.AppendUint32(raw, uint32(expires.Unix()))
	raw = lists.appendTo(raw)
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

// open returns the session of an id that was issued to this user.
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
		version: revision(raw[1]),
		client:  capabilities(binary.BigEndian.Uint16(raw[2:])),
		expires: time.Unix(int64(binary.BigEndian.Uint32(raw[4:])), 0),
		lists:   readListDigests(raw[8:]),
	}
	copy(s.key[:], raw[sessionKeyAt:])
	if !now.Before(s.expires) {
		return session{}, errExpiredSession
	}
	return s, nil
}

// resume finds the session that the request is part of, if it says so. One that
// is not good any more is 404, upon which clients begin a new one.
func (x *exchange) resume() *fault {
	id, present := headerValue(x.header, sessionHeader)
	if !present || x.version.selfDescribing() {
		return nil
	}
	s, err := x.server.session(id, x.site.User)
	if err != nil {
		f := faultf(http.StatusNotFound, sessionNotFound,
			"the session %v: begin a new one with initialize, without the header Mcp-Session-Id", err)
		f.anonymous = true
		return f
	}
	if sent := len(x.header[versionHeader]) > 0; sent && x.version != unknown && x.version != s.version {
		f := malformed("the session speaks %v and the header MCP-Protocol-Version says %v: send the header with %v, or begin a new session",
			s.version, x.version, s.version)
		f.anonymous = true
		return f
	}
	x.session = &s
	x.client = s.client
	if _, sent := x.header[versionHeader]; !sent {
		x.version = s.version
	}
	return nil
}

// session returns the session of that id unless it is over.
func (s *Server) session(id, user string) (session, error) {
	opened, err := s.signer().open(id, user, time.Now())
	if err == nil && s.lives.ended(opened.key) {
		err = errEndedSession
	}
	return opened, err
}

// endSession answers DELETE.
func (x *exchange) endSession() *fault {
	if x.session == nil {
		f := faultf(http.StatusBadRequest, invalidRequest, "DELETE ends a session: name it in the header Mcp-Session-Id")
		f.anonymous = true
		return f
	}
	x.server.lives.end(*x.session)
	x.status = http.StatusNoContent
	return nil
}
