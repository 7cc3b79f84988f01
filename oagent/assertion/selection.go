package assertion

import (
	"context"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
)

// MaxExposed is the maximum size of an exposed value, in bytes of JSON.
const MaxExposed = 64 << 10

// Selection is a CEL expression that selects a value of an Engagement. It is compiled once and
// is safe for concurrent use.
type Selection struct {
	expression
}

// CompileSelection compiles a selection. names are the tools and agents that it may name.
func CompileSelection(source Source, names *Names) (*Selection, error) {
	s := &Selection{expression{Source: source}}
	if err := s.compile(names); err != nil {
		return nil, err
	}
	return s, nil
}

// Append appends the value as JSON. An empty optional becomes null. The error is a
// *SelectionError, and then dst is returned unchanged.
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

// SelectionError describes why a value cannot be exposed.
type SelectionError struct {
	Rule       string // path of the selection in the document
	Expression string // as written in the document
	Missing    string // the missing path, if one is the cause
	Cause      error
}

// Error returns the selection and the reason.
func (e *SelectionError) Error() string {
	return describeFailure(e.Rule, e.Expression, "", e.Missing, e.Cause)
}

// Unwrap returns the cause.
func (e *SelectionError) Unwrap() error {
	return e.Cause
}
