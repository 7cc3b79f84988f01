package expr

import (
	"context"
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// interruptEvery is how many iterations of a loop pass between two looks at
// the clock.
const interruptEvery = 32

// A Program is a compiled expression. It is immutable and safe for concurrent
// use.
type Program struct {
	cel   cel.Program
	tree  *ast.AST
	kind  *cel.Type
	loops bool // so that it can be interrupted
	costs bool // so that it has a cost limit
}

func (e *Environment) program(checked *cel.Ast) (*Program, error) {
	p := &Program{tree: checked.NativeRep(), kind: checked.OutputType()}
	p.loops = len(ast.MatchDescendants(p.Root(), ast.KindMatcher(ast.ComprehensionKind))) > 0
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if p.loops {
		options = append(options, cel.InterruptCheckFrequency(interruptEvery))
	}
	if p.costs = p.loops && (!e.limits.FreeScans || !isScan(p.Root())); p.costs {
		options = append(options,
			cel.CostLimit(e.limits.Cost),
			cel.CostTrackerOptions(interpreter.OverloadCostTracker("add_list", sizeOfResult)))
	}
	var err error
	if p.cel, err = e.env.Program(checked, options...); err != nil {
		return nil, fmt.Errorf("the expression cannot be used: %w", err)
	}
	return p, nil
}

// Loops reports whether the program has a loop. Only such a program can be
// interrupted.
func (p *Program) Loops() bool {
	return p.loops
}

// Costs reports whether the program has a cost limit.
func (p *Program) Costs() bool {
	return p.costs
}

// Type returns the type of what the program yields, as far as it is known.
func (p *Program) Type() *cel.Type {
	return p.kind
}

// Root returns the syntax tree, with macros expanded.
func (p *Program) Root() ast.NavigableExpr {
	return ast.NavigateAST(p.tree)
}

// Where returns the line and column, from 1, at which a part of the syntax tree
// begins; 0 if that is not known.
func (p *Program) Where(part ast.Expr) (line, column int) {
	at := p.tree.SourceInfo().GetStartLocation(part.ID())
	if at == nil || at.Line() < 1 {
		return 0, 0
	}
	return at.Line(), at.Column() + 1
}

// Evaluate runs a program to its end.
func (p *Program) Evaluate(variables cel.Activation) (ref.Val, error) {
	value, _, err := p.cel.Eval(variables)
	return value, err
}

// EvaluateContext runs a program that is interrupted when ctx is done, if it
// has a loop. The error is an interpreter.InterruptError then.
func (p *Program) EvaluateContext(ctx context.Context, variables cel.Activation) (ref.Val, error) {
	if !p.loops {
		return p.Evaluate(variables)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", interpreter.InterruptError{}, err)
	}
	value, _, err := p.cel.ContextEval(ctx, variables)
	return value, err
}

// IsCutOff reports whether an evaluation was ended by its cost limit or its
// context.
func IsCutOff(err error) bool {
	_, cancelled := errors.AsType[interpreter.EvalCancelledError](err)
	return cancelled || errors.Is(err, interpreter.InterruptError{})
}

// sizeOfResult is the cost of adding lists. CEL joins them without copying, so
// that a few steps can make one that is longer than anything could walk through.
func sizeOfResult(_ []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	if list, ok := result.(traits.Lister); ok {
		if size, ok := list.Size().(types.Int); ok && size > 0 {
			cost += uint64(size)
		}
	}
	return &cost
}
