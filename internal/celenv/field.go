package celenv

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// FieldOf returns the name of the field that an expression selects from operand, if it selects
// one by a constant name: x.f, x["f"], x.?f, x[?"f"] or has(x.f).
func FieldOf(operand ast.NavigableExpr) (field string, ok bool) {
	parent, ok := operand.Parent()
	if !ok {
		return "", false
	}
	switch parent.Kind() {
	case ast.SelectKind:
		return parent.AsSelect().FieldName(), true
	case ast.CallKind:
		key, ok := indexOfCall(parent, operand)
		if !ok || key.Kind() != ast.LiteralKind {
			return "", false
		}
		name, ok := key.AsLiteral().(types.String)
		return string(name), ok
	}
	return "", false
}

// indexOfCall returns the index if the call indexes the operand.
func indexOfCall(parent, operand ast.NavigableExpr) (key ast.Expr, ok bool) {
	call := parent.AsCall()
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return nil, false
	}
	arguments := call.Args()
	if len(arguments) != 2 || arguments[0].ID() != operand.ID() {
		return nil, false
	}
	return arguments[1], true
}

// IsShadowed reports whether a loop of the expression has a variable with that name.
func IsShadowed(root ast.NavigableExpr, name string) bool {
	for _, loop := range ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind)) {
		if c := loop.AsComprehension(); c.IterVar() == name || c.IterVar2() == name {
			return true
		}
	}
	return false
}
