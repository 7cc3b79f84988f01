package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// A Session is what initialize has negotiated. The server stores nothing: the session id contains
// all fields, signed, so every server with the same secret can read it.
type Session struct {
	Key     Key
	Version protocol.Revision
	Client  protocol.Capabilities
	Expires time.Time
	Lists   Digests // lists when the session began
}

// A Key identifies a session.
type Key [12]byte

// Layout of a session id before Base64 encoding: format (1 byte), revision (1), capabilities (2),
// expiry in Unix seconds (4), digests of the lists, key, and the first idMAC bytes of an
// HMAC-SHA256 over all of that and the user.
const (
	idFormat  = 2
	idKeyAt   = 1 + 1 + 2 + 4 + digestSize
	idPayload = idKeyAt + len(Key{})
	idMAC     = 16
	IDLength  = (idPayload + idMAC) * 4 / 3
)

// Reasons why a session is rejected.
var (
	errForeign = errors.New("was issued by another server or for another user")
	errExpired = errors.New("has expired")
	errEnded   = errors.New("has ended")
)

// Secrets are the secrets of a server. The first of each list signs or seals; all of them are accepted,
// so that secrets can be rotated.
type Secrets struct {
	Sign [][]byte // session ids, and state that clients store for the server
	Seal [][]byte // arguments and state of tasks, in the store
}

// A Signer creates and verifies session ids, and has the sealers of the same secrets.
type Signer struct {
	Secrets *Secrets
	State   *seal.Sealer // of state that clients store for the server
	Tasks   *seal.Sealer // of arguments and state of tasks

	macs []*sync.Pool // of hash.Hash, one for each secret
}

// NewSigner returns a Signer for secrets. Both lists must have a secret.
func NewSigner(secrets *Secrets) *Signer {
	g := &Signer{Secrets: secrets}
	for _, key := range seal.Keys(secrets.Sign, "fairway mcp session") {
		g.macs = append(g.macs, &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }})
	}
	g.State = seal.Derive(secrets.Sign, "fairway mcp request state")
	g.Tasks = seal.Derive(secrets.Seal, "fairway mcp request state")
	return g
}

// Issue returns the id of a new session.
func (g *Signer) Issue(v protocol.Revision, client protocol.Capabilities, lists Digests, user string, expires time.Time) string {
	raw := make([]byte, 0, idPayload+idMAC)
	raw = append(raw, idFormat, byte(v))
	raw = binary.BigEndian.AppendUint16(raw, uint16(client))
	raw = binary.BigEndian.AppendUint32(raw, uint32(expires.Unix()))
	raw = lists.AppendTo(raw)
	raw = raw[:idPayload]
	_, _ = rand.Read(raw[idKeyAt:])
	return base64.RawURLEncoding.EncodeToString(sign(g.macs[0], raw, raw, user))
}

// sign appends the MAC of the payload and the user.
func sign(macs *sync.Pool, dst, payload []byte, user string) []byte {
	mac := macs.Get().(hash.Hash)
	defer macs.Put(mac)
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
		return Session{}, errForeign
	}
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(id)); err != nil || n != len(raw) {
		return Session{}, errForeign
	}
	if !g.signed(&raw, user) || raw[0] != idFormat {
		return Session{}, errForeign
	}
	s := Session{
		Version: protocol.Revision(raw[1]),
		Client:  protocol.Capabilities(binary.BigEndian.Uint16(raw[2:])),
		Expires: time.Unix(int64(binary.BigEndian.Uint32(raw[4:])), 0),
		Lists:   readDigests(raw[8:]),
	}
	copy(s.Key[:], raw[idKeyAt:])
	if !now.Before(s.Expires) {
		return Session{}, errExpired
	}
	return s, nil
}

// signed reports whether one of the secrets has signed an id for the user.
func (g *Signer) signed(raw *[idPayload + idMAC]byte, user string) bool {
	var mac [idMAC]byte
	for _, macs := range g.macs {
		if hmac.Equal(sign(macs, mac[:0], raw[:idPayload], user), raw[idPayload:]) {
			return true
		}
	}
	return false
}
