package assertion

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
)

// Reads lists the parts of an Engagement that an expression reads. The View loads only these
// parts.
type Reads struct {
	All bool // the parts are not known statically: anything may be read

	Started bool // started_at
	User    bool // user
	Last    bool // recent._name
	Total   bool // history._total
	List    bool // history._list

	// Inputs and Outputs are the names in recent.<name>.inputs and recent.<name>.outputs. An
	// expression that only tests whether recent.<name> exists counts as Inputs.
	Inputs, Outputs []string

	// History is the names in history.<name> whose items are read. Counts is the names of
	// which only the number of calls, or their existence, is read. No name is in both.
	History, Counts []string
}

// Union returns the parts that a and b read together.
func (a Reads) Union(b Reads) Reads {
	union := Reads{
		All:     a.All || b.All,
		Started: a.Started || b.Started,
		User:    a.User || b.User,
		Last:    a.Last || b.Last,
		Total:   a.Total || b.Total,
		List:    a.List || b.List,
		Inputs:  slices.Concat(a.Inputs, b.Inputs),
		Outputs: slices.Concat(a.Outputs, b.Outputs),
		History: slices.Concat(a.History, b.History),
		Counts:  slices.Concat(a.Counts, b.Counts),
	}
	union.tidy()
	return union
}

// tidy sorts the names and removes duplicates.
func (a *Reads) tidy() {
	for _, names := range []*[]string{&a.Inputs, &a.Outputs, &a.History, &a.Counts} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	a.Counts = slices.DeleteFunc(a.Counts, func(name string) bool {
		_, found := slices.BinarySearch(a.History, name)
		return found
	})
}

// The fields of user, and of each entry of recent and history (OpenAgentSpec v1, Engagement).
var (
	userFields  = [...]string{"id", "email"}
	entryFields = [...]string{"inputs", "outputs"}
)

// survey finds the parts of the Engagement that an expression reads. It returns an
// *expr.CompileError for a path that no Engagement has.
func survey(program *expr.Program, names *Names) (Reads, error) {
	s := surveyor{program: program, root: program.Root(), names: names}
	for _, variable := range ast.MatchDescendants(s.root, ast.KindMatcher(ast.IdentKind)) {
		switch name := variable.AsIdent(); {
		case !slices.Contains(engagementVariables[:], name):
		case expr.IsShadowed(s.root, name):
			s.reads.All = true
		default:
			s.variable(variable, name)
		}
	}
	if len(s.faults) > 0 {
		return Reads{}, &expr.CompileError{Positions: s.faults}
	}
	s.reads.tidy()
	return s.reads, nil
}

type surveyor struct {
	program *expr.Program
	root    ast.NavigableExpr
	names   *Names
	reads   Reads
	faults  []expr.Position
}

func (s *surveyor) fault(at ast.Expr, format string, arguments ...any) {
	const most = 3
	if len(s.faults) == most {
		return
	}
	line, column := s.program.Position(at)
	s.faults = append(s.faults, expr.Position{Line: line, Column: column, Message: fmt.Sprintf(format, arguments...)})
}

func (s *surveyor) variable(variable ast.NavigableExpr, name string) {
	field, hasField := expr.FieldOf(variable)
	switch {
	case name == "started_at":
		s.reads.Started = true
	case name == "user":
		s.reads.User = true
		if hasField && !slices.Contains(userFields[:], field) {
			s.fault(variable, "user has no %.64q; it has id and email", field)
		}
	case hasField:
		entry, _ := variable.Parent()
		if name == "recent" {
			s.recent(entry, field)
		} else {
			s.history(entry, field)
		}
	default:
		s.whole(variable, name)
	}
}

// whole records a variable that the expression uses without selecting a field by name.
func (s *surveyor) whole(variable ast.NavigableExpr, name string) {
	field, ok := memberOf(variable)
	switch {
	case !ok:
		s.reads.All = true
	case name == "recent" && field == "_name", name == "history" && (field == "_list" || field == "_total"):
		s.reads.Last = s.reads.Last || name == "recent" // recent._name exists after the first invocation
	case !s.names.known[field]:
		s.fault(variable, "%s", s.names.unknown(name, field))
	case name == "recent":
		s.reads.Inputs = append(s.reads.Inputs, field)
	default:
		s.reads.Counts = append(s.reads.Counts, field)
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

// recent records the reads of recent.name, which is an entry.
func (s *surveyor) recent(entry ast.NavigableExpr, name string) {
	if name == "_name" {
		s.reads.Last = true
		return
	}
	if !s.names.known[name] {
		s.fault(entry, "%s", s.names.unknown("recent", name))
		return
	}
	field, ok := expr.FieldOf(entry)
	switch {
	case isPresence(entry) || field == "inputs":
		s.reads.Inputs = append(s.reads.Inputs, name)
	case field == "outputs":
		s.reads.Outputs = append(s.reads.Outputs, name)
	case ok:
		s.fault(entry, "recent[%q] has no %.64q; it has inputs and outputs", name, field)
	default:
		s.reads.Inputs = append(s.reads.Inputs, name)
		s.reads.Outputs = append(s.reads.Outputs, name)
	}
}

// history records the reads of history.name, which is a list.
func (s *surveyor) history(list ast.NavigableExpr, name string) {
	switch name {
	case "_total":
		s.reads.Total = true
		return
	case "_list":
		s.reads.List = true
		return
	}
	if !s.names.known[name] {
		s.fault(list, "%s", s.names.unknown("history", name))
		return
	}
	if field, ok := expr.FieldOf(list); ok && !isPresence(list) {
		s.fault(list, "history[%q] is a list; write history[%q][0].%s for the first", name, name, field)
		return
	}
	if parent, ok := list.Parent(); ok && parent.Kind() == ast.CallKind && parent.AsCall().FunctionName() == operators.Index {
		if field, ok := expr.FieldOf(parent); ok && !slices.Contains(entryFields[:], field) {
			s.fault(list, "an entry of history[%q] has no %.64q; it has inputs and outputs", name, field)
			return
		}
	}
	if isPresence(list) || isCounted(list) {
		s.reads.Counts = append(s.reads.Counts, name)
		return
	}
	s.reads.History = append(s.reads.History, name)
}

// isPresence reports whether an expression is has(x.f) itself.
func isPresence(e ast.NavigableExpr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
}

// isCounted reports whether only the size of a list is read.
func isCounted(list ast.NavigableExpr) bool {
	parent, ok := list.Parent()
	return ok && parent.Kind() == ast.CallKind && parent.AsCall().FunctionName() == overloads.Size
}
