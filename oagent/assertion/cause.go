package assertion

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// diagnose finds out why an evaluation failed. It returns the missing path, or the cause that
// explains the failure.
func (e *expression) diagnose(variables Variables, cause error) (path string, reason error) {
	root := e.program.Root()
	if e.calls {
		variables = withCalls{variables}
	}
	if omitted, ok := errors.AsType[*engagement.OmittedError](cause); ok {
		return "", &engagement.OmittedError{Omitted: omitted.Omitted, Path: pathTo(root, variables, func(value ref.Val) bool {
			err, ok := value.(*types.Err)
			if !ok {
				return false
			}
			found, ok := errors.AsType[*engagement.OmittedError](err)
			return ok && found.Omitted == omitted.Omitted
		})}
	}
	if !isOverload(cause) {
		return missing(root, variables, cause), cause
	}
	if path := pathTo(root, variables, isBigDigits); path != "" {
		return "", &typeError{path, cause}
	}
	if path = missing(root, variables, cause); path != "" {
		return path, cause
	}
	return "", &typeError{"", cause}
}

// pathTo returns the first path in the expression that leads to a wanted value. It returns ""
// if there is none, or if the path is computed while the expression runs.
func pathTo(root ast.NavigableExpr, variables Variables, wanted func(ref.Val) bool) string {
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		p := pathOf(variable)
		if strings.HasPrefix(p.variable, "@") || expr.IsShadowed(root, p.variable) {
			continue
		}
		if value, steps := p.follow(variables); value != nil && wanted(value) {
			return p.text(steps)
		}
	}
	return ""
}

// isOverload reports whether an operator or a function got values of types that it does not
// accept.
func isOverload(cause error) bool {
	return strings.HasPrefix(cause.Error(), "no such overload")
}

// isBigDigits reports whether a value is a whole number that does not fit into an int. In
// expressions such a number is text.
func isBigDigits(value ref.Val) bool {
	text, ok := value.(types.String)
	if !ok || text == "" || strings.Trim(strings.TrimPrefix(string(text), "-"), "0123456789") != "" {
		return false
	}
	_, err := strconv.ParseInt(string(text), 10, 64)
	return errors.Is(err, strconv.ErrRange)
}

// typeError is the error for values whose types cannot be compared or computed with.
type typeError struct {
	path  string // path of a whole number that does not fit into an int; "" if none is known
	cause error
}

// Error returns the message of CEL, and advice on how to fix the expression.
func (e *typeError) Error() string { return e.cause.Error() + ": " + e.advice() }

// advice returns how to fix the expression. It quotes no values.
func (e *typeError) advice() string {
	if e.path != "" {
		return fmt.Sprintf("%[1]s is a whole number that does not fit into 64 bits, so it is a string of digits; write double(%[1]s) to compare it with a number", e.path)
	}
	return "an operator or a function does not support the types of its values; one may be null or a string. " +
		"A whole number that does not fit into 64 bits is a string of digits; double(…) converts it to a number"
}

// Unwrap returns the error of CEL.
func (e *typeError) Unwrap() error { return e.cause }
