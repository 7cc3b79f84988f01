package tool

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// readArguments splits the arguments object into the values of the call. It returns unknown names as
// problems. If the arguments cannot be read, the error is a *Failure.
func readArguments(c *Call, arguments []byte) ([]Problem, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil, nil
	}
	members, err := wire.Object(arguments)
	if err != nil {
		return nil, c.Tool.invalid([]Problem{{Message: "the arguments are not a JSON object that can be read: " + err.Error()}})
	}
	r := argumentReader{call: c, tool: c.Tool}
	for members.Next() {
		r.take(members.Key(), members.Value)
	}
	return r.problems, nil
}

// An argumentReader sorts the members of an arguments object into the values of a call and problems.
type argumentReader struct {
	call     *Call
	tool     *Tool
	problems []Problem // at most validate.MaxProblems
}

// take reads one member.
func (r *argumentReader) take(key []byte, value jsontext.Value) {
	t := r.tool
	i, known := t.index.position(t.all, string(key))
	switch {
	case known && t.plans[i].Guarded:
		r.report(r.unknown(t.all[i].Name))
	case known && t.plans[i].Filled:
		if problem, wrong := r.filled(i, value); wrong {
			r.report(problem)
		}
	case known && value.Kind() == 'n' && t.plans[i].DropNull:
	case known:
		r.call.values[i] = value
	default:
		if name := string(key); t.openBody && !t.taken[name] && !r.resemblesFixed(name) {
			r.call.extra = append(r.call.extra, wire.Member{Name: name, Value: value})
		} else if len(r.problems) < validate.MaxProblems {
			r.report(r.unknown(name))
		}
	}
}

// report adds a problem, unless there are enough.
func (r *argumentReader) report(p Problem) {
	if len(r.problems) < validate.MaxProblems {
		r.problems = append(r.problems, p)
	}
}

// unknown returns the problem with a name that the tool does not take.
func (r *argumentReader) unknown(name string) Problem {
	message := "no such argument"
	if near := nearestArgument(r.tool, name); near != "" {
		message += nearest.DidYouMean(near)
	} else if len(r.tool.Arguments) == 0 {
		message += "; the tool takes none"
	}
	return Problem{Path: text.Pointer(name), Message: message}
}

// filled checks a value that a caller gives for an argument that the gateway fills.
// Only the value that the gateway sends is accepted; models know such arguments from the
// API's own documentation. Any other value is a problem.
func (r *argumentReader) filled(argument int, value jsontext.Value) (problem Problem, wrong bool) {
	fill := r.tool.plans[argument].Fill
	path := text.Pointer(r.tool.all[argument].Name)
	switch {
	case isNull(value), fill != nil && plan.SameScalar(value, fill):
		return Problem{}, false
	case fill != nil:
		return Problem{Path: path, Message: "must be " + string(fill) + ", which the gateway sends itself: leave it out"}, true
	}
	return Problem{Path: path, Message: "is a credential that the gateway sends itself: leave it out"}, true
}

// resemblesFixed reports whether a server may confuse an undeclared property of the body
// with a parameter or property whose value is fixed. Many servers merge query and body,
// and many ignore case in names.
func (r *argumentReader) resemblesFixed(property string) bool {
	if r.tool.guards.resembles(property) {
		return true
	}
	alias := style.Alias(style.Stem(property))
	isFixed := func(id plan.Identifier) bool {
		return id.In == style.Query && id.IsFixed() && style.Alias(id.Name) == alias
	}
	if slices.ContainsFunc(r.tool.identity, isFixed) {
		return true
	}
	for i := range r.tool.all {
		if a := &r.tool.all[i]; r.tool.plans[i].Filled && (a.In == InQuery || a.In == InBody) && style.Alias(a.WireName) == alias {
			return true
		}
	}
	return false
}
