package oagent

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

// The limits on one evaluation of an expression that has a loop. Without a loop
// an expression does no more than its text says.
const (
	MaxCost = 2_000_000 // CEL cost units; a step through a list is about 5, and none if there is one loop, which only compares or filters
	MaxTime = 500 * time.Millisecond
)

// Variables are what an expression sees of an Engagement, by the names
// started_at, user, recent and history (OpenAgentSpec v1, Engagement). Each value
// is a ref.Val, or what expr.Adapter makes one of. It is asked for when an
// expression looks at it, so that one which is dear to make can be made then.
// Parent returns nil.
//
// recent and history are asked for the names that a document uses, and answer
// false (traits.Mapper) for one that was not invoked.
type Variables = cel.Activation

// environments are made once: they are the same for every document.
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

// environment is of expressions that decide: !has(…) must not hold of a text, or
// of whatever else an answer is that nobody had in mind.
func environment(variables ...expr.Variable) (*expr.Environment, error) {
	env, err := expr.New(expr.Limits{Cost: MaxCost, FreeScans: true}, variables...)
	if err != nil {
		return nil, err
	}
	return env.WithStrictHas()
}

// historyVariable has the calls that were made.
const historyVariable = "history"

// outputVariable is what a guardrail's assertion calls the whole output.
const outputVariable = "output"

// expression is what Assertion and Selection have in common.
type expression struct {
	Expression string // as the document has it
	Rule       string // its path in the document: capabilities.get-trip.input_restriction.assertion
	Line       int    // where it stands in the document's file

	program *expr.Program
	calls   bool // it reads callsVariable
	reads   Reads
}

// Reads says what the expression looks at.
func (e *expression) Reads() Reads {
	return e.reads
}

// String returns the expression as the document has it.
func (e *expression) String() string {
	return e.Expression
}

// An Assertion is a CEL expression that holds or not. It is compiled once, and
// safe for concurrent use.
//
// That of a restriction sees the Engagement; names of tools and agents may be
// written as they are, as in recent.search-faqs.inputs. That of a guardrail sees
// the output of its tool alone: as output, and if that is an object, each of its
// members by its name. A member named output is output.output.
type Assertion struct {
	expression
	parts []expression // see compileParts
}

// NewAssertion compiles an assertion of a restriction that may name these tools
// and agents. Rule is its path in the document, for errors.
func NewAssertion(text, rule string, names []string) (*Assertion, error) {
	a := &Assertion{expression: expression{Expression: text, Rule: rule}}
	if err := a.compile(newNameset(names)); err != nil {
		return nil, err
	}
	return a, nil
}

// NewOutputAssertion compiles an assertion of a guardrail.
func NewOutputAssertion(text, rule string) (*Assertion, error) {
	a := &Assertion{expression: expression{Expression: text, Rule: rule}}
	if err := a.compileOutput(); err != nil {
		return nil, err
	}
	return a, nil
}

// compile compiles an expression over the Engagement. The error is an *expr.CompileError
// if it is about a place in the expression.
func (e *expression) compile(names *nameset) error {
	env, err := engagementEnvironment()
	if err != nil {
		return err
	}
	rewritten, err := rewrite(e.Expression, names)
	if err != nil {
		return err
	}
	if e.program, e.calls, err = env.CompileRenamed(rewritten.text, readsCalls); err != nil {
		unknown, _ := env.Unknown(rewritten.text) // none if it cannot be parsed
		return rewritten.restore(explainNames(err, unknown, names))
	}
	e.reads, err = survey(e.program, names)
	return rewritten.restore(err)
}

func (a *Assertion) compile(names *nameset) error {
	if err := a.expression.compile(names); err != nil {
		return err
	}
	a.compileParts(names)
	return a.checkType()
}

// compileOutput compiles an expression over the output of a tool. What it names
// may be a member of that.
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
		return explainNames(err, nil, nil)
	}
	return a.checkType()
}

// checkType checks that the assertion yields a bool, as far as that is known
// before it is evaluated.
func (a *Assertion) checkType() error {
	switch kind := a.program.Type(); kind.Kind() {
	case types.BoolKind, types.DynKind, types.AnyKind, types.TypeParamKind:
		return nil
	default:
		return fmt.Errorf("an assertion must be true or false; this is a value of type %s", kind)
	}
}

// Check returns nil if the assertion of a restriction holds for the Engagement,
// else an *AssertionError. What cannot be decided does not hold. A part that
// cannot be decided, and does not matter, is passed over as CEL has it: where the
// other side of || is true, or of && is false.
func (a *Assertion) Check(ctx context.Context, engagement Variables) error {
	value, err := a.evaluate(ctx, engagement)
	if err == nil && value == types.True {
		return nil
	}
	failure := a.failure(value, err, engagement)
	failure.Part = a.failing(ctx, err, engagement)
	return failure
}

// CheckOutput returns nil if the assertion of a guardrail holds for the output
// of its tool, which is JSON, else an *AssertionError.
func (a *Assertion) CheckOutput(ctx context.Context, output jsontext.Value) error {
	if err := wire.Check(output); err != nil {
		return a.failure(nil, fmt.Errorf("the output of the tool is no JSON: %w", err), nil)
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
		return e.program.EvaluateContext(ctx, variables) // which says so
	}
	// What lasts so short a time need not end sooner, and not to look is quicker.
	return e.program.EvaluateWithin(MaxTime, variables)
}

// failure returns why an assertion does not hold.
func (a *Assertion) failure(value ref.Val, err error, variables Variables) *AssertionError {
	failure := &AssertionError{Rule: a.Rule, Expression: a.Expression, Cause: err}
	switch {
	case err != nil && variables != nil && a.program != nil:
		failure.Missing, failure.Cause = a.diagnose(variables, err)
	case err == nil && value != types.False:
		failure.Cause = fmt.Errorf("it must be true or false, and is a value of type %s", value.Type().TypeName())
	}
	return failure
}

// An AssertionError says why an assertion does not hold.
type AssertionError struct {
	Rule       string // path of the assertion in the document
	Expression string // as the document has it
	Part       string // of an expression a && b && c the one that fails; "" if it is not known
	Missing    string // the path that is not there, if that is the cause: recent["refund"].outputs.status
	Cause      error  // why it could not be evaluated; nil if it was, and is false
}

// maxTold is how much of an expression an error tells, in bytes.
const maxTold = 500

// Error says which assertion it is and why it does not hold. It may quote names
// and values of the Engagement.
func (e *AssertionError) Error() string {
	return describeFailure(e.Rule, e.Expression, e.Part, e.Missing, e.Cause)
}

// Unwrap returns the cause.
func (e *AssertionError) Unwrap() error {
	return e.Cause
}

func describeFailure(rule, expression, part, missing string, cause error) string {
	told := oneLine(expression)
	if part != "" {
		told = oneLine(part) + " (a part of: " + told + ")"
	}
	switch {
	case missing != "":
		return fmt.Sprintf("%s cannot be decided, because %s is missing: %s", rule, missing, told)
	case cause != nil:
		return fmt.Sprintf("%s cannot be decided: %v: %s", rule, cause, told)
	}
	return fmt.Sprintf("%s does not hold: %s", rule, told)
}

// oneLine returns an expression as an error tells it.
func oneLine(expression string) string {
	told := strings.Join(strings.Fields(expression), " ")
	if len(told) > maxTold {
		told = strings.ToValidUTF8(told[:maxTold], "") + "…"
	}
	return told
}

// outputs are what a guardrail's assertion sees, a cel.Activation.
type outputs struct {
	whole expr.Node
}

func newOutputs(output jsontext.Value) *outputs {
	return &outputs{whole: expr.Node{Raw: jsontext.Value(strings.TrimSpace(string(output))), Exact: true}}
}

// ResolveName implements cel.Activation.
func (o *outputs) ResolveName(name string) (any, bool) {
	whole := o.whole.Look()
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
