package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
)

// comparisons are functions that take no longer than what they look at is long,
// and make nothing. In a loop that can be much: each of a thousand items looked
// for in a list of ten thousand.
var comparisons = [...]string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, operators.Conditional,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Index, operators.In,
	overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith,
}

// isScan reports whether an expression walks through one list at most once, and
// only compares.
func isScan(root ast.NavigableExpr) bool {
	if len(ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))) > 1 {
		return false
	}
	for _, call := range ast.MatchDescendants(root, ast.KindMatcher(ast.CallKind)) {
		if !slices.Contains(comparisons[:], call.AsCall().FunctionName()) {
			return false
		}
	}
	return true
}
