package enhance

import (
	"errors"
	"strings"

	"cel.dev/cel-go/interpreter"

	"github.com/fairwayhq/fairway/internal/celenv"
)

// A Reason is why a response was left unchanged. Its value is suitable as a metric
// label.
type Reason string

// The reasons for which there is nothing to enhance.
const (
	NoContext  Reason = "no_context"  // the request has no valid OCP context
	NoProperty Reason = "no_property" // no property applies, or each returned optional.none() or is already present
	NotJSON    Reason = "not_json"    // another media type, or a body that is not strict JSON
	NotObject  Reason = "not_object"  // neither an object nor a list, or a list without objects
	NoBody     Reason = "no_body"     // HEAD, or a status without a body of its own
	Status     Reason = "status"      // an error, a redirect or a partial response
	Encoded    Reason = "encoded"     // the body is compressed or otherwise encoded
	TooLarge   Reason = "too_large"   // the response is larger than the limit
	TooMany    Reason = "too_many"    // a list or an object has more elements than the limit
)

// The reasons for which a property was not added although it should have been. If no
// property was added, it is also the reason why the response was not enhanced.
const (
	MissingKey Reason = "missing_key" // an expression read a missing key
	Failed     Reason = "failed"      // an expression failed for another reason
	Cost       Reason = "cost"        // an expression exceeded the cost limit
	Deadline   Reason = "deadline"    // the expressions exceeded the time limit
	Value      Reason = "value"       // the value cannot be written as JSON, or nests too deeply
	Schema     Reason = "schema"      // the value does not match the declared schema
	AddedSize  Reason = "added_size"  // the values together are too large
)

// Fault reports whether the operator should know about the reason, because an
// expression did not work as intended.
func (r Reason) Fault() bool {
	switch r {
	case MissingKey, Failed, Cost, Deadline, Value, Schema, AddedSize:
		return true
	}
	return false
}

// An Outcome is the result of enhancing a response. The response is enhanced if and
// only if Reason is "".
type Outcome struct {
	Reason   Reason
	Property string // the property that failed, if Reason is a Fault caused by one
	Err      error  // the cause of a Fault; see Failure.Err

	Added int // number of properties written, counted per item of a list
	Kept  int // number of properties that the response already had and that were kept

	// Failures has the first failure of each property that failed. The response can
	// still be enhanced, with other properties or in other items of a list.
	Failures []Failure
}

// A Failure is the reason why an expression did not produce a property.
type Failure struct {
	Property string
	Reason   Reason // always a Fault

	// Err is the cause. It may contain values of the context or the response, so do
	// not log it by default.
	Err error
}

// Enhanced reports whether any property was added to the response.
func (o Outcome) Enhanced() bool {
	return o.Reason == ""
}

// reasonOf classifies an error from evaluating an expression or writing its value.
func reasonOf(err error) Reason {
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.Is(err, celenv.ErrSize):
		return AddedSize
	case errors.Is(err, celenv.ErrNoJSON):
		return Value
	case errors.Is(err, interpreter.InterruptError{}):
		return Deadline
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return Cost
	case errors.As(err, &cancelled):
		return Deadline
	case strings.Contains(err.Error(), "no such key"), strings.Contains(err.Error(), "no such attribute"):
		return MissingKey
	}
	return Failed
}
