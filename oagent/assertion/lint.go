package assertion

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Linter finds faults in expressions that compile but are certainly wrong:
//
//   - inputs that a tool does not have,
//   - values of types that an operator or a function does not accept,
//   - assertions that do not yield true or false,
//   - assertions that are false for every Engagement.
//
// Types are those of the Engagement, and of the arguments of Tools.
type Linter struct {
	Names  *Names                                // the names that the expressions may use
	Tools  map[string]*tools.Tool                // tools by the name that expressions use; may be empty
	Report func(expression Source, fault string) // called for each fault
}

// Restriction lints the assertion of a restriction of that capability. isInput is true for an
// input restriction, which is evaluated before the call.
func (l *Linter) Restriction(a *Assertion, capability string, isInput bool) {
	l.lint(&a.expression, purpose{isInput: isInput, capability: capability})
}

// Selection lints a selection.
func (l *Linter) Selection(s *Selection) {
	if s.program != nil { // it has no fault of CompileSelection
		l.lint(&s.expression, purpose{})
	}
}

// purpose says where an expression is used: its capability ("" if none), and whether it is
// evaluated before the call.
type purpose struct {
	capability string
	isInput    bool
}

func (l *Linter) add(e *expression, format string, arguments ...any) {
	l.Report(e.Source, fmt.Sprintf(format, arguments...))
}

func (l *Linter) lint(e *expression, as purpose) {
	l.findInputs(e)
	env, err := engagementEnvironment()
	if err != nil {
		return
	}
	rewritten, err := rewrite(e.Expression, l.Names)
	if err != nil {
		return
	}
	root := e.program.Root()
	comparesNull := len(ast.MatchDescendants(root, func(part ast.NavigableExpr) bool {
		return part.Kind() == ast.LiteralKind && part.AsLiteral() == types.NullValue
	})) > 0
	known, err := env.Infer(rewritten.text, func(part ast.NavigableExpr) *cel.Type {
		kind := l.typeOf(part, as)
		if kind == nil || comparesNull && kind.Kind() != types.IntKind {
			return nil // an input may be null, which CEL's types do not express
		}
		return kind
	})
	isAssertion := as.capability != ""
	if fault, ok := errors.AsType[*celenv.CompileError](rewritten.restore(err)); ok {
		for _, place := range fault.Positions {
			if !strings.Contains(place.Message, "'_?_:_'") { // the branches of ?: may have different types
				l.add(e, "line %d, column %d of the expression: %s: values of these types cannot be compared or used together",
					place.Line, place.Column, place.Message)
			}
		}
		return
	}
	switch {
	case err != nil || !isAssertion:
	case !slices.Contains([]types.Kind{types.BoolKind, types.DynKind, types.AnyKind, types.TypeParamKind}, known.Type.Kind()):
		l.add(e, "an assertion must be true or false; this expression has the type %s", known.Type)
	case known.Constant == types.False:
		l.add(e, "this never holds, so every call is refused")
	}
}

// typeOf returns the type of a part of an expression, or nil if it is not known. Numbers of
// inputs have no known type, because a whole number beyond 64 bits is text.
func (l *Linter) typeOf(part ast.NavigableExpr, as purpose) *cel.Type {
	variable, steps, ok := literalPath(part)
	if !ok || len(steps) == 0 || celenv.IsShadowed(rootOf(part), variable) {
		return nil
	}
	switch path := variable + "." + steps[0]; {
	case len(steps) == 1 && path == "history._total":
		return cel.IntType
	case len(steps) == 1 && path == "history._list":
		return cel.ListType(cel.StringType)
	case len(steps) == 1 && (path == "recent._name" || path == "user.id" || path == "user.email"):
		return cel.StringType
	case len(steps) == 1 && variable == historyVariable && l.Names.known[steps[0]]:
		return cel.ListType(cel.DynType)
	case len(steps) == 2 && variable == "recent" && steps[1] == "outputs" && as.isInput && steps[0] == as.capability:
		return cel.NullType // the call was not made yet
	case len(steps) == 3 && variable == "recent" && steps[1] == "inputs" && l.Tools[steps[0]] != nil:
		return argumentType(l.Tools[steps[0]], steps[2])
	}
	return nil
}

// literalPath splits an expression like recent["get-trip"].inputs into its variable and its
// literal names. An expression that tests existence is not a path.
func literalPath(part ast.NavigableExpr) (variable string, steps []string, ok bool) {
	for part.Kind() != ast.IdentKind {
		operands := part.Children()
		if len(operands) == 0 {
			return "", nil, false
		}
		step, isText := stepOf(part, operands[0]).(types.String)
		if !isText {
			return "", nil, false
		}
		steps, part = append(steps, string(step)), operands[0]
	}
	slices.Reverse(steps)
	return part.AsIdent(), steps, true
}

// argumentType returns the CEL type of an argument's values. It returns nil if the schema does
// not define a type, or allows several.
func argumentType(t *tools.Tool, name string) *cel.Type {
	arguments := t.RuleArguments()
	i := slices.IndexFunc(arguments, func(a tools.Argument) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	root, _ := schema.Parse(arguments[i].Schema)
	switch strictjson.Text(root.Value("type")) {
	case "string":
		return cel.StringType
	case "boolean":
		return cel.BoolType
	case "array":
		return cel.ListType(cel.DynType)
	case "object":
		return celenv.Fields()
	}
	return nil
}

// findInputs reports inputs that no call of a tool can have. An assertion on such an input
// always fails, or always holds if it tests that the input is absent.
func (l *Linter) findInputs(e *expression) {
	if len(l.Tools) == 0 {
		return
	}
	root := e.program.Root()
	for _, ident := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name, entry := l.entryOf(root, ident)
		tool := l.Tools[name]
		if tool == nil {
			continue
		}
		if field, ok := celenv.FieldOf(entry); !ok || field != "inputs" {
			continue
		}
		inputs, _ := entry.Parent()
		input, ok := celenv.FieldOf(inputs)
		if !ok {
			input, ok = memberOf(inputs)
		}
		if !ok || strings.HasPrefix(input, "_") || tool.Takes(input) {
			continue
		}
		message := fmt.Sprintf("%s has no input %.64q", name, input)
		l.add(e, "%s", message+tool.SuggestArgument(input))
	}
}

// entryOf returns the capability whose calls an identifier refers to, and the part of the
// expression that represents one call: recent.name, history.name[0], or the variable of a loop
// over history.name. The name is "" for any other identifier.
func (l *Linter) entryOf(root, ident ast.NavigableExpr) (name string, entry ast.NavigableExpr) {
	variable := ident.AsIdent()
	if loop := binderOf(ident); loop != nil {
		of, steps, ok := literalPath(loop.Children()[0]) // what it iterates over
		if ok && of == historyVariable && len(steps) == 1 && !celenv.IsShadowed(root, historyVariable) && loop.AsComprehension().IterVar2() == "" {
			return steps[0], ident
		}
		return "", nil
	}
	field, ok := celenv.FieldOf(ident)
	if !ok || celenv.IsShadowed(root, variable) {
		return "", nil
	}
	member, _ := ident.Parent()
	switch variable {
	case "recent":
		return field, member
	case historyVariable:
		if item, ok := member.Parent(); ok && item.Kind() == ast.CallKind && item.AsCall().FunctionName() == operators.Index && item.AsCall().Args()[0].ID() == member.ID() {
			return field, item
		}
	}
	return "", nil
}

// binderOf returns the loop that declares an identifier as its variable, or nil.
func binderOf(ident ast.NavigableExpr) ast.NavigableExpr {
	for at := ident; ; {
		parent, ok := at.Parent()
		if !ok {
			return nil
		}
		if parent.Kind() == ast.ComprehensionKind {
			c := parent.AsComprehension()
			if (c.IterVar() == ident.AsIdent() || c.IterVar2() == ident.AsIdent()) && c.IterRange().ID() != at.ID() {
				return parent
			}
		}
		at = parent
	}
}
