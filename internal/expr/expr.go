// Package expr is CEL as Fairway's configuration has it: one environment, with
// the same extensions, limits and error texts wherever an expression may stand.
//
// An Environment declares variables and compiles expressions; a Program is one
// of them, compiled once and run over an activation. JSON becomes CEL values
// through a Node, which is taken apart as far as an expression looks into it,
// and CEL values become JSON through AppendJSON.
//
// Nothing that an expression does grows without bound: its text, its nesting,
// what a function may look at or make, and, where it has a loop, its cost and
// its time. FieldOf and the syntax tree tell what an expression reads before it
// is run.
package expr

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"
)

// MaxExpression is how long an expression may be, in characters.
const MaxExpression = 16 << 10

const (
	// maxNodes bounds an expression with its macros expanded.
	maxNodes = 4000

	// maxRecursion bounds its nesting.
	maxRecursion = 50

	// maxRange is the longest list that lists.range makes.
	maxRange = 1000
)

// A Variable is what an expression may name.
type Variable struct {
	Name string
	Type *cel.Type
}

// Fields is the type of a variable that has fields by name, of any type.
func Fields() *cel.Type {
	return cel.MapType(cel.StringType, cel.DynType)
}

// Limits bound one evaluation of an expression.
type Limits struct {
	Cost uint64 // CEL cost units of an expression with a loop

	// FreeScans lets an expression walk through one list once, and compare, at no
	// cost: that is quick, and counting what it costs would take as long again.
	// What it compares with may be long as well, so that time still bounds it.
	FreeScans bool
}

// An Environment compiles expressions over the same variables. It is immutable
// and safe for concurrent use.
type Environment struct {
	env    *cel.Env
	limits Limits
}

// New returns the environment of these variables: CEL with optional types,
// escaped identifiers, comparisons of all numbers with one another, and the
// strings, lists, math and encoders extensions.
func New(limits Limits, variables ...Variable) (*Environment, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(withoutMatches())),
		cel.CustomTypeAdapter(Adapter{}),
		cel.OptionalTypes(),
		cel.EnableIdentifierEscapeSyntax(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxExpression),
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

// With returns the environment with more variables.
func (e *Environment) With(variables ...Variable) (*Environment, error) {
	env, err := e.env.Extend(declare(variables)...)
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &Environment{env: env, limits: e.limits}, nil
}

// WithStrictHas returns the environment with a has() that fails on what cannot
// have fields: text, say. Otherwise it says no, and !has(…) holds of everything
// that is not what its author had in mind.
func (e *Environment) WithStrictHas() (*Environment, error) {
	env, err := e.env.Extend(cel.EnableErrorOnBadPresenceTest(true))
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &Environment{env: env, limits: e.limits}, nil
}

func declare(variables []Variable) []cel.EnvOption {
	options := make([]cel.EnvOption, len(variables))
	for i, v := range variables {
		options[i] = cel.Variable(v.Name, v.Type)
	}
	return options
}

// Unknown returns the names that the expression uses and the environment does
// not have, in the order of the text. It fails if the expression is no CEL.
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

func (e *Environment) declares(name string) bool {
	for _, v := range e.env.Variables() {
		if v.Name() == name {
			return true
		}
	}
	return false
}

// Compile compiles an expression. The error is a *CompileError if it is about a place
// in the expression.
func (e *Environment) Compile(expression string) (*Program, error) {
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
	return e.program(checked)
}

// A CompileError says that an expression does not compile.
type CompileError struct {
	Places []Place // one at least
}

// A Place is something wrong at a place in an expression.
type Place struct {
	Line, Column int // from 1; 0 if it is about the whole
	Message      string
}

// Error returns all of it in one line.
func (f *CompileError) Error() string {
	var text strings.Builder
	text.WriteString("the expression does not compile: ")
	for i, place := range f.Places {
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

// explain returns what CEL says of an expression.
func explain(issues *cel.Issues) error {
	const most = 3
	if issues.Err() == nil {
		return nil
	}
	var fault CompileError
	for _, issue := range issues.Errors()[:min(most, len(issues.Errors()))] {
		place := Place{Message: strings.ReplaceAll(issue.Message, "\n", " ")}
		if at := issue.Location; at != nil && at.Line() > 0 {
			place.Line, place.Column = at.Line(), at.Column()+1
		}
		fault.Places = append(fault.Places, place)
	}
	return &fault
}
