package assertion

import (
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/fairwayhq/fairway/internal/expr"
)

// path is a variable and the literal keys selected from it.
type path struct {
	variable string
	steps    []ref.Val // strings and ints
}

// missing returns the path whose absence made an evaluation fail. It returns "" if that was
// not the cause, or if the path is computed while the expression runs.
func missing(root ast.NavigableExpr, variables Variables, cause error) string {
	if expr.IsInterrupted(cause) {
		return ""
	}
	first := ""
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		p := pathOf(variable)
		if strings.HasPrefix(p.variable, "@") {
			continue
		}
		if expr.IsShadowed(root, p.variable) {
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
	value = expr.Adapter{}.NativeToValue(resolved)
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
