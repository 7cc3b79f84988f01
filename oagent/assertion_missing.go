package oagent

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

// A path is a variable and what is taken of it by literal keys.
type path struct {
	variable string
	steps    []ref.Val // texts and ints
}

// missing returns the path that made an evaluation fail because it is not there,
// "" if that was not the cause or the path is made up while the expression runs.
func missing(root ast.NavigableExpr, variables Variables, cause error) string {
	if expr.IsCutOff(cause) {
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

// stepOf returns what a parent takes of an operand by a literal key, nil if it
// does not, or asks whether it is there.
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

// find follows the path to what is missing. Key is what the error about it says.
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

// follow returns the value of the path, and how many steps lead to it. The value is
// nil if what they lead to is not there, and an error, a *types.Err, if it cannot be
// looked at.
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

// take returns what a value has under a key, nil if nothing.
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

// loop returns the path of a loop's variable up to the key that an error is
// about, "" if it has no such key.
func (p path) loop(cause error) string {
	for i, step := range p.steps {
		if strings.HasSuffix(cause.Error(), "no such key: "+keyOf(step)) {
			return p.text(i + 1)
		}
	}
	return ""
}

// text writes the path with so many steps. Names of tools and agents are
// written as keys, because they need not be identifiers.
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
