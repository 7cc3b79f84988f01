// Package callid makes the ids of tool calls, by which the user of a client and the operator speak of the same call.
package callid

import (
	"math/rand/v2"
	"strings"
	"time"
)

// ID identifies a call on all nodes. It has 11 characters of the time in microseconds, so that a search begins there and ids sort by time,
// and 5 random ones. It is no secret. The zero ID means that there is none.
type ID [timeLength + 5]byte

// Header is the response header with the ID, where the body has no place for it.
const Header = "Fairway-Call"

const (
	timeLength = 11
	digits     = "0123456789abcdefghjkmnpqrstvwxyz" // base32 without letters that look like others
)

// New returns the ID of a call that begins now.
func New() (id ID) {
	for i, rest := timeLength-1, time.Now().UnixMicro(); i >= 0; i, rest = i-1, rest/int64(len(digits)) {
		id[i] = digits[rest%int64(len(digits))]
	}
	for i, rest := timeLength, rand.Uint64(); i < len(id); i, rest = i+1, rest/uint64(len(digits)) { //nolint:gosec // no secret
		id[i] = digits[rest%uint64(len(digits))]
	}
	return id
}

// String returns the text of an ID, "" if there is none.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return string(id[:])
}

// ForOperator returns the end of the message of a failure that only the operator can explain.
func ForOperator(id ID) string { return "; the operator finds this call as " + id.String() }

// Time returns when the call with an ID began. Ok is false if the text is no ID.
func Time(id string) (at time.Time, ok bool) {
	if len(id) != len(ID{}) {
		return at, false
	}
	micros := int64(0)
	for i := range len(id) {
		digit := strings.IndexByte(digits, id[i])
		if digit < 0 {
			return at, false
		}
		if i < timeLength {
			micros = micros*int64(len(digits)) + int64(digit)
		}
	}
	return time.UnixMicro(micros), true
}
