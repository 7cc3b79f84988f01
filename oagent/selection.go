package oagent

import (
	"context"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
)

// MaxExposed is the longest value that is exposed, in bytes of JSON.
const MaxExposed = 64 << 10

// A Selection is a CEL expression that takes a value from an Engagement. It is
// compiled once, and safe for concurrent use.
type Selection struct {
	expression
}

// NewSelection compiles a selection that may name these tools and agents. Rule is
// its path in the document, for errors.
func NewSelection(text, rule string, names []string) (*Selection, error) {
	s := &Selection{expression{Expression: text, Rule: rule}}
	if err := s.compile(newNameset(names)); err != nil {
		return nil, err
	}
	return s, nil
}

// Append appends the value as JSON; null for an optional that holds nothing. The
// error is a *SelectionError, and dst then as it was.
func (s *Selection) Append(ctx context.Context, dst []byte, engagement Variables) ([]byte, error) {
	value, err := s.evaluate(ctx, engagement)
	if err != nil {
		failure := &SelectionError{Rule: s.Rule, Expression: s.Expression, Cause: err}
		if s.program != nil {
			failure.Missing, failure.Cause = s.diagnose(engagement, err)
		}
		return dst, failure
	}
	if value = expr.Unwrap(value); value == nil {
		value = types.NullValue
	}
	written, err := expr.AppendJSON(dst, value, len(dst)+MaxExposed)
	if err != nil {
		return dst, &SelectionError{Rule: s.Rule, Expression: s.Expression, Cause: err}
	}
	return written, nil
}

// A SelectionError says why a value cannot be exposed.
type SelectionError struct {
	Rule       string // path of the selection in the document
	Expression string // as the document has it
	Missing    string // the path that is not there, if that is the cause
	Cause      error
}

// Error says which selection it is and what is wrong.
func (e *SelectionError) Error() string {
	return describeFailure(e.Rule, e.Expression, "", e.Missing, e.Cause)
}

// Unwrap returns the cause.
func (e *SelectionError) Unwrap() error {
	return e.Cause
}
