package oagent

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Reasons why a value is not in the record, see Shed.Why.
const (
	ShedLarge    = "max_recorded" // it is larger than the record keeps of one value
	ShedAnswer   = "max_output"   // it is larger than the limit for inspected outputs
	ShedFull     = "record_full"  // the record has reached its size limit
	ShedForm     = "not_json"     // it is neither JSON nor text
	ShedInvalid  = "invalid_json" // its media type is JSON, but its content is not valid
	ShedPart     = "part"         // it is partial content (206)
	ShedEncoding = "encoding"     // its encoding is not supported
	ShedStream   = "stream"       // it was streamed without being buffered

	ShedCredentials = "credentials" // it contains credentials of the call
)

// Shed is the placeholder in the record for inputs or outputs that were omitted:
//
//	{"_shed":70012,"_why":"max_recorded","_limit":65536}
//
// An assertion that reads an omitted value cannot be evaluated, so it does not hold. The error
// carries the reason in Why. If an API returns JSON that begins like this, it is treated as
// omitted too.
type Shed struct {
	Bytes int64  `json:"_shed"`
	Why   string `json:"_why"`
	Limit int64  `json:"_limit"` // bytes; set for ShedLarge, ShedAnswer and ShedFull, else 0
}

var shedPrefix = []byte(`{"_shed":`)

// JSON returns the placeholder for the record.
func (s Shed) JSON() jsontext.Value {
	dst := strconv.AppendInt(bytes.Clone(shedPrefix), s.Bytes, 10)
	if s.Why != "" {
		dst = wire.AppendString(append(dst, `,"_why":`...), s.Why)
	}
	if s.Limit > 0 {
		dst = strconv.AppendInt(append(dst, `,"_limit":`...), s.Limit, 10)
	}
	return append(dst, '}')
}

func isShed(value jsontext.Value) bool {
	return bytes.HasPrefix(value, shedPrefix)
}

// shedError is the error of an expression that reads an omitted value.
type shedError struct {
	Shed
	path string // path of the value: recent["get-trip"].outputs; "" if not known
}

// shedFrom returns the error for an omitted value.
func shedFrom(value jsontext.Value) *shedError {
	e := new(shedError)
	if json.Unmarshal(value, &e.Shed) != nil {
		e.Shed = Shed{} // not written by the record
	}
	return e
}

// Error names the omitted value and the reason. It quotes nothing of the value.
func (e *shedError) Error() string {
	what := e.path
	if what == "" {
		what = "one of the values that it looks at"
	}
	return what + e.reason()
}

func (e *shedError) reason() string {
	switch limit := humanize.IBytes(uint64(max(e.Limit, 0))); e.Why {
	case ShedLarge:
		return fmt.Sprintf(" was too large to be kept in the record, which keeps inputs or outputs of at most %s; the operator can raise max_recorded", limit)
	case ShedAnswer:
		return fmt.Sprintf(" was too large to be looked at, which is done with at most %s; the operator can raise max_output", limit)
	case ShedFull:
		return fmt.Sprintf(" was not kept in the record, because that has %s of inputs and outputs, which is the most: begin another Engagement", limit)
	case ShedForm:
		return " is neither JSON nor text, so that it has no members; of such an answer only _media_type and _bytes are seen, by an assertion that asks for them"
	case ShedInvalid:
		return " was said to be JSON, and is none, or is not strict JSON: a name that is there twice, say"
	case ShedPart:
		return " is a part of an answer (206), which is not looked at"
	case ShedEncoding:
		return " is in an encoding, or a character set, that is not known here, or broken"
	case ShedCredentials:
		return " repeats credentials of the call, which are not kept"
	case ShedStream:
		return " was a stream that was passed on as it came, of which nothing is kept"
	}
	return " is not in the record, because it was too large or in no form that can be read"
}
