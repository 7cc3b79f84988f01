// Package celenv provides CEL expressions for Fairway's configuration. All expressions have the
// same extensions, limits and error messages.
//
// An Environment (expr.go) declares variables and compiles expressions. A compiled expression
// is a Program (program.go), which is evaluated any number of times with the values of the
// variables. JSON values are passed in as a Node (value.go), which decodes only the
// parts that the expression uses. AppendJSON (write.go) converts the result to JSON.
//
// All work of an expression is limited: its length and nesting, the sizes of texts and lists
// (limits.go), the work of functions (bounded.go, regex.go) and, if it has a loop, its cost and
// its time (clock.go). Before evaluation, FieldOf (field.go) and the syntax tree show which
// values an expression reads, and Know (typed.go) checks its types.
package celenv

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"
)

// maxExpression limits the length of an expression, in characters.
const maxExpression = 16 << 10

const (
	// maxNodes limits the syntax tree of an expression after the expansion of macros.
	maxNodes = 4000

	// maxRecursion limits the nesting of an expression.
	maxRecursion = 50

	// maxRange limits the length of the list that lists.range returns.
	maxRange = 1000
)

// A Variable is a declared variable of expressions.
type Variable struct {
	Name string
	Type *cel.Type
}

// Fields is the type of a variable with named fields of any type.
func Fields() *cel.Type {
	return cel.MapType(cel.StringType, cel.DynType)
}

// Limits are the limits of one evaluation.
type Limits struct {
	Cost uint64 // in CEL cost units; only for an expression with a loop

	// FreeScans disables the cost limit for expressions that iterate over at most one list and
	// only compare its items. Such an expression is fast, and counting its cost would take
	// about as long again. The time limit still applies, because the values that it compares
	// with may be long.
	FreeScans bool
}

// An Environment compiles expressions over the same variables. It is immutable and safe for
// concurrent use.
type Environment struct {
	env    *cel.Env
	limits Limits
}

// New returns the environment with these variables. It has CEL with optional types, escaped
// identifiers, comparisons between all number types, and the strings, lists, math and encoders
// extensions.
func New(limits Limits, variables ...Variable) (*Environment, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(withoutMatches())),
		cel.CustomTypeAdapter(Adapter{}),
		cel.OptionalTypes(),
		cel.EnableIdentifierEscapeSyntax(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxRecursion),
		cel.ExpressionNodeLimit(maxNodes),
		ext.Strings(),
		ext.Lists(ext.ListsMaxRangeSize(maxRange)),
		ext.Math(),
		ext.Encoders(),
		bounded(),
		boundedMatches(),
	}
	env, err := cel.NewCustomEnv(append(options, declare(variables)...)...)
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &Environment{env: env, limits: limits}, nil
}

// With returns the environment with additional variables.
func (e *Environment) With(variables ...Variable) (*Environment, error) {
	env, err := e.env.Extend(declare(variables)...)
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &Environment{env: env, limits: e.limits}, nil
}

// WithStrictHas returns the environment with a has() that fails for values that cannot have
// fields, such as texts. By default has() is false for them, so that !has(…) would be true
// for unexpected values.
func (e *Environment) WithStrictHas() (*Environment, error) {
	env, err := e.env.Extend(cel.EnableErrorOnBadPresenceTest(true))
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &Environment{env: env, limits: e.limits}, nil
}

// declare returns the CEL options that declare the variables.
func declare(variables []Variable) []cel.EnvOption {
	options := make([]cel.EnvOption, len(variables))
	for i, v := range variables {
		options[i] = cel.Variable(v.Name, v.Type)
	}
	return options
}

// Unknown returns the names in the expression that the environment does not declare, in the
// order of the text. It returns an error if the expression is not valid CEL.
func (e *Environment) Unknown(expression string) ([]string, error) {
	parsed, issues := e.env.Parse(expression)
	if err := explain(issues); err != nil {
		return nil, err
	}
	root := ast.NavigateAST(parsed.NativeRep())
	seen := make(map[string]bool)
	for _, loop := range ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind)) {
		c := loop.AsComprehension()
		seen[c.IterVar()], seen[c.IterVar2()], seen[c.AccuVar()] = true, true, true
	}
	var names []string
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name := variable.AsIdent()
		if seen[name] {
			continue
		}
		seen[name] = true
		if _, known := e.env.CELTypeProvider().FindIdent(name); known || e.declares(name) {
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// declares reports whether the environment has the variable.
func (e *Environment) declares(name string) bool {
	for _, v := range e.env.Variables() {
		if v.Name() == name {
			return true
		}
	}
	return false
}

// Compile compiles an expression. An error that concerns a place in the expression is a
// *CompileError.
func (e *Environment) Compile(expression string) (*Program, error) {
	return e.compile(expression)
}

// CompilePartial compiles an expression that can be evaluated while some variables are unknown
// (cel.PartialActivation). If the result depends on them, it is a types.Unknown.
func (e *Environment) CompilePartial(expression string) (*Program, error) {
	return e.compile(expression, cel.EvalOptions(cel.OptPartialEval))
}

func (e *Environment) compile(expression string, options ...cel.ProgramOption) (*Program, error) {
	if strings.TrimSpace(expression) == "" {
		return nil, errors.New("the expression is empty")
	}
	checked, issues := e.env.Compile(expression)
	if err := explain(issues); err != nil {
		return nil, err
	}
	if err := checkLiterals(checked.NativeRep()); err != nil {
		return nil, err
	}
	return e.program(checked, options...)
}

// A CompileError reports that an expression does not compile.
type CompileError struct {
	Positions []Position // at least one
}

// A Position is an error at a position in an expression.
type Position struct {
	Line, Column int // from 1; 0 if the error concerns the whole expression
	Message      string
	Unknown      bool // the only fault is a name that the caller does not know
}

// Error returns all errors in one line.
func (f *CompileError) Error() string {
	var text strings.Builder
	text.WriteString("the expression does not compile: ")
	for i, place := range f.Positions {
		if i > 0 {
			text.WriteString("; ")
		}
		if place.Line > 0 {
			fmt.Fprintf(&text, "line %d, column %d: ", place.Line, place.Column)
		}
		text.WriteString(place.Message)
	}
	return text.String()
}

// explain converts CEL's errors about an expression.
func explain(issues *cel.Issues) error {
	const most = 3
	if issues.Err() == nil {
		return nil
	}
	var fault CompileError
	for _, issue := range issues.Errors()[:min(most, len(issues.Errors()))] {
		place := Position{Message: strings.ReplaceAll(issue.Message, "\n", " ")}
		if at := issue.Location; at != nil && at.Line() > 0 {
			place.Line, place.Column = at.Line(), at.Column()+1
		}
		fault.Positions = append(fault.Positions, place)
	}
	return &fault
}
