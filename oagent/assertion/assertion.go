package assertion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/internal/wire"
)

// Limits on one evaluation of an expression that has a loop. An expression without a loop is
// bounded by its own text and needs no limit.
const (
	MaxCost = 2_000_000 // CEL cost units. A step through a list costs about 5. A single loop that only compares or filters costs nothing.
	MaxTime = 500 * time.Millisecond
)

// Variables are the variables of an expression over an Engagement: started_at, user, recent
// and history (OpenAgentSpec v1, Engagement). Each value is a ref.Val, or a value that
// expr.Adapter converts to one. A variable is resolved only when an expression reads it, so
// expensive values are built on demand. Parent returns nil.
//
// recent and history are queried with the names that a document uses. For a name that was not
// invoked, they return false (traits.Mapper).
type Variables = cel.Activation

// The environments are built once, because every document uses the same ones.
var (
	engagementEnvironment = sync.OnceValues(func() (*expr.Environment, error) {
		return environment(
			expr.Variable{Name: "started_at", Type: cel.TimestampType},
			expr.Variable{Name: "user", Type: expr.Fields()},
			expr.Variable{Name: "recent", Type: expr.Fields()},
			expr.Variable{Name: historyVariable, Type: expr.Fields()},
			expr.Variable{Name: callsVariable, Type: expr.Fields()})
	})
	outputEnvironment = sync.OnceValues(func() (*expr.Environment, error) {
		return environment(expr.Variable{Name: outputVariable, Type: cel.DynType})
	})
)

// environment returns the environment for expressions that decide. Such an expression cannot
// use !has(…) on text or on another unexpected type of output.
func environment(variables ...expr.Variable) (*expr.Environment, error) {
	env, err := expr.New(expr.Limits{Cost: MaxCost, FreeScans: true}, variables...)
	if err != nil {
		return nil, err
	}
	return env.WithStrictHas()
}

// historyVariable is the variable that contains the calls of the Engagement.
const historyVariable = "history"

// outputVariable is the variable that contains the whole output in a guardrail's assertion.
const outputVariable = "output"

// Source is an expression of a document.
type Source struct {
	Expression string // as written in the document
	Rule       string // its path in the document: capabilities.get-trip.input_restriction.assertion
	Line       int    // its line in the document's file
}

// expression is the common part of Assertion and Selection.
type expression struct {
	Source

	program *expr.Program
	calls   bool // it reads callsVariable
	reads   Reads
}

// Reads returns the parts of the Engagement that the expression reads.
func (e *expression) Reads() Reads {
	return e.reads
}

// String returns the expression as written in the document.
func (e *expression) String() string {
	return e.Expression
}

// Assertion is a CEL expression that yields true or false. It is compiled once and is safe for
// concurrent use.
//
// The input of an assertion depends on its place in the document:
//
//   - In a restriction, it is the Engagement. Names of tools and agents may be written without
//     quotes, as in recent.search-faqs.inputs.
//   - In a guardrail, it is only the output of the guardrail's tool. The variable output
//     contains it. If the output is an object, each member is also a variable of its own. A
//     member named output is output.output.
type Assertion struct {
	expression
	parts []expression // the operands of a && b && c, see compileParts
}

// Compile compiles an assertion of a restriction. names are the tools and agents that it may
// name. If the error concerns a position in the expression, it is an *expr.CompileError.
func Compile(source Source, names *Names) (*Assertion, error) {
	a := &Assertion{expression: expression{Source: source}}
	if err := a.compile(names); err != nil {
		return nil, err
	}
	return a, nil
}

// CompileOutput compiles an assertion of a guardrail.
func CompileOutput(source Source) (*Assertion, error) {
	a := &Assertion{expression: expression{Source: source}}
	if err := a.compileOutput(); err != nil {
		return nil, err
	}
	return a, nil
}

// compile compiles an expression over the Engagement. If the error concerns a position in the
// expression, it is an *expr.CompileError.
func (e *expression) compile(names *Names) error {
	env, err := engagementEnvironment()
	if err != nil {
		return err
	}
	rewritten, err := rewrite(e.Expression, names)
	if err != nil {
		return err
	}
	if e.program, e.calls, err = env.CompileRenamed(rewritten.text, readsCalls); err != nil {
		unknown, _ := env.Unknown(rewritten.text) // empty if the expression cannot be parsed
		return rewritten.restore(explainUnknown(err, unknown, names))
	}
	e.reads, err = survey(e.program, names)
	return rewritten.restore(err)
}

func (a *Assertion) compile(names *Names) error {
	if err := a.expression.compile(names); err != nil {
		return err
	}
	a.compileParts(names)
	return a.checkType()
}

// compileOutput compiles an expression over the output of a tool. Any name may be a member of
// the output.
func (a *Assertion) compileOutput() error {
	env, err := outputEnvironment()
	if err != nil {
		return err
	}
	rewritten, err := rewrite(a.Expression, nil)
	if err != nil {
		return err
	}
	names, err := env.Unknown(rewritten.text)
	if err != nil {
		return err
	}
	members := make([]expr.Variable, len(names))
	for i, name := range names {
		members[i] = expr.Variable{Name: name, Type: cel.DynType}
	}
	if env, err = env.With(members...); err != nil {
		return err
	}
	if a.program, err = env.Compile(rewritten.text); err != nil {
		return explainUnknown(err, nil, nil)
	}
	return a.checkType()
}

// checkType checks that the assertion yields a bool, as far as the type is known at compile
// time.
func (a *Assertion) checkType() error {
	switch kind := a.program.Type(); kind.Kind() {
	case types.BoolKind, types.DynKind, types.AnyKind, types.TypeParamKind:
		return nil
	default:
		return fmt.Errorf("an assertion must be true or false; this expression has the type %s", kind)
	}
}

// Check returns nil if the assertion of a restriction holds for the Engagement, and an
// *Error otherwise. An assertion that cannot be evaluated does not hold. CEL ignores
// an error in one operand if the other operand decides the result: true in a || b, false in a
// && b.
func (a *Assertion) Check(ctx context.Context, engagement Variables) error {
	value, err := a.evaluate(ctx, engagement)
	if err == nil && value == types.True {
		return nil
	}
	failure := a.failure(value, err, engagement)
	failure.Part = a.failing(ctx, err, engagement)
	return failure
}

// CheckOutput returns nil if the assertion of a guardrail holds for the output of its tool,
// and an *Error otherwise. The output must be JSON.
func (a *Assertion) CheckOutput(ctx context.Context, output jsontext.Value) error {
	if err := wire.Check(output); err != nil {
		return a.failure(nil, fmt.Errorf("the output of the tool is not JSON: %w", err), nil)
	}
	return a.Check(ctx, newOutputs(output))
}

var errNotCompiled = errors.New("the expression is not compiled")

func (e *expression) evaluate(ctx context.Context, variables Variables) (ref.Val, error) {
	if e.program == nil {
		return nil, errNotCompiled
	}
	if e.calls {
		variables = withCalls{variables}
	}
	if !e.program.Loops() {
		return e.program.Evaluate(variables)
	}
	if err := ctx.Err(); err != nil {
		return e.program.EvaluateContext(ctx, variables) // reports the cancellation
	}
	// Without loops the evaluation is so short that it need not check the context, which is
	// faster.
	return e.program.EvaluateWithin(MaxTime, variables)
}

// failure returns the reason why an assertion does not hold.
func (a *Assertion) failure(value ref.Val, err error, variables Variables) *Error {
	failure := &Error{Rule: a.Rule, Expression: a.Expression, Cause: err}
	switch {
	case err != nil && variables != nil && a.program != nil:
		failure.Missing, failure.Cause = a.diagnose(variables, err)
	case err == nil && value != types.False:
		failure.Cause = fmt.Errorf("it must be true or false, but has the type %s", value.Type().TypeName())
	}
	return failure
}

// outputs are the variables of a guardrail's assertion. It is a cel.Activation.
type outputs struct {
	whole expr.Node
}

func newOutputs(output jsontext.Value) *outputs {
	return &outputs{whole: expr.Node{Raw: jsontext.Value(strings.TrimSpace(string(output))), Exact: true}}
}

// ResolveName implements cel.Activation.
func (o *outputs) ResolveName(name string) (any, bool) {
	whole := o.whole.Force()
	if name == outputVariable {
		return whole, true
	}
	if object, ok := whole.(*expr.Object); ok {
		return object.Find(types.String(name))
	}
	return nil, false
}

// Parent implements cel.Activation.
func (o *outputs) Parent() cel.Activation {
	return nil
}
