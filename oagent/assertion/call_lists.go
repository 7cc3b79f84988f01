package assertion

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/fairwayhq/fairway/internal/expr"
)

// callsVariable is the internal variable that history.<capability> is read from. It differs
// from history in one way: a capability that was not called yet has an empty list. So a limit
// like size(history.refund) < 3 also works before the first call.
//
// The expressions has(history.<capability>) and "<capability>" in history, and the optional
// forms, test whether there was a call. They read history itself. No expression can contain
// this name, because it is not a CEL identifier.
const callsVariable = "@history"

// readsCalls returns callsVariable for the identifier in history.<capability>, and "" for any
// other identifier.
func readsCalls(ident ast.NavigableExpr) string {
	if ident.AsIdent() != historyVariable {
		return ""
	}
	parent, ok := ident.Parent()
	if !ok || isPresence(parent) {
		return ""
	}
	switch parent.Kind() {
	case ast.SelectKind:
	case ast.CallKind:
		if parent.AsCall().FunctionName() != operators.Index {
			return ""
		}
	default:
		return ""
	}
	if field, ok := expr.FieldOf(ident); !ok || strings.HasPrefix(field, "_") || expr.IsShadowed(rootOf(ident), historyVariable) {
		return ""
	}
	return callsVariable
}

func rootOf(e ast.NavigableExpr) ast.NavigableExpr {
	for {
		parent, ok := e.Parent()
		if !ok {
			return e
		}
		e = parent
	}
}

// withCalls adds callsVariable to the variables.
type withCalls struct{ Variables }

// ResolveName implements cel.Activation.
func (v withCalls) ResolveName(name string) (any, bool) {
	if name != callsVariable {
		return v.Variables.ResolveName(name)
	}
	history, ok := v.Variables.ResolveName(historyVariable)
	if !ok {
		return nil, false
	}
	if m, ok := (expr.Adapter{}).NativeToValue(history).(traits.Mapper); ok {
		return callLists{m}, true
	}
	return history, true
}

// Parent implements cel.Activation.
func (v withCalls) Parent() cel.Activation { return nil }

// callLists is history with an empty list for each capability that was not called yet.
type callLists struct{ traits.Mapper }

var noCalls = types.NewRefValList(expr.Adapter{}, nil)

// Find implements traits.Mapper.
func (c callLists) Find(key ref.Val) (ref.Val, bool) {
	if found, ok := c.Mapper.Find(key); ok {
		return found, true
	}
	return noCalls, true
}

// Get implements traits.Indexer.
func (c callLists) Get(key ref.Val) ref.Val {
	found, _ := c.Find(key)
	return found
}
