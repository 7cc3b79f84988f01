package idempotency

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
)

// A recordState is the state of the call that a record is about.
type recordState byte

const (
	stateBegun     recordState = 'b' // a node runs the call, or ran it when the node died
	stateDone      recordState = 'd' // the record has the response
	stateNotStored recordState = 'l' // the record has a notStoredReason instead of the response
	recordVersion              = 1   // of the format
)

// A notStoredReason is the reason why a record has no response.
type notStoredReason string

const (
	notStoredTooLarge    notStoredReason = ""  // the response was larger than Options.MaxResponse
	notStoredCredentials notStoredReason = "c" // the response repeated credentials of the call
	notStoredDropped     notStoredReason = "d" // the store dropped the response to make room
)

// Offsets of the fields of a record's header. The body of the response follows.
const (
	offsetState     = 1
	offsetRetryable = 2
	offsetStatus    = 3
	offsetLeaseEnd  = 5
	offsetProcess   = 13
	offsetToken     = offsetProcess + lease.TokenSize
	offsetContent   = offsetToken + lease.TokenSize
	headerSize      = offsetContent + len(keyedhash.Digest{})
)

// A record is what the store has of a call.
type record struct {
	state     recordState
	retryable bool             // see Response.Retryable
	status    int              // of the response
	lease     lease.Lease      // of stateBegun, without its tries
	content   keyedhash.Digest // see Call.Identity
	body      []byte
}

// writeHeader encodes the record's fields into the first headerSize bytes of b.
func (r *record) writeHeader(b []byte) {
	b[0] = recordVersion
	b[offsetState] = byte(r.state)
	b[offsetRetryable] = 0
	if r.retryable {
		b[offsetRetryable] = 1
	}
	binary.BigEndian.PutUint16(b[offsetStatus:], uint16(r.status))
	binary.BigEndian.PutUint64(b[offsetLeaseEnd:], uint64(r.lease.Until.UnixMilli()))
	copy(b[offsetProcess:], r.lease.Node)
	copy(b[offsetToken:], r.lease.Token)
	copy(b[offsetContent:], r.content[:])
}

// encode returns the encoded record, without a body.
func (r *record) encode() []byte {
	b := make([]byte, headerSize, headerSize+len(notStoredDropped))
	r.writeHeader(b)
	return b
}

// tombstone returns the encoded record that remains when the store drops the response.
func (r *record) tombstone() []byte {
	t := *r
	t.state = stateNotStored
	return append(t.encode(), notStoredDropped...)
}

// isValid reports whether the fields of a decoded record are valid.
func (r *record) isValid() bool {
	switch r.state {
	case stateBegun:
		return true
	case stateDone, stateNotStored:
		return r.status >= http.StatusOK && r.status < 600
	}
	return false
}

// decodeRecord decodes a record. It returns false if the record does not have this version's
// format. A lease with the names of known shares their memory.
func decodeRecord(b []byte, known *lease.Lease) (r record, ok bool) {
	if len(b) < headerSize || b[0] != recordVersion {
		return record{}, false
	}
	r = record{
		state:     recordState(b[offsetState]),
		retryable: b[offsetRetryable] != 0,
		status:    int(binary.BigEndian.Uint16(b[offsetStatus:])),
		body:      b[headerSize:],
	}
	copy(r.content[:], b[offsetContent:])
	if r.lease.Seq = 2; r.state == stateBegun { // the claim is the first change of the lease, the response the second one
		r.lease = lease.Lease{
			Node:  shared(bytes.TrimRight(b[offsetProcess:offsetToken], "\x00"), known.Node),
			Token: shared(b[offsetToken:offsetContent], known.Token),
			Until: time.UnixMilli(int64(binary.BigEndian.Uint64(b[offsetLeaseEnd:]))),
			Seq:   1,
		}
	}
	return r, r.isValid()
}

// shared returns the text, in the memory of known if both are equal.
func shared(text []byte, known string) string {
	if string(text) == known {
		return known
	}
	return string(text)
}
