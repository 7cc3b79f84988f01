package engagement

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Reasons why a value is not in the record, see Omitted.Why.
const (
	OmittedLarge    = "max_recorded" // it exceeds the limit for one value in the record
	OmittedAnswer   = "max_output"   // it is larger than the limit for inspected outputs
	OmittedFull     = "record_full"  // the record has reached its size limit
	OmittedForm     = "not_json"     // it is neither JSON nor text
	OmittedInvalid  = "invalid_json" // its media type is JSON, but its content is not valid
	OmittedPart     = "part"         // it is partial content (206)
	OmittedEncoding = "encoding"     // its encoding is not supported
	OmittedStream   = "stream"       // it was streamed without being buffered

	OmittedCredentials = "credentials" // it contains credentials of the call
)

// Omitted is the placeholder in the record for inputs or outputs that were omitted:
//
//	{"_shed":70012,"_why":"max_recorded","_limit":65536}
//
// An assertion that reads an omitted value cannot be evaluated, so it does not hold. The error
// carries the reason in Why. If an API returns JSON that begins like this, it is treated as
// omitted too.
type Omitted struct {
	Bytes int64  `json:"_shed"`
	Why   string `json:"_why"`
	Limit int64  `json:"_limit"` // bytes; set for OmittedLarge, OmittedAnswer and OmittedFull, else 0
}

var omittedPrefix = []byte(`{"_shed":`)

// JSON returns the placeholder for the record.
func (o Omitted) JSON() jsontext.Value {
	dst := strconv.AppendInt(bytes.Clone(omittedPrefix), o.Bytes, 10)
	if o.Why != "" {
		dst = wire.AppendString(append(dst, `,"_why":`...), o.Why)
	}
	if o.Limit > 0 {
		dst = strconv.AppendInt(append(dst, `,"_limit":`...), o.Limit, 10)
	}
	return append(dst, '}')
}

// IsOmitted reports whether a value is an Omitted.
func IsOmitted(value jsontext.Value) bool {
	return bytes.HasPrefix(value, omittedPrefix)
}

// OmittedError is the error of an expression that reads an omitted value.
type OmittedError struct {
	Omitted
	Path string // path of the value: recent["get-trip"].outputs; "" if not known
}

// OmissionOf returns the error for an omitted value.
func OmissionOf(value jsontext.Value) *OmittedError {
	e := new(OmittedError)
	if json.Unmarshal(value, &e.Omitted) != nil {
		e.Omitted = Omitted{} // a value of the API that only looks like a placeholder
	}
	return e
}

// Error names the omitted value and the reason. It does not quote the value.
func (e *OmittedError) Error() string {
	what := e.Path
	if what == "" {
		what = "one of the values that it reads"
	}
	return what + e.Reason()
}

// Reason says why the value was omitted, as the rest of a sentence.
func (e *OmittedError) Reason() string {
	switch limit := humanize.IBytes(uint64(max(e.Limit, 0))); e.Why {
	case OmittedLarge:
		return fmt.Sprintf(" is too large for the record, which stores inputs or outputs of at most %s; the operator can raise max_recorded", limit)
	case OmittedAnswer:
		return fmt.Sprintf(" is too large to be inspected; the limit is %s, and the operator can raise max_output", limit)
	case OmittedFull:
		return fmt.Sprintf(" was not recorded, because the record has reached its limit of %s of inputs and outputs; start another Engagement", limit)
	case OmittedForm:
		return " is neither JSON nor text, so it has no members; an assertion can only read its _media_type and _bytes"
	case OmittedInvalid:
		return " is declared as JSON, but is invalid; it may have a duplicate name"
	case OmittedPart:
		return " is a partial response (206), which is not inspected"
	case OmittedEncoding:
		return " has an unknown encoding or character set, or is damaged"
	case OmittedCredentials:
		return " repeats credentials of the call, which are not recorded"
	case OmittedStream:
		return " is a stream that was passed on without buffering, so it was not recorded"
	}
	return " is not in the record, because it was too large or not readable"
}
