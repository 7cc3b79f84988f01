package otcadapter

import (
	"crypto/rand"
	"encoding/binary"
	"net/http"
	"time"
)

// A recordState is the state of the call that a record is about.
type recordState byte

const (
	recordBegun   recordState = 'b' // a node runs the call, or ran it when the node died
	recordDone    recordState = 'd' // the record has the response
	recordUnkept  recordState = 'l' // the response is not stored; the record has an unkeptReason instead
	recordVersion             = 1   // of the format
)

// An unkeptReason is the reason why a record has no response.
type unkeptReason string

const (
	unkeptLarge       unkeptReason = ""  // the response was larger than Idempotency.MaxAnswer
	unkeptCredentials unkeptReason = "c" // the response repeated credentials of the call
)

// Offsets of the fields of a record. The body of the response follows.
const (
	atState   = 1
	atAgain   = 2
	atStatus  = 3
	atUntil   = 5
	atProcess = 13
	atAttempt = atProcess + len(nodeID{})
	atContent = atAttempt + len(nodeID{})
	atAnswer  = atContent + len(digest{})
)

// A digest is a keyed hash (HMAC-SHA-256).
type digest [32]byte

// A nodeID identifies a process, or an attempt at a call.
type nodeID [8]byte

// newNodeID returns a random nodeID.
func newNodeID() (id nodeID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// thisProcess identifies this process, so that records of a previous process can be recognized.
// It does not change.
var thisProcess = newNodeID()

// A record is what the store has of a call with a call_id.
type record struct {
	state   recordState
	again   bool      // only requests that waited get the response; the call may run once more
	status  int       // of the response
	until   time.Time // of recordBegun: when the lease ends, unless it is renewed
	process nodeID
	attempt nodeID
	content digest // hash of the tool and its input
	answer  []byte
}

// put encodes the record's fields into the first atAnswer bytes of b.
func (r *record) put(b []byte) {
	b[0] = recordVersion
	b[atState] = byte(r.state)
	b[atAgain] = 0
	if r.again {
		b[atAgain] = 1
	}
	binary.BigEndian.PutUint16(b[atStatus:], uint16(r.status))
	binary.BigEndian.PutUint64(b[atUntil:], uint64(r.until.UnixMilli()))
	copy(b[atProcess:], r.process[:])
	copy(b[atAttempt:], r.attempt[:])
	copy(b[atContent:], r.content[:])
}

// encode returns the encoded record.
func (r *record) encode() []byte {
	b := make([]byte, atAnswer)
	r.put(b)
	return b
}

// sound reports whether the record is valid.
func (r *record) sound() bool {
	switch r.state {
	case recordBegun:
		return true
	case recordDone, recordUnkept:
		return r.status >= http.StatusOK && r.status < 600
	}
	return false
}

// decodeRecord decodes a record. It returns false if the record does not have this version's
// format.
func decodeRecord(b []byte) (r record, ok bool) {
	if len(b) < atAnswer || b[0] != recordVersion {
		return record{}, false
	}
	r = record{
		state:  recordState(b[atState]),
		again:  b[atAgain] != 0,
		status: int(binary.BigEndian.Uint16(b[atStatus:])),
		until:  time.UnixMilli(int64(binary.BigEndian.Uint64(b[atUntil:]))),
		answer: b[atAnswer:],
	}
	copy(r.process[:], b[atProcess:])
	copy(r.attempt[:], b[atAttempt:])
	copy(r.content[:], b[atContent:])
	return r, r.sound()
}
