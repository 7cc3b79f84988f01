package celenv

import (
	"fmt"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
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
	k.Constant, err = typed.constant(checked)
	return k, err
}

// maxConstantCost limits the evaluation that finds out whether an expression is constant, in CEL cost
// units. An expression that exceeds it counts as not constant.
const maxConstantCost = 1000

// constant returns the value of an expression that does not depend on variables. It returns nil if
// the expression depends on them, or has no value. The expression is evaluated only once: CEL's optimizer for
// constant expressions evaluates each loop on its own, and without a cost limit.
func (e *Environment) constant(checked *cel.Ast) (ref.Val, error) {
	program, err := e.env.Program(checked, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(maxConstantCost),
		cel.CostTrackerOptions(interpreter.OverloadCostTracker("add_list", sizeOfResult)))
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be used: %w", err)
	}
	unknown, err := e.env.PartialVars(cel.NoVars())
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	value, _, err := program.Eval(unknown)
	if err != nil || types.IsUnknown(value) {
		return nil, nil //nolint:nilerr // an expression without a value is not constant
	}
	return value, nil
}
