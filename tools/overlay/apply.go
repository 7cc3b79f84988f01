package overlay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/theory/jsonpath/spec"

	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// Limits of Apply: those of a query, and those of all overlays of a document together.
const (
	maxQuery   = 4 << 10     // bytes
	maxPattern = 1 << 10     // bytes of a regular expression, which may come from the document
	maxMatches = 200_000     // values that one action selects; GitHub's document has 258,000 values
	maxAdded   = 1_000_000   // values that actions add
	maxSteps   = 100_000_000 // values that queries visit, which takes about ten seconds
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
		budget: maxSteps,
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
func (o *Options) restrict(n *node, name string) {
	free := name == "properties" // its names are those of properties
	if !free {
		n.members = slices.DeleteFunc(n.members, func(m member) bool {
			if m.name != build.ShapeExtension || o.IgnoreExtensions {
				return m.name == build.ShapeExtension
			}
			for _, part := range m.value.members {
				if part.name == "annotations" {
					part.value.members = slices.DeleteFunc(part.value.members, func(hint member) bool {
						return hint.name == build.ReadOnlyHint && string(hint.value.raw) == "true"
					})
				}
			}
			return false
		})
	}
	for _, m := range n.members {
		name = m.name
		if free {
			name = ""
		}
		o.restrict(m.value, name)
	}
	for _, item := range n.items {
		o.restrict(item, "")
	}
}

// An application is the state of Apply.
type application struct {
	result  *Result
	overlay *Overlay
	action  *action
	budget  budget
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
	case a.action.copy != "":
		return a.copyTo(matches)
	}
	return a.update(matches, "update", a.action.update)
}

// remove removes the selected values from the objects and arrays that contain them.
func (a *application) remove(matches []match) error {
	parents := make(map[*node]struct{})
	for _, m := range matches {
		if m.parent == nil {
			return errors.New("$ selects the whole document, which cannot be removed: name the values to remove")
		}
		m.node.kind = 0
		parents[m.parent] = struct{}{}
	}
	for parent := range parents {
		a.budget -= budget(len(parent.members) + len(parent.items))
		parent.members = slices.DeleteFunc(parent.members, func(m member) bool { return m.value.kind == 0 })
		parent.items = slices.DeleteFunc(parent.items, func(n *node) bool { return n.kind == 0 })
	}
	return nil
}

// copyTo merges the value that the action's copy selects into the selected values.
func (a *application) copyTo(matches []match) error {
	sources, err := a.find(a.action.copy)
	if err != nil {
		return err
	}
	if len(sources) != 1 {
		return fmt.Errorf("copy %s must select one value of the document, and selects %d", a.action.copy, len(sources))
	}
	if err := a.take(size(sources[0].node)); err != nil {
		return err
	}
	return a.update(matches, "copy", clone(sources[0].node)) // a target may be part of the source
}

// update merges the value into each selected value. Name is the field that the value comes from.
func (a *application) update(matches []match, name string, value *node) error {
	first := matches[0]
	for _, m := range matches {
		if class(m.node) != class(first.node) {
			return fmt.Errorf("target %s selects %s, which is %s, and %s, which is %s: %s needs values of one kind, so write an action for each",
				a.action.target, first.path, class(first.node), m.path, class(m.node), name)
		}
	}
	if first.node.primitive() && !a.overlay.primitives {
		return fmt.Errorf("target %s selects %s: select the object that contains it, or write overlay: 1.1.0", a.action.target, class(first.node))
	}
	cost := size(value)
	for _, m := range matches {
		if err := a.take(cost); err != nil {
			return err
		}
		if m.node.kind == '[' && value.kind != '[' {
			m.node.items = append(m.node.items, clone(value))
			continue
		}
		if err := a.merge(m.path, m.node, value); err != nil {
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

// merge merges a value into the value with the path, which must have the same class (Overlay 1.1, Action Object).
func (a *application) merge(path spec.NormalizedPath, into, value *node) error {
	into.decoded = nil
	switch {
	case class(into) != class(value):
		return fmt.Errorf("%s is %s in the document and %s in the overlay: remove it in an action before this one",
			path, class(into), class(value))
	case into.primitive():
		into.kind, into.raw = value.kind, value.raw
	case into.kind == '[':
		into.items = append(into.items, clone(value).items...)
	default:
		a.budget -= budget(len(into.members)) // the next query reports that too little is left
		added := make(map[string]*node, len(value.members))
		for _, m := range value.members {
			added[m.name] = m.value
		}
		for _, m := range into.members {
			more := added[m.name]
			if more == nil {
				continue
			}
			if err := a.merge(append(slices.Clip(path), spec.Name(m.name)), m.value, more); err != nil {
				return err
			}
			delete(added, m.name)
		}
		for _, m := range value.members {
			if added[m.name] != nil {
				into.members = append(into.members, member{m.name, clone(m.value)})
			}
		}
	}
	return nil
}

// class returns what a value can be merged with: an object, an array or a primitive value.
func class(n *node) string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "a primitive value"
}
