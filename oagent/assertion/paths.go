package assertion

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/fairwayhq/fairway/internal/celenv"
)

// The fields of user, and of each entry of recent and history (OpenAgentSpec v1, Engagement). user.groups and
// user.claims are an extension.
var (
	userFields  = [...]string{"id", "email", "groups", "claims"}
	entryFields = [...]string{"inputs", "outputs"}
)

// checkPaths returns an *celenv.CompileError for paths in an expression that no Engagement has.
func checkPaths(program *celenv.Program, names *Names) error {
	s := surveyor{program: program, root: program.Root(), names: names}
	for _, variable := range ast.MatchDescendants(s.root, ast.KindMatcher(ast.IdentKind)) {
		if name := variable.AsIdent(); slices.Contains(engagementVariables[:], name) && !celenv.IsShadowed(s.root, name) {
			s.variable(variable, name)
		}
	}
	if len(s.faults) > 0 {
		return &celenv.CompileError{Positions: s.faults}
	}
	return nil
}

// surveyor finds the faults of the paths in an expression.
type surveyor struct {
	program *celenv.Program
	root    ast.NavigableExpr
	names   *Names
	faults  []celenv.Position
}

func (s *surveyor) fault(at ast.Expr, format string, arguments ...any) {
	const most = 3
	if len(s.faults) == most {
		return
	}
	line, column := s.program.Position(at)
	s.faults = append(s.faults, celenv.Position{Line: line, Column: column, Message: fmt.Sprintf(format, arguments...)})
}

// unknown adds a fault about a name that is no tool or agent of the document.
func (s *surveyor) unknown(at ast.Expr, variable, name string) {
	before := len(s.faults)
	if s.fault(at, "%s", s.names.unknown(variable, name)); len(s.faults) > before {
		s.faults[before].Unknown = !strings.HasPrefix(name, "_")
	}
}

func (s *surveyor) variable(variable ast.NavigableExpr, name string) {
	field, hasField := celenv.FieldOf(variable)
	switch {
	case name == "started_at":
	case name == "user":
		if hasField && !slices.Contains(userFields[:], field) {
			s.fault(variable, "user has no %.64q; it has id, email, groups and claims", field)
		}
	case hasField:
		entry, _ := variable.Parent()
		if name == "recent" {
			s.recent(entry, field)
		} else {
			s.history(entry, field)
		}
	default: // used without selecting a field by name
		field, isMember := memberOf(variable)
		isOwn := name == "recent" && field == "_name" || name == "history" && (field == "_list" || field == "_total")
		if isMember && !isOwn && !s.names.known[field] {
			s.unknown(variable, name, field)
		}
	}
}

// memberOf returns the text in an expression "text" in variable.
func memberOf(variable ast.NavigableExpr) (string, bool) {
	parent, ok := variable.Parent()
	if !ok || parent.Kind() != ast.CallKind || parent.AsCall().FunctionName() != operators.In {
		return "", false
	}
	arguments := parent.AsCall().Args()
	if len(arguments) != 2 || arguments[1].ID() != variable.ID() || arguments[0].Kind() != ast.LiteralKind {
		return "", false
	}
	name, ok := arguments[0].AsLiteral().(types.String)
	return string(name), ok
}

// recent checks recent.name, which is an entry.
func (s *surveyor) recent(entry ast.NavigableExpr, name string) {
	if name == "_name" {
		return
	}
	if !s.names.known[name] {
		s.unknown(entry, "recent", name)
		return
	}
	if field, ok := celenv.FieldOf(entry); ok && !isPresence(entry) && !slices.Contains(entryFields[:], field) {
		s.fault(entry, "recent[%q] has no %.64q; it has inputs and outputs", name, field)
	}
}

// history checks history.name, which is a list.
func (s *surveyor) history(list ast.NavigableExpr, name string) {
	if name == "_total" || name == "_list" {
		return
	}
	if !s.names.known[name] {
		s.unknown(list, "history", name)
		return
	}
	if field, ok := celenv.FieldOf(list); ok && !isPresence(list) {
		s.fault(list, "history[%q] is a list; write history[%q][0].%s for the first", name, name, field)
		return
	}
	if parent, ok := list.Parent(); ok && parent.Kind() == ast.CallKind && parent.AsCall().FunctionName() == operators.Index {
		if field, ok := celenv.FieldOf(parent); ok && !slices.Contains(entryFields[:], field) {
			s.fault(list, "an entry of history[%q] has no %.64q; it has inputs and outputs", name, field)
		}
	}
}

// isPresence reports whether an expression is has(x.f) itself.
func isPresence(e ast.NavigableExpr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
}

// callsVariable is the internal variable that history.<capability> is read from. It differs
// from history in one way: a capability that was not called yet has an empty list. So a limit
// like size(history.refund) < 3 also works before the first call.
//
// The expressions has(history.<capability>) and "<capability>" in history, and the optional
// forms, test whether there was a call. They read history itself. No expression can contain
// this name, because it is not a CEL identifier.
const callsVariable = "@history"

// readsCalls returns callsVariable for the identifier in history.<capability>, and "" for any
// other identifier.
func readsCalls(ident ast.NavigableExpr) string {
	if ident.AsIdent() != historyVariable {
		return ""
	}
	parent, ok := ident.Parent()
	if !ok || isPresence(parent) {
		return ""
	}
	switch parent.Kind() {
	case ast.SelectKind:
	case ast.CallKind:
		if parent.AsCall().FunctionName() != operators.Index {
			return ""
		}
	default:
		return ""
	}
	if field, ok := celenv.FieldOf(ident); !ok || strings.HasPrefix(field, "_") || celenv.IsShadowed(rootOf(ident), historyVariable) {
		return ""
	}
	return callsVariable
}

func rootOf(e ast.NavigableExpr) ast.NavigableExpr {
	for {
		parent, ok := e.Parent()
		if !ok {
			return e
		}
		e = parent
	}
}

// withCalls adds callsVariable to the variables.
type withCalls struct{ Variables }

// ResolveName implements cel.Activation.
func (v withCalls) ResolveName(name string) (any, bool) {
	if name != callsVariable {
		return v.Variables.ResolveName(name)
	}
	history, ok := v.Variables.ResolveName(historyVariable)
	if !ok {
		return nil, false
	}
	if m, ok := (celenv.Adapter{}).NativeToValue(history).(traits.Mapper); ok {
		return callLists{m}, true
	}
	return history, true
}

// Parent implements cel.Activation.
func (v withCalls) Parent() cel.Activation { return nil }

// callLists is history with an empty list for each capability that was not called yet.
type callLists struct{ traits.Mapper }

var noCalls = types.NewRefValList(celenv.Adapter{}, nil)

// Find implements traits.Mapper.
func (c callLists) Find(key ref.Val) (ref.Val, bool) {
	if found, ok := c.Mapper.Find(key); ok {
		return found, true
	}
	return noCalls, true
}

// Get implements traits.Indexer.
func (c callLists) Get(key ref.Val) ref.Val {
	found, _ := c.Find(key)
	return found
}
