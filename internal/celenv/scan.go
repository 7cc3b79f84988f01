package celenv

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
)

// comparisons are functions whose running time is at most proportional to the size of their
// arguments, and which allocate nothing. In a loop that can still be much: each of a thousand
// items searched in a list of ten thousand.
var comparisons = [...]string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, operators.Conditional,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Index, operators.In,
	overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith,
}

// isScan reports whether an expression iterates over at most one list and only compares or
// filters its items.
func isScan(root ast.NavigableExpr) bool {
	loops := ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))
	if len(loops) > 1 {
		return false
	}
	for _, call := range ast.MatchDescendants(root, ast.KindMatcher(ast.CallKind)) {
		if !slices.Contains(comparisons[:], call.AsCall().FunctionName()) && !isPick(call, loops) {
			return false
		}
	}
	return true
}

// isPick reports whether an expression adds the current item to the result of a loop if a
// condition holds, as filter does. The result then has no more items than the list.
func isPick(e ast.NavigableExpr, loops []ast.NavigableExpr) bool {
	call := e.AsCall()
	if call.FunctionName() != operators.Add || len(call.Args()) != 2 || len(loops) != 1 {
		return false
	}
	parent, ok := e.Parent()
	if !ok || parent.Kind() != ast.CallKind || parent.AsCall().FunctionName() != operators.Conditional {
		return false
	}
	loop, gathered, item := loops[0].AsComprehension(), call.Args()[0], call.Args()[1]
	return gathered.Kind() == ast.IdentKind && gathered.AsIdent() == loop.AccuVar() &&
		item.Kind() == ast.ListKind && item.AsList().Size() == 1 &&
		item.AsList().Elements()[0].Kind() == ast.IdentKind && item.AsList().Elements()[0].AsIdent() == loop.IterVar()
}
