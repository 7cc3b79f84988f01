package expr

import (
	"fmt"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
)

// Inference is what is known about an expression before its evaluation.
type Inference struct {
	Type     *cel.Type // of the result
	Constant ref.Val   // the result, if it does not depend on variables; else nil
}

// Infer checks an expression in which the types of some parts are known more precisely than the
// environment declares them. typeOf returns the type of a part, or nil if it is unknown. If
// types do not match, the error is a *CompileError.
func (e *Environment) Infer(expression string, typeOf func(part ast.NavigableExpr) *cel.Type) (Inference, error) {
	parsed, issues := e.env.Parse(expression)
	if err := explain(issues); err != nil {
		return Inference{}, err
	}
	var variables []Variable
	names := make(map[int64]string)
	known := func(part ast.NavigableExpr) bool {
		kind := typeOf(part)
		if kind == nil {
			return false
		}
		name := "@known" + strconv.Itoa(len(variables))
		variables, names[part.ID()] = append(variables, Variable{name, kind}), name
		return true
	}
	ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), known)
	factory := ast.NewExprFactory()
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(part ast.Expr) {
		if name := names[part.ID()]; name != "" {
			part.SetKindCase(factory.NewIdent(part.ID(), name))
		}
	}))
	typed, err := e.With(variables...)
	if err != nil {
		return Inference{}, err
	}
	checked, issues := typed.env.Check(parsed)
	if err := explain(issues); err != nil {
		return Inference{}, err
	}
	k := Inference{Type: checked.OutputType()}
	k.Constant, err = typed.fold(checked)
	return k, err
}

// fold returns the value of a constant expression. It returns nil if the expression is not
// constant.
func (e *Environment) fold(checked *cel.Ast) (ref.Val, error) {
	folding, err := cel.NewConstantFoldingOptimizer()
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	optimizer, err := cel.NewStaticOptimizer(folding)
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	folded, issues := optimizer.Optimize(e.env, checked)
	if issues.Err() != nil {
		return nil, nil //nolint:nilerr // an expression that cannot be folded is not constant
	}
	if root := folded.NativeRep().Expr(); root.Kind() == ast.LiteralKind {
		return root.AsLiteral(), nil
	}
	return nil, nil
}
