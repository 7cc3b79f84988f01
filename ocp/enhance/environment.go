package enhance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxNodes bounds an expression with its macros expanded.
	maxNodes = 4000

	// maxRecursion bounds its nesting.
	maxRecursion = 50

	// maxRegex bounds a regular expression, in instructions.
	maxRegex = 512

	// maxRange is the longest list that lists.range makes.
	maxRange = 1000

	// interruptEvery is how many iterations of a loop pass between two looks at
	// the clock.
	interruptEvery = 32
)

// fieldsOf are the fields of each variable whose fields are known.
var fieldsOf = map[string][]string{
	"ocp": {
		"context_id", "agent_type", "user", "workspace", "current_file", "current_goal", "context_summary",
		"error_context", "recent_changes", "session", "history", "api_specs", "created_at", "last_updated",
	},
	"request":  {"method", "path", "query", "headers"},
	"response": {"status", "headers", "body"},
	"tool":     {"name", "operation_id", "method", "path", "tags"},
}

// An environment compiles expressions.
type environment struct {
	env  *cel.Env
	cost uint64
}

func newEnvironment(cost uint64) (*environment, error) {
	fields := cel.MapType(cel.StringType, cel.DynType)
	env, err := cel.NewEnv(
		cel.Variable("ocp", fields),
		cel.Variable("request", fields),
		cel.Variable("response", fields),
		cel.Variable("tool", fields),
		cel.Variable("item", cel.DynType),
		cel.CustomTypeAdapter(adapter{}),
		cel.OptionalTypes(),
		cel.EnableIdentifierEscapeSyntax(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(maxRecursion),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
		ext.Strings(),
		ext.Lists(ext.ListsMaxRangeSize(maxRange)),
		ext.Math(),
		ext.Encoders(),
		bounded(),
	)
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	return &environment{env: env, cost: cost}, nil
}

// A program is a compiled expression.
type program struct {
	cel    cel.Program
	loops  bool           // it has a loop, so that its cost is not plain from its length
	reads  []string       // fields of the context
	schema jsontext.Value // of what it yields
}

func (e *environment) compile(expression string) (*program, error) {
	if strings.TrimSpace(expression) == "" {
		return nil, errors.New("the expression is empty")
	}
	checked, issues := e.env.Compile(expression)
	if err := explain(issues); err != nil {
		return nil, err
	}
	p := &program{schema: appendSchema(nil, checked.OutputType(), 0)}
	if err := p.survey(checked.NativeRep()); err != nil {
		return nil, err
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if p.loops {
		options = append(options,
			cel.CostLimit(e.cost),
			cel.CostTrackerOptions(interpreter.OverloadCostTracker("add_list", sizeOfResult)),
			cel.InterruptCheckFrequency(interruptEvery))
	}
	var err error
	if p.cel, err = e.env.Program(checked, options...); err != nil {
		return nil, fmt.Errorf("the expression cannot be used: %w", err)
	}
	return p, nil
}

// explain puts what CEL says of an expression into one line.
func explain(issues *cel.Issues) error {
	const most = 3
	if issues.Err() == nil {
		return nil
	}
	var faults []string
	for _, fault := range issues.Errors()[:min(most, len(issues.Errors()))] {
		where := ""
		if at := fault.Location; at != nil && at.Line() > 0 {
			where = fmt.Sprintf("line %d, column %d: ", at.Line(), at.Column()+1)
		}
		faults = append(faults, where+strings.ReplaceAll(fault.Message, "\n", " "))
	}
	return fmt.Errorf("the expression does not compile: %s", strings.Join(faults, "; "))
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

// evaluate runs the program.
func (p *program) evaluate(clock *clock, v *variables) (ref.Val, error) {
	if !p.loops {
		value, _, err := p.cel.Eval(v)
		return value, err
	}
	ctx := clock.context()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", interpreter.InterruptError{}, err)
	}
	value, _, err := p.cel.ContextEval(ctx, v)
	return value, err
}

// survey finds what the expression reads, and fields that do not exist.
func (p *program) survey(a *ast.AST) error {
	root := ast.NavigateAST(a)
	p.loops = len(ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))) > 0
	for _, variable := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name := variable.AsIdent()
		known := fieldsOf[name]
		if known == nil {
			continue
		}
		field, ok := fieldOf(variable)
		switch {
		case ok && !slices.Contains(known, field):
			if isShadowed(root, name) {
				continue
			}
			return fmt.Errorf("%s has no field %.64q: it has %s", name, field, strings.Join(known, ", "))
		case name != "ocp":
		case ok:
			p.reads = append(p.reads, field)
		default:
			p.reads = append(p.reads, known...)
		}
	}
	return nil
}

// fieldOf returns the field that an expression takes of a variable, if it takes
// one by name: x.f, x["f"], x.?f, x[?"f"] or has(x.f).
func fieldOf(variable ast.NavigableExpr) (field string, ok bool) {
	parent, ok := variable.Parent()
	if !ok {
		return "", false
	}
	switch parent.Kind() {
	case ast.SelectKind:
		return parent.AsSelect().FieldName(), true
	case ast.CallKind:
		call := parent.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		default:
			return "", false
		}
		arguments := call.Args()
		if len(arguments) != 2 || arguments[0].ID() != variable.ID() || arguments[1].Kind() != ast.LiteralKind {
			return "", false
		}
		name, ok := arguments[1].AsLiteral().(types.String)
		return string(name), ok
	}
	return "", false
}

// isShadowed reports whether a loop of the expression has a variable of that
// name.
func isShadowed(root ast.NavigableExpr, name string) bool {
	for _, loop := range ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind)) {
		if c := loop.AsComprehension(); c.IterVar() == name || c.IterVar2() == name {
			return true
		}
	}
	return false
}
