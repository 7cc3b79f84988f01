package assertion

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Limits on one evaluation of an expression that has a loop. An expression without a loop is
// bounded by its own text and needs no limit.
const (
	maxCost = 2_000_000 // CEL cost units. A step through a list costs about 5. A single loop that only compares or filters costs nothing.
	maxTime = 500 * time.Millisecond
)

// Variables are the variables of an expression over an Engagement: started_at, user, recent
// and history (OpenAgentSpec v1, Engagement). Each value is a ref.Val, or a value that
// celenv.Adapter converts to one. A variable is resolved only when an expression reads it, so
// expensive values are built on demand. Parent returns nil.
//
// recent and history are queried with the names that a document uses. For a name that was not
// invoked, they return false (traits.Mapper).
type Variables = cel.Activation

// The environments are built once, because every document uses the same ones.
var (
	engagementEnvironment = sync.OnceValues(func() (*celenv.Environment, error) {
		return environment(
			celenv.Variable{Name: "started_at", Type: cel.TimestampType},
			celenv.Variable{Name: "user", Type: celenv.Fields()},
			celenv.Variable{Name: "recent", Type: celenv.Fields()},
			celenv.Variable{Name: historyVariable, Type: celenv.Fields()},
			celenv.Variable{Name: callsVariable, Type: celenv.Fields()})
	})
	outputEnvironment = sync.OnceValues(func() (*celenv.Environment, error) {
		return environment(celenv.Variable{Name: outputVariable, Type: cel.DynType})
	})
)

// environment returns the environment for expressions that decide. Such an expression cannot
// use !has(…) on text or on another unexpected type of output.
func environment(variables ...celenv.Variable) (*celenv.Environment, error) {
	env, err := celenv.New(celenv.Limits{Cost: maxCost, FreeScans: true}, variables...)
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

	program *celenv.Program
	calls   bool // it reads callsVariable
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
// name. If the error concerns a position in the expression, it is an *celenv.CompileError.
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
// expression, it is an *celenv.CompileError.
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
	return rewritten.restore(checkPaths(e.program, names))
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
	members := make([]celenv.Variable, len(names))
	for i, name := range names {
		members[i] = celenv.Variable{Name: name, Type: cel.DynType}
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
// *Error otherwise. If the share of the caller in View.Slots is used up, the error is a *share.FullError.
// An assertion that cannot be evaluated does not hold. CEL ignores
// an error in one operand if the other operand decides the result: true in a || b, false in a
// && b.
func (a *Assertion) Check(ctx context.Context, engagement Variables) error {
	value, err := a.evaluate(ctx, engagement)
	if err == nil && value == types.True {
		return nil
	}
	if _, full := errors.AsType[*share.FullError](err); full {
		return err
	}
	failure := a.failure(value, err, engagement)
	failure.Part = a.failing(ctx, err, engagement)
	return failure
}

// CheckOutput returns nil if the assertion of a guardrail holds for the output of its tool,
// and an *Error otherwise. The output must be JSON.
func (a *Assertion) CheckOutput(ctx context.Context, output jsontext.Value) error {
	if err := strictjson.Check(output); err != nil {
		return a.failure(nil, fmt.Errorf("the output of the tool is not JSON: %w", err), nil)
	}
	return a.Check(ctx, &outputs{whole: celenv.Node{Raw: jsontext.Value(strings.TrimSpace(string(output))), Exact: true}})
}

func (e *expression) evaluate(ctx context.Context, variables Variables) (ref.Val, error) {
	if e.program == nil {
		return nil, errors.New("the expression is not compiled")
	}
	view, _ := variables.(*View)
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
	if view == nil || view.Slots == nil {
		return e.program.EvaluateWithin(maxTime, variables)
	}
	value, err := e.program.EvaluateWithin(view.Slots.free(view.Owner), variables)
	if !celenv.IsTimeout(err) {
		return value, err
	}
	give, err := view.Slots.take(view.Owner, view.Pending == nil || view.Pending.Nth > 0)
	if err != nil {
		return nil, err
	}
	defer give()
	return e.program.EvaluateWithin(maxTime, variables)
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
	whole celenv.Node
}

// ResolveName implements cel.Activation.
func (o *outputs) ResolveName(name string) (any, bool) {
	whole := o.whole.Force()
	if name == outputVariable {
		return whole, true
	}
	if object, ok := whole.(*celenv.Object); ok {
		return object.Find(types.String(name))
	}
	return nil, false
}

// Parent implements cel.Activation.
func (o *outputs) Parent() cel.Activation {
	return nil
}

// maxParts is the maximum number of parts that errors distinguish. If an assertion has more
// parts, errors name it as a whole.
const maxParts = 32

// compileParts compiles the parts of an assertion of the form a && b && c separately, so that
// errors can name the failing part. An assertion of another form has no parts.
func (a *Assertion) compileParts(names *Names) {
	parts := conjuncts(a.Expression)
	if len(parts) < 2 || len(parts) > maxParts {
		return
	}
	compiled := make([]expression, len(parts))
	for i, part := range parts {
		compiled[i] = expression{Source: Source{Expression: part, Rule: a.Rule}}
		if compiled[i].compile(names) != nil {
			return
		}
	}
	a.parts = compiled
}

// failing returns the part that made the assertion fail. If the assertion evaluated to false,
// that is the first false part. If it could not be evaluated, that is the first part with an
// error. It returns "" if the assertion has no parts, or took too long.
func (a *Assertion) failing(ctx context.Context, err error, variables Variables) string {
	if err != nil && celenv.IsInterrupted(err) {
		return ""
	}
	for i := range a.parts {
		value, failed := a.parts[i].evaluate(ctx, variables)
		if err != nil && failed != nil || err == nil && failed == nil && value == types.False {
			return a.parts[i].Expression
		}
	}
	return ""
}

// conjuncts splits an expression at && if && is its loosest operator. It returns nil for an
// expression of another form.
func conjuncts(source string) (parts []string) {
	w := &rewriter{source: source}
	depth, start := 0, 0
	for w.at < len(source) {
		rest := source[w.at:]
		switch c := source[w.at]; {
		case c == '"' || c == '\'':
			w.skipLiteral(false)
			continue
		case c == '`':
			w.skipTo("`")
			continue
		case strings.HasPrefix(rest, "//"):
			return nil
		case isWord(c):
			if w.word() != nil {
				return nil
			}
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case depth > 0:
		case strings.HasPrefix(rest, "||"), c == '?' && w.at > 0 && source[w.at-1] != '.':
			return nil
		case strings.HasPrefix(rest, "&&"):
			parts = append(parts, strings.TrimSpace(source[start:w.at]))
			start = w.at + len("&&")
			w.at++
		}
		w.at++
	}
	return append(parts, strings.TrimSpace(source[start:]))
}

// maxExposed is the maximum size of an exposed value, in bytes of JSON.
const maxExposed = 64 << 10

// Selection is a CEL expression that selects a value of an Engagement. It is compiled once and
// is safe for concurrent use.
type Selection struct {
	expression
}

// CompileSelection compiles a selection. names are the tools and agents that it may name. If it only
// names others, see IsUnknownName, the selection is returned beside the error. It selects nothing.
func CompileSelection(source Source, names *Names) (*Selection, error) {
	s := &Selection{expression{Source: source}}
	err := s.compile(names)
	if err != nil && !IsUnknownName(err) {
		return nil, err
	}
	return s, err
}

// IsUnknownName reports whether an expression does not compile only because it names tools or agents
// that are not among the names.
func IsUnknownName(err error) bool {
	fault, ok := errors.AsType[*celenv.CompileError](err)
	return ok && !slices.ContainsFunc(fault.Positions, func(p celenv.Position) bool { return !p.Unknown })
}

// Append appends the value as JSON. An empty optional becomes null. The error is a
// *Error, and then dst is returned unchanged.
func (s *Selection) Append(ctx context.Context, dst []byte, engagement Variables) ([]byte, error) {
	value, err := s.evaluate(ctx, engagement)
	if err != nil {
		failure := &Error{Rule: s.Rule, Expression: s.Expression, Cause: err}
		if s.program != nil {
			failure.Missing, failure.Cause = s.diagnose(engagement, err)
		}
		return dst, failure
	}
	if value = celenv.Unwrap(value); value == nil {
		value = types.NullValue
	}
	written, err := celenv.AppendJSON(dst, value, len(dst)+maxExposed)
	if err != nil {
		return dst, &Error{Rule: s.Rule, Expression: s.Expression, Cause: err}
	}
	return written, nil
}

// How long an evaluation runs without a slot. Nearly all evaluations end sooner. The time is shorter for
// callers whose share is used up, because they could otherwise use all processors with calls that are refused.
const (
	freeTime     = 20 * time.Millisecond
	freeTimeFull = 2 * time.Millisecond
)

// Slots limits how many evaluations that take longer than 20 ms run at a time, so that one caller does not
// use all processors. Each caller has a share of the slots. It is safe for concurrent use.
type Slots struct {
	bound *share.Bound
	taken atomic.Int64
	queue sync.Mutex
}

// NewSlots returns a Slots with a slot for each processor, and at least two.
func NewSlots() *Slots {
	return &Slots{bound: share.NewBound(share.Options{Name: "long-running checks", Limit: int64(max(2, runtime.GOMAXPROCS(0)))})}
}

// free returns how long an evaluation may run without a slot.
func (s *Slots) free(o share.Owner) time.Duration {
	if s.taken.Load() > 0 && s.bound.Check(o, 1) != nil {
		return freeTimeFull
	}
	return freeTime
}

// take takes a slot. If there is none for the owner, the error is a *share.FullError. Exception: if the call
// was made, its result must be checked, so take waits for the other calls without a slot.
func (s *Slots) take(o share.Owner, made bool) (give func(), err error) {
	if err = s.bound.Take(o, 1); err == nil {
		s.taken.Add(1)
		return func() {
			s.bound.Give(o, 1)
			s.taken.Add(-1)
		}, nil
	}
	if !made {
		return nil, err
	}
	s.queue.Lock()
	return s.queue.Unlock, nil
}
