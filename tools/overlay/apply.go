package overlay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/overlay/internal/jsonpath"
)

// Limits of Apply, for all overlays of a document together.
const (
	maxMatches = 200_000     // values that one action selects; GitHub's document has 258,000 values
	maxAdded   = 1_000_000   // values that actions add
	maxSteps   = 100_000_000 // values that queries visit, which takes a few seconds
)

// A Warning is an action that changed nothing.
type Warning struct {
	Overlay string // Overlay.Name
	Line    int    // of the action, counted from 1
	Reason  string
}

// String returns the warning with its place.
func (w Warning) String() string {
	return fmt.Sprintf("overlay %s:%d: %s", w.Overlay, w.Line, w.Reason)
}

// An Error is an action that cannot be applied to the document.
type Error struct {
	Overlay string // Overlay.Name
	Line    int    // of the action, counted from 1
	Err     error
}

func (e *Error) Error() string {
	return fmt.Sprintf("overlay %s:%d: %v", e.Overlay, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Options configure Apply.
type Options struct {
	MaxSize int // of the document, in bytes; 0 means openapi's default

	// IgnoreExtensions removes every x-fairway of the document itself. Otherwise only its annotations
	// readOnlyHint true are removed, which a document may not set. Overlays may.
	IgnoreExtensions bool
}

// Apply applies the overlays to a document in JSON or YAML, in order. Overlays apply to the document as
// written, so that those for Swagger 2.0 select what Swagger 2.0 calls it. The Result refers to parts of
// the document, which must not be changed afterwards. If an action cannot be applied, the error is an *Error.
func Apply(document []byte, o Options, overlays ...*Overlay) (*Result, error) {
	parsed, err := openapi.Parse(document, openapi.Limits{Size: o.MaxSize})
	if err != nil {
		return nil, err
	}
	root := toTree(parsed)
	o.restrict(root, "")
	a := &application{
		result: &Result{IsJSON: isJSON(document), root: root, maxSize: o.MaxSize},
		budget: jsonpath.Budget{Steps: maxSteps, Matches: maxMatches},
		added:  maxAdded,
	}
	for _, a.overlay = range overlays {
		for i := range a.overlay.actions {
			a.action = &a.overlay.actions[i]
			if err := a.run(); err != nil {
				return nil, &Error{a.overlay.Name, a.action.line, err}
			}
		}
	}
	return a.result, nil
}

// restrict removes what the document itself may not set. Name is the name of the member that has the value.
func (o *Options) restrict(n *jsonpath.Node, name string) {
	free := name == "properties" // its names are those of properties
	if !free {
		n.Members = slices.DeleteFunc(n.Members, func(m jsonpath.Member) bool {
			if m.Name != build.ShapeExtension || o.IgnoreExtensions {
				return m.Name == build.ShapeExtension
			}
			for _, part := range m.Value.Members {
				if part.Name == "annotations" {
					part.Value.Members = slices.DeleteFunc(part.Value.Members, func(hint jsonpath.Member) bool {
						return hint.Name == build.ReadOnlyHint && string(hint.Value.Raw) == "true"
					})
				}
			}
			return false
		})
	}
	for _, m := range n.Members {
		name = m.Name
		if free {
			name = ""
		}
		o.restrict(m.Value, name)
	}
	for _, item := range n.Items {
		o.restrict(item, "")
	}
}

// An application is the state of Apply.
type application struct {
	result  *Result
	overlay *Overlay
	action  *action
	budget  jsonpath.Budget
	added   int // values that may still be added
}

// run runs the current action.
func (a *application) run() error {
	matches, err := a.find(a.action.target)
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		a.result.Warnings = append(a.result.Warnings, Warning{a.overlay.Name, a.action.line, fmt.Sprintf("target %s selects nothing", a.action.target)})
		return nil
	}
	switch {
	case a.action.remove:
		return a.remove(matches)
	case a.action.copy != nil:
		return a.copyTo(matches)
	}
	return a.update(matches, "update", a.action.update)
}

// find returns what a query selects.
func (a *application) find(query *jsonpath.Path) ([]jsonpath.Match, error) {
	matches, err := query.Select(a.result.root, &a.budget)
	switch {
	case errors.Is(err, jsonpath.ErrMatches):
		return nil, fmt.Errorf("%s selects more than %d values: name the path to what you want to change, such as $.paths.*.get, in place of .. and *", query, maxMatches)
	case errors.Is(err, jsonpath.ErrSteps):
		return nil, fmt.Errorf("the queries of the overlays visit more than %d values: name the path to what you want to change, such as $.paths.*.get, in place of .. and * in %s", maxSteps, query)
	}
	return matches, err
}

// remove removes the selected values from the objects and arrays that contain them.
func (a *application) remove(matches []jsonpath.Match) error {
	gone := make(map[*jsonpath.Node]struct{}, len(matches))
	parents := make(map[*jsonpath.Node]struct{})
	for _, m := range matches {
		if m.Parent == nil {
			return errors.New("$ selects the whole document, which cannot be removed: name the values to remove")
		}
		gone[m.Node] = struct{}{}
		parents[m.Parent] = struct{}{}
	}
	isGone := func(n *jsonpath.Node) bool { _, is := gone[n]; return is }
	for parent := range parents {
		a.budget.Steps -= len(parent.Members) + len(parent.Items)
		parent.Members = slices.DeleteFunc(parent.Members, func(m jsonpath.Member) bool { return isGone(m.Value) })
		parent.Items = slices.DeleteFunc(parent.Items, isGone)
	}
	return nil
}

// copyTo merges the value that the action's copy selects into the selected values.
func (a *application) copyTo(matches []jsonpath.Match) error {
	sources, err := a.find(a.action.copy)
	if err != nil {
		return err
	}
	if len(sources) != 1 {
		return fmt.Errorf("copy %s must select one value of the document, and selects %d", a.action.copy, len(sources))
	}
	if err := a.take(size(sources[0].Node)); err != nil {
		return err
	}
	return a.update(matches, "copy", clone(sources[0].Node)) // a target may be part of the source
}

// update merges the value into each selected value. Name is the field that the value comes from.
func (a *application) update(matches []jsonpath.Match, name string, value *jsonpath.Node) error {
	first := matches[0].Node
	for _, m := range matches {
		if class(m.Node) != class(first) {
			return fmt.Errorf("target %s selects %s, which is %s, and %s, which is %s: %s needs values of one kind, so write an action for each",
				a.action.target, a.pathOf(first), class(first), a.pathOf(m.Node), class(m.Node), name)
		}
	}
	if first.Primitive() && !a.overlay.primitives {
		return fmt.Errorf("target %s selects %s: select the object that contains it, or write overlay: 1.1.0", a.action.target, class(first))
	}
	cost := size(value)
	for _, m := range matches {
		if err := a.take(cost); err != nil {
			return err
		}
		if m.Node.Kind == '[' && value.Kind != '[' {
			m.Node.Items = append(m.Node.Items, clone(value))
			continue
		}
		if err := a.merge(m.Node, value); err != nil {
			return fmt.Errorf("%s cannot be merged: %w", name, err)
		}
	}
	return nil
}

// take counts values that are about to be added.
func (a *application) take(values int) error {
	if a.added -= values; a.added < 0 {
		return fmt.Errorf("the overlays add more than %d values to the document: let target %s select less; it may select what the action itself adds", maxAdded, a.action.target)
	}
	return nil
}

// indexFrom is the number of members from which merge looks members up in a map.
const indexFrom = 16

// merge merges a value into another of the same class (Overlay 1.1, Action Object).
func (a *application) merge(into, value *jsonpath.Node) error {
	switch {
	case class(into) != class(value):
		return fmt.Errorf("%s is %s in the document and %s in the overlay: remove it in an action before this one",
			a.pathOf(into), class(into), class(value))
	case into.Primitive():
		into.Kind, into.Raw = value.Kind, value.Raw
	case into.Kind == '[':
		into.Items = append(into.Items, clone(value).Items...)
	default:
		get := into.Get
		if len(into.Members) > indexFrom && len(value.Members) > 1 {
			index := make(map[string]*jsonpath.Node, len(into.Members))
			for _, m := range into.Members {
				index[m.Name] = m.Value
			}
			get = func(name string) *jsonpath.Node { return index[name] }
		}
		for _, m := range value.Members {
			existing := get(m.Name)
			if existing == nil {
				into.Members = append(into.Members, jsonpath.Member{Name: m.Name, Value: clone(m.Value)})
				continue
			}
			if err := a.merge(existing, m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// class returns what a value can be merged with: an object, an array or a primitive value.
func class(n *jsonpath.Node) string {
	switch n.Kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "a primitive value"
}

// pathOf returns the normalized path of a value of the document (RFC 9535, section 2.7).
func (a *application) pathOf(wanted *jsonpath.Node) string {
	path, _ := findPath(a.result.root, wanted, "$")
	return path
}

func findPath(n, wanted *jsonpath.Node, path string) (string, bool) {
	if n == wanted {
		return path, true
	}
	for _, m := range n.Members {
		if found, ok := findPath(m.Value, wanted, path+"['"+m.Name+"']"); ok {
			return found, true
		}
	}
	for i, item := range n.Items {
		if found, ok := findPath(item, wanted, fmt.Sprintf("%s[%d]", path, i)); ok {
			return found, true
		}
	}
	return "a value that it adds", false
}
