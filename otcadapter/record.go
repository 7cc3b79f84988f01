package otcadapter

import (
	"crypto/rand"
	"encoding/binary"
	"net/http"
	"time"
)

// A recordState is how far a call has come that a record is of.
type recordState byte

const (
	recordBegun   recordState = 'b' // its node runs it, or ran it when it died
	recordDone    recordState = 'd' // its answer is in the record
	recordUnkept  recordState = 'l' // its answer is not kept: an unkeptReason is in its place
	recordVersion             = 1   // of the format
)

// An unkeptReason says why a record has no answer.
type unkeptReason string

const (
	unkeptLarge       unkeptReason = ""  // it was larger than Idempotency.MaxAnswer
	unkeptCredentials unkeptReason = "c" // it repeated credentials of the call
)

// Where the fields of a record are. What follows is the body of the answer.
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

// A nodeID tells processes apart, and the attempts of one.
type nodeID [8]byte

func newNodeID() (id nodeID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// thisProcess tells whether a record was begun by this process or by one that may
// be gone. It does not change.
var thisProcess = newNodeID()

// A record is what the store keeps of a call with a call_id.
type record struct {
	state   recordState
	again   bool      // the answer holds for who waited for it; the call may run once more
	status  int       // of the answer
	until   time.Time // of recordBegun: it is dead then, unless it was prolonged
	process nodeID
	attempt nodeID
	content digest // of what was called with what
	answer  []byte
}

// put writes the record's fields into the first atAnswer bytes of b.
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

func (r *record) encode() []byte {
	b := make([]byte, atAnswer)
	r.put(b)
	return b
}

// sound reports whether the record can be answered with.
func (r *record) sound() bool {
	switch r.state {
	case recordBegun:
		return true
	case recordDone, recordUnkept:
		return r.status >= http.StatusOK && r.status < 600
	}
	return false
}

// decodeRecord reads a record; false if it is none that this version wrote.
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
