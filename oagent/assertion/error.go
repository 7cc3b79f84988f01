package assertion

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Error describes why an assertion does not hold, or why a value cannot be selected.
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
	return e.describe(e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	return e.Cause
}

// describe is Error with another cause.
func (e *Error) describe(cause error) string {
	text := oneLine(e.Expression)
	if e.Part != "" {
		text = oneLine(e.Part) + " (a part of: " + text + ")"
	}
	switch {
	case e.Missing != "":
		return fmt.Sprintf("%s cannot be decided, because %s is missing: %s", e.Rule, e.Missing, text)
	case cause != nil:
		return fmt.Sprintf("%s cannot be decided: %v: %s", e.Rule, cause, text)
	}
	return fmt.Sprintf("%s does not hold: %s", e.Rule, text)
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
	return e.describe(cause)
}

// plainCause returns the part of a cause that quotes nothing of inputs and outputs.
func plainCause(cause error) error {
	if omitted, ok := errors.AsType[*engagement.OmittedError](cause); ok {
		return omitted
	}
	if mismatch, ok := errors.AsType[*typeError](cause); ok {
		return errors.New(mismatch.advice())
	}
	if celenv.IsInterrupted(cause) {
		return errors.New("the evaluation takes too long for these values")
	}
	known := []error{celenv.ErrTextTooLong, celenv.ErrListTooLong}
	if i := slices.IndexFunc(known, func(err error) bool { return errors.Is(cause, err) }); i >= 0 {
		return fmt.Errorf("it reads a value that is too large: %w", known[i])
	}
	return errors.New("it cannot be evaluated for these values")
}

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
	if !strings.HasPrefix(cause.Error(), "no such overload") {
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
		if strings.HasPrefix(p.variable, "@") || celenv.IsShadowed(root, p.variable) {
			continue
		}
		if value, steps := p.follow(variables); value != nil && wanted(value) {
			return p.text(steps)
		}
	}
	return ""
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

// path is a variable and the literal keys selected from it.
type path struct {
	variable string
	steps    []ref.Val // strings and ints
}

// missing returns the path whose absence made an evaluation fail. It returns "" if that was
// not the cause, or if the path is computed while the expression runs.
func missing(root ast.NavigableExpr, variables Variables, cause error) string {
	if celenv.IsInterrupted(cause) {
		return ""
	}
	first := ""
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		p := pathOf(variable)
		if strings.HasPrefix(p.variable, "@") {
			continue
		}
		if celenv.IsShadowed(root, p.variable) {
			if text := p.loop(cause); text != "" {
				return text
			}
			continue
		}
		text, key := p.find(variables)
		switch {
		case text == "":
		case strings.HasSuffix(cause.Error(), ": "+key):
			return text
		case first == "":
			first = text
		}
	}
	return first
}

// pathOf returns the longest path that begins with a variable.
func pathOf(variable ast.NavigableExpr) path {
	p := path{variable: variable.AsIdent()}
	for at := variable; ; {
		parent, ok := at.Parent()
		if !ok {
			return p
		}
		step := stepOf(parent, at)
		if step == nil {
			return p
		}
		p.steps = append(p.steps, step)
		at = parent
	}
}

// stepOf returns the literal key that parent selects from operand. It returns nil if parent
// selects nothing, or only tests whether the key exists.
func stepOf(parent, operand ast.NavigableExpr) ref.Val {
	switch parent.Kind() {
	case ast.SelectKind:
		if s := parent.AsSelect(); !s.IsTestOnly() {
			return types.String(s.FieldName())
		}
	case ast.CallKind:
		call := parent.AsCall()
		arguments := call.Args()
		if call.FunctionName() != operators.Index || arguments[0].ID() != operand.ID() || arguments[1].Kind() != ast.LiteralKind {
			return nil
		}
		switch key := arguments[1].AsLiteral().(type) {
		case types.String, types.Int:
			return key
		}
	}
	return nil
}

// find follows the path up to the first missing key. key is the key as the CEL error names it.
func (p path) find(variables Variables) (text, key string) {
	value, steps := p.follow(variables)
	switch {
	case value != nil:
	case steps == 0:
		return p.variable, p.variable
	default:
		return p.text(steps), keyOf(p.steps[steps-1])
	}
	return "", ""
}

// follow returns the value of the path, and the number of steps to it. If the steps lead to a
// missing key, the value is nil. If the value cannot be read, it is a *types.Err.
func (p path) follow(variables Variables) (value ref.Val, steps int) {
	resolved, ok := any(nil), false
	if p.variable == historyVariable && len(p.steps) > 0 {
		resolved, ok = variables.ResolveName(callsVariable)
	}
	if !ok {
		if resolved, ok = variables.ResolveName(p.variable); !ok {
			return nil, 0
		}
	}
	value = celenv.Adapter{}.NativeToValue(resolved)
	for steps < len(p.steps) && value != nil && !types.IsError(value) {
		value = take(value, p.steps[steps])
		steps++
	}
	return value, steps
}

// take returns the value under a key, or nil if there is none.
func take(value, key ref.Val) ref.Val {
	switch v := value.(type) {
	case traits.Mapper:
		if found, ok := v.Find(key); ok {
			return found
		}
	case traits.Lister:
		if found := v.Get(key); !types.IsError(found) {
			return found
		}
	}
	return nil
}

// loop returns the path of a loop's variable up to the key that an error names. It returns ""
// if the path does not contain that key.
func (p path) loop(cause error) string {
	for i, step := range p.steps {
		if strings.HasSuffix(cause.Error(), "no such key: "+keyOf(step)) {
			return p.text(i + 1)
		}
	}
	return ""
}

// text formats the first steps of the path. Names of tools and agents are written as quoted
// keys, because they need not be identifiers.
func (p path) text(steps int) string {
	var text strings.Builder
	text.WriteString(p.variable)
	for i, step := range p.steps[:steps] {
		key := keyOf(step)
		isName := i == 0 && (p.variable == "recent" || p.variable == "history") && !strings.HasPrefix(key, "_")
		switch {
		case step.Type() == types.IntType:
			text.WriteString("[" + key + "]")
		case isName || !isIdentifier(key):
			text.WriteString("[" + strconv.Quote(key) + "]")
		default:
			text.WriteString("." + key)
		}
	}
	return text.String()
}

func keyOf(step ref.Val) string {
	if number, ok := step.(types.Int); ok {
		return strconv.FormatInt(int64(number), 10)
	}
	return string(step.(types.String))
}

func isIdentifier(key string) bool {
	for i := range len(key) {
		if !isWord(key[i]) || i == 0 && '0' <= key[i] && key[i] <= '9' {
			return false
		}
	}
	return key != ""
}
