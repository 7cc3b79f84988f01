// Package rule decides which tools a user may call with which arguments. A Rule is a CEL expression over
// user, tool and arguments:
//
//	tool.readOnly || "ops" in user.groups
//	tool.name != "refund" || arguments.amount < 100
//
// A tool is listed for a user unless the rule is false for all arguments: the arguments are unknown to the
// evaluation of a list, and a rule that depends on them yields no result. A call evaluates the rule with its
// arguments. A rule that fails allows nothing.
package rule

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

// Limits of one evaluation of a rule that has a loop.
const (
	maxCost = 100_000 // CEL cost units
	maxTime = 100 * time.Millisecond
)

// Variables of a rule.
const (
	userVariable      = "user"
	toolVariable      = "tool"
	argumentsVariable = "arguments"
)

// The fields of user and tool. The members of arguments depend on the tool.
var fields = map[string][]string{
	userVariable: {"id", "groups", "claims"},
	toolVariable: {"name", "toolset", "operationId", "method", "path", "tags", "readOnly", "destructive", "idempotent", "deprecated"},
}

var environment = sync.OnceValues(func() (*celenv.Environment, error) {
	return celenv.New(celenv.Limits{Cost: maxCost},
		celenv.Variable{Name: userVariable, Type: celenv.Fields()},
		celenv.Variable{Name: toolVariable, Type: celenv.Fields()},
		celenv.Variable{Name: argumentsVariable, Type: celenv.Fields()})
})

// A Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	calls *celenv.Program
	lists *celenv.Program // the same expression, for unknown arguments
}

// Compile compiles a rule. It rejects fields that users and tools never have.
func Compile(expression string) (*Rule, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	r := new(Rule)
	if r.calls, err = env.Compile(expression); err != nil {
		return nil, err
	}
	if kind := r.calls.Type().Kind(); kind != types.BoolKind && kind != types.DynKind {
		return nil, fmt.Errorf("a rule must be true or false; this expression has the type %s", r.calls.Type())
	}
	for _, variable := range ast.MatchDescendants(r.calls.Root(), ast.KindMatcher(ast.IdentKind)) {
		name := variable.AsIdent()
		field, selected := celenv.FieldOf(variable)
		if known := fields[name]; selected && known != nil && !slices.Contains(known, field) && !celenv.IsShadowed(r.calls.Root(), name) {
			line, column := r.calls.Position(variable)
			return nil, fmt.Errorf("line %d, column %d: %s has no %.64q; it has %q", line, column, name, field, known)
		}
	}
	r.lists, err = env.CompilePartial(expression)
	return r, err
}

// A Subject is a user for whom rules are evaluated. It must not be used concurrently.
type Subject struct{ value ref.Val }

// NewSubject returns the Subject of a user.
func NewSubject(user *identity.User) Subject {
	all := user.Fields()
	all["id"] = user.ID
	return Subject{celenv.Adapter{}.NativeToValue(all)}
}

// Lists reports whether the user may call the tool with some arguments. Toolset is the name of the toolset
// that has the tool.
func (r *Rule) Lists(of Subject, t *tools.Tool, toolset string) bool {
	value, err := r.lists.EvaluateWithin(maxTime, &situation{Subject: of, tool: t, toolset: toolset})
	return err == nil && (value == types.True || types.IsUnknown(value))
}

// errNotAllowed reports that a rule is false.
var errNotAllowed = errors.New("the rule is false")

// Check returns why the user may not make the call, or nil. The error may quote arguments.
func (r *Rule) Check(of Subject, call *tools.Call, toolset string) error {
	value, err := r.calls.EvaluateWithin(maxTime, &situation{Subject: of, tool: call.Tool, toolset: toolset, call: call})
	switch {
	case err != nil:
		return err
	case value == types.True:
		return nil
	case value == types.False:
		return errNotAllowed
	}
	return fmt.Errorf("the rule must be true or false, but has the type %s", value.Type().TypeName())
}

// Recorded decides about a call of which some arguments may not be recorded. If decided is false, the result depends on one of these, or on
// groups or claims of the user that are unknown (identity.Unknown). Complete is true if arguments has all arguments of the call.
func (r *Rule) Recorded(of Subject, t *tools.Tool, toolset string, arguments jsontext.Value, complete bool) (allowed, decided bool) {
	s := &situation{Subject: of, tool: t, toolset: toolset}
	members, err := strictjson.Members(nil, arguments)
	if err == nil && (complete || !t.Plan.Undeclared.Open) {
		s.recorded, s.unknown = make(map[string]any, len(members)), []*cel.AttributePatternType{}
		for _, m := range members {
			s.recorded[m.Name] = &celenv.Node{Raw: m.Value, Exact: true}
		}
		for i := range t.Definition.Arguments {
			if name := t.Definition.Arguments[i].Name; !complete && s.recorded[name] == nil {
				s.unknown = append(s.unknown, cel.AttributePattern(argumentsVariable).QualString(name))
			}
		}
	}
	value, err := r.lists.EvaluateWithin(maxTime, s)
	if err != nil {
		return false, complete && !errors.Is(err, identity.ErrUnknown) && !celenv.IsTimeout(err)
	}
	return value == types.True, !types.IsUnknown(value)
}

// situation has the values of the variables. It implements cel.PartialActivation.
type situation struct {
	Subject
	tool    *tools.Tool
	toolset string
	call    *tools.Call // nil if the arguments are unknown

	recorded map[string]any              // arguments of a recorded call
	unknown  []*cel.AttributePatternType // arguments that are not recorded; nil for all
}

// ResolveName implements cel.Activation.
func (s *situation) ResolveName(name string) (any, bool) {
	switch {
	case name == userVariable:
		return s.value, true
	case name == toolVariable:
		return types.NewStringInterfaceMap(celenv.Adapter{}, s.fieldsOfTool()), true
	case name == argumentsVariable && s.recorded != nil:
		return types.NewStringInterfaceMap(celenv.Adapter{}, s.recorded), true
	case name == argumentsVariable && s.call != nil:
		return types.NewStringInterfaceMap(celenv.Adapter{}, s.arguments()), true
	}
	return nil, false
}

// arguments returns the arguments of the call, each decoded when the rule reads it.
func (s *situation) arguments() map[string]any {
	values := make(map[string]any)
	for i, value := range s.call.Values() {
		if value != nil && !s.tool.Plan.Encodings[i].Filled {
			values[s.tool.Plan.Arguments[i].Name] = &celenv.Node{Raw: value, Exact: true}
		}
	}
	for name, value := range s.call.Additional() {
		values[name] = &celenv.Node{Raw: value, Exact: true}
	}
	return values
}

func (s *situation) fieldsOfTool() map[string]any {
	t := s.tool
	return map[string]any{
		"name": t.Name, "toolset": s.toolset, "operationId": t.Definition.OperationID, "method": t.Plan.Method, "path": t.Plan.Path,
		"tags": t.Definition.Tags, "readOnly": t.Hint(build.ReadOnlyHint), "destructive": t.Hint(build.DestructiveHint),
		"idempotent": t.Hint(build.IdempotentHint), "deprecated": t.Definition.Deprecated,
	}
}

// Parent implements cel.Activation.
func (s *situation) Parent() cel.Activation { return nil }

// unknownArguments is the pattern of a list's unknown variable.
var unknownArguments = []*cel.AttributePatternType{cel.AttributePattern(argumentsVariable)}

// UnknownAttributePatterns implements cel.PartialActivation.
func (s *situation) UnknownAttributePatterns() []*cel.AttributePatternType {
	if s.unknown != nil {
		return s.unknown
	}
	return unknownArguments
}

// AsPartialActivation makes the situation of a list a partial one.
func (s *situation) AsPartialActivation() (cel.PartialActivation, bool) { return s, s.call == nil }
