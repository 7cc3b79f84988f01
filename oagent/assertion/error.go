package assertion

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Error describes why an assertion does not hold.
type Error struct {
	Rule       string // path of the assertion in the document
	Expression string // as written in the document
	Part       string // the failing operand of an expression a && b && c; "" if it is not known
	Missing    string // the missing path, if one is the cause: recent["refund"].outputs.status
	Cause      error  // the evaluation error; nil if the expression evaluated to false
}

// maxQuoted is the maximum number of bytes of an expression in an error message.
const maxQuoted = 500

// Error returns the assertion and the reason why it does not hold. The text may quote names
// and values of the Engagement.
func (e *Error) Error() string {
	return describeFailure(e.Rule, e.Expression, e.Part, e.Missing, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	return e.Cause
}

func describeFailure(rule, expression, part, missing string, cause error) string {
	text := oneLine(expression)
	if part != "" {
		text = oneLine(part) + " (a part of: " + text + ")"
	}
	switch {
	case missing != "":
		return fmt.Sprintf("%s cannot be decided, because %s is missing: %s", rule, missing, text)
	case cause != nil:
		return fmt.Sprintf("%s cannot be decided: %v: %s", rule, cause, text)
	}
	return fmt.Sprintf("%s does not hold: %s", rule, text)
}

// oneLine formats an expression for an error message: in one line, shortened to maxQuoted bytes.
func oneLine(expression string) string {
	text := strings.Join(strings.Fields(expression), " ")
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return text
}

// Explain returns why an assertion does not hold, for a caller who must not see data: it
// leaves out any part of the cause that could quote inputs and outputs.
func Explain(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return "an assertion does not hold"
	}
	cause := e.Cause
	if cause != nil {
		cause = plainCause(cause)
	}
	return describeFailure(e.Rule, e.Expression, e.Part, e.Missing, cause)
}

var errNotEvaluated = errors.New("it cannot be evaluated for these values")

// plainCause returns the part of a cause that quotes nothing of inputs and outputs.
func plainCause(cause error) error {
	if omitted, ok := errors.AsType[*engagement.OmittedError](cause); ok {
		return omitted
	}
	if mismatch, ok := errors.AsType[*typeError](cause); ok {
		return errors.New(mismatch.advice())
	}
	if expr.IsInterrupted(cause) {
		return errors.New("the evaluation takes too long for these values")
	}
	known := []error{expr.ErrTextTooLong, expr.ErrListTooLong}
	if i := slices.IndexFunc(known, func(err error) bool { return errors.Is(cause, err) }); i >= 0 {
		return fmt.Errorf("it reads a value that is too large: %w", known[i])
	}
	return errNotEvaluated
}
