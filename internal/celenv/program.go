package celenv

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

// interruptEvery is the number of iterations of a loop between two checks of the time limit.
const interruptEvery = 32

// A Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	cel   cel.Program
	tree  *ast.AST
	kind  *cel.Type
	loops bool // it has a loop and can be interrupted
	costs bool // it has a cost limit
}

// program creates the program of a checked expression.
func (e *Environment) program(checked *cel.Ast, options ...cel.ProgramOption) (*Program, error) {
	p := &Program{tree: checked.NativeRep(), kind: checked.OutputType()}
	p.loops = len(ast.MatchDescendants(p.Root(), ast.KindMatcher(ast.ComprehensionKind))) > 0
	options = append(options, cel.EvalOptions(cel.OptOptimize))
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

// Loops reports whether the program has a loop. Only programs with a loop can be interrupted.
func (p *Program) Loops() bool {
	return p.loops
}

// Type returns the type of the program's result, as far as it is known.
func (p *Program) Type() *cel.Type {
	return p.kind
}

// Root returns the syntax tree, with macros expanded.
func (p *Program) Root() ast.NavigableExpr {
	return ast.NavigateAST(p.tree)
}

// Position returns the line and column, from 1, at which a part of the syntax tree begins. They
// are 0 if unknown.
func (p *Program) Position(part ast.Expr) (line, column int) {
	at := p.tree.SourceInfo().GetStartLocation(part.ID())
	if at == nil || at.Line() < 1 {
		return 0, 0
	}
	return at.Line(), at.Column() + 1
}

// Evaluate evaluates a program without a time limit.
func (p *Program) Evaluate(variables cel.Activation) (ref.Val, error) {
	value, _, err := p.cel.Eval(variables)
	return value, err
}

// EvaluateContext evaluates a program. If the program has a loop, it is interrupted when ctx is
// done, and the error is an interpreter.InterruptError.
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

// IsTimeout reports whether a time limit or the context ended an evaluation.
func IsTimeout(err error) bool {
	return errors.Is(err, interpreter.InterruptError{})
}

// IsInterrupted reports whether the cost limit or the context ended an evaluation.
func IsInterrupted(err error) bool {
	_, cancelled := errors.AsType[interpreter.EvalCancelledError](err)
	return cancelled || IsTimeout(err)
}

// sizeOfResult is the cost of concatenating lists. CEL concatenates without copying, so that a
// few steps could otherwise produce a list that is too long to iterate over.
func sizeOfResult(_ []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	if list, ok := result.(traits.Lister); ok {
		if size, ok := list.Size().(types.Int); ok && size > 0 {
			cost += uint64(size)
		}
	}
	return &cost
}
