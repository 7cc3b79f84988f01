package enhance

import (
	"errors"
	"strings"

	"cel.dev/cel-go/interpreter"

	"github.com/fairwayhq/fairway/internal/expr"
)

// A Reason says why an answer was left as it is. Its text is fit for a metric's
// label.
type Reason string

// The reasons why an answer has nothing to enhance.
const (
	NoContext  Reason = "no_context"  // the request has no valid OCP context
	NoProperty Reason = "no_property" // no property applies, or each yielded optional.none() or is there already
	NotJSON    Reason = "not_json"    // another media type, or a body that is no strict JSON
	NotObject  Reason = "not_object"  // neither an object nor a list, or a list without objects
	NoBody     Reason = "no_body"     // HEAD, or a status without a body of its own
	Status     Reason = "status"      // an error, a redirection, or a part of an answer
	Encoded    Reason = "encoded"     // the body is compressed or otherwise encoded
	TooLarge   Reason = "too_large"   // the answer is larger than the limit
	TooMany    Reason = "too_many"    // the list has more items, or an object more members, than the limit
)

// The reasons why a property was not added though it should have been, or, if that left
// nothing to add, why the answer was not enhanced.
const (
	MissingKey Reason = "missing_key" // an expression read what is not there
	Failed     Reason = "failed"      // an expression failed otherwise
	Cost       Reason = "cost"        // an expression went over the cost limit
	Deadline   Reason = "deadline"    // the expressions took too long
	Value      Reason = "value"       // the value has no JSON, or nests too deeply
	Schema     Reason = "schema"      // the value does not fit the declared schema
	AddedSize  Reason = "added_size"  // the values are too large together
)

// Fault reports whether the reason is one that an operator should hear of: an
// expression did not do what it is there for.
func (r Reason) Fault() bool {
	switch r {
	case MissingKey, Failed, Cost, Deadline, Value, Schema, AddedSize:
		return true
	}
	return false
}

// An Outcome says what became of an answer: it is enhanced exactly if Reason is "".
type Outcome struct {
	Reason   Reason
	Property string // the one that failed, if Reason is a Fault that comes from one
	Err      error  // what a Fault came from; see Failure.Err

	Added int // properties that were written, counted in each item of a list
	Kept  int // properties that the answer had already, and which stay as they are

	// Failures has the first failure of each property that failed. The answer can be
	// enhanced all the same: with the other properties, or in other items of a list.
	Failures []Failure
}

// A Failure says why an expression did not yield a property.
type Failure struct {
	Property string
	Reason   Reason // a Fault

	// Err is what happened. It may quote values of the context or the answer, and so
	// belongs into no log by default.
	Err error
}

// Enhanced reports whether the answer got anything.
func (o Outcome) Enhanced() bool {
	return o.Reason == ""
}

// reasonOf classifies the error of an evaluation, or of writing its value.
func reasonOf(err error) Reason {
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.Is(err, expr.ErrSize):
		return AddedSize
	case errors.Is(err, expr.ErrNoJSON):
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
