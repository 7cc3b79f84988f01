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

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// DefaultSessionTTL is the default lifetime of a session. When it expires, clients start a new
// session automatically.
const DefaultSessionTTL = 24 * time.Hour

// sessionHeader carries the session id (MCP 2025-03-26 to 2025-11-25, Streamable HTTP, Session
// Management), in canonical form.
const sessionHeader = "Mcp-Session-Id"

// A session is what initialize has negotiated. The server stores nothing: the session id contains
// all fields, signed, so every server with the same secret can read it.
type session struct {
	key     sessionKey
	version revision.Revision
	client  elicit.Capabilities
	expires time.Time
	lists   listDigests // lists when the session began
}

// A sessionKey identifies a session.
type sessionKey [12]byte

// Layout of a session id before Base64 encoding: format (1 byte), revision (1), capabilities (2),
// expiry in Unix seconds (4), digests of the lists, key, and the first sessionMAC bytes of an
// HMAC-SHA256 over all of that and the user.
const (
	sessionFormat  = 2
	sessionKeyAt   = 1 + 1 + 2 + 4 + listDigestSize
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

// newSigner returns the signer for the options' secret.
func (o *Options) newSigner() *signer {
	secret := o.Secret
	if len(secret) == 0 && o.LoadSecret != nil {
		secret = o.LoadSecret()
	}
	return newSigner(secret)
}

// sealer returns the server's sealer.
func (s *Server) sealer() *elicit.Sealer { return s.signer().sealer }

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
func (g *signer) issue(v revision.Revision, client elicit.Capabilities, lists listDigests, user string, expires time.Time) string {
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
		lists:   readListDigests(raw[8:]),
	}
	copy(s.key[:], raw[sessionKeyAt:])
	if !now.Before(s.expires) {
		return session{}, errExpiredSession
	}
	return s, nil
}

// resume restores the session of the request, if the request has a session id. An invalid or expired
// id yields 404, after which clients start a new session.
func (x *exchange) resume() *jsonrpc.Fault {
	id, present := headerValue(x.header, sessionHeader)
	if !present || x.version.Stateless() {
		return nil
	}
	s, err := x.server.session(id, x.site.User)
	if err != nil {
		f := jsonrpc.Faultf(http.StatusNotFound, jsonrpc.SessionNotFound,
			"the session %v: begin a new one with initialize, without the header Mcp-Session-Id", err)
		f.Anonymous = true
		return f
	}
	if sent := len(x.header[versionHeader]) > 0; sent && x.version != revision.Unknown && x.version != s.version {
		f := jsonrpc.Malformed("the session speaks %v and the header MCP-Protocol-Version says %v: send the header with %v, or begin a new session",
			s.version, x.version, s.version)
		f.Anonymous = true
		return f
	}
	x.session = &s
	x.client = s.client
	if _, sent := x.header[versionHeader]; !sent {
		x.version = s.version
	}
	return nil
}

// session returns the session for an id, or an error if it has expired or ended.
func (s *Server) session(id, user string) (session, error) {
	opened, err := s.signer().open(id, user, time.Now())
	if err == nil && s.states.ended(opened.key) {
		err = errEndedSession
	}
	return opened, err
}

// endSession serves DELETE, which ends a session.
func (x *exchange) endSession() *jsonrpc.Fault {
	if x.session == nil {
		f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidRequest, "DELETE ends a session: name it in the header Mcp-Session-Id")
		f.Anonymous = true
		return f
	}
	x.server.states.end(*x.session)
	x.status = http.StatusNoContent
	return nil
}
