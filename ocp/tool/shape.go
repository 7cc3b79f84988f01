package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/selector"
	"github.com/fairwayhq/fairway/ocp/shape"
)

// Unshaped describes a tool before shapes changed it.
type Unshaped struct {
	Name    string   // the name, as include and exclude use it
	Size    int      // bytes of the name, title, description and input schema, with the description as the document has it
	Changes []string // the changes by shapes, for the operator; nil if there are none
}

// Shapes are applied after all tools are built. Tools without a shape stay as they are.

// shaper applies the shapes of the options and of the document to the tools.
type shaper struct {
	*builder
	shapes  []selectedShape
	queries map[string]*answer.Query // by source
	lost    map[*Tool]bool
	renamed map[*Tool]bool // by the options; their names win over those of the document
}

// A selectedShape is a shape of the options.
type selectedShape struct {
	shape.Shape
	selection selector.Selection // nil for all tools
}

// name returns the name of the shape in messages.
func (s *selectedShape) name() string { return "tool " + s.Tool }

// Matches reports whether the shape selects the tool. Declared is the shape in the document.
func (s *selectedShape) matches(t *Tool, declared *shape.Shape) bool {
	operation := openapi.Operation{ID: t.OperationID, Method: t.Method, Path: t.Path, Template: t.template}
	return s.Tool == shape.All || s.selection.Matches(selector.Candidate{Operation: &operation, Tool: t.Name}) || declared != nil && declared.Rename == s.Tool
}

// shapeTools applies all shapes. Operations are those of the document, also excluded ones.
func (b *builder) shapeTools(operations []selector.Candidate) error {
	for _, t := range b.set.tools {
		t.Unshaped.Name, t.Unshaped.Size = t.Name, t.Unshaped.Size+len(t.Name)+len(t.Title)+len(t.InputSchema)
	}
	if len(b.options.Shapes) == 0 && len(b.declared) == 0 {
		return nil
	}
	s := &shaper{builder: b, queries: make(map[string]*answer.Query), lost: make(map[*Tool]bool), renamed: make(map[*Tool]bool)}
	if err := s.compile(operations); err != nil {
		return err
	}
	given := make(map[string]bool) // arguments that at least one tool has, with the position of their shape
	for i, t := range b.set.tools {
		shaped, err := s.apply(t, given)
		if err != nil {
			return err
		}
		b.set.tools[i] = shaped
	}
	if err := s.checkGiven(given); err != nil {
		return err
	}
	b.set.tools = slices.DeleteFunc(b.set.tools, func(t *Tool) bool { return s.lost[t] })
	return s.claimNames()
}

// compile checks the shapes of the options and finds those that select nothing.
func (s *shaper) compile(operations []selector.Candidate) error {
	for i := range s.options.Shapes {
		one := selectedShape{Shape: s.options.Shapes[i]}
		if err := one.Check(); err != nil {
			return fmt.Errorf("%s: %w", one.name(), err)
		}
		if one.Tool != shape.All {
			var err error
			if one.selection, err = selector.Compile([]selector.Selector{{By: "operation", Value: one.Tool}}); err != nil {
				return fmt.Errorf("%s: %w", one.name(), err)
			}
			if err := s.checkMatches(&one, operations); err != nil {
				return err
			}
		}
		s.shapes = append(s.shapes, one)
	}
	return nil
}

// checkMatches returns an error if the shape selects no operation. If the document was reloaded and the
// shape fixes and hides no argument, it adds a warning instead. Otherwise the operation may have been
// renamed, and callers could give an argument that the operator withholds.
func (s *shaper) checkMatches(one *selectedShape, operations []selector.Candidate) error {
	for _, t := range s.set.tools {
		if one.matches(t, s.declared[t]) {
			return nil
		}
	}
	e := one.selection.Unmatched(selector.ShapeOption, operations)
	if e == nil {
		s.warn(Warning{Reason: one.name() + " has no effect: include, exclude or readonly leave its operation out"})
		return nil
	}
	taken := func(t *Tool) bool { return one.Rename != "" && t.Name == one.Rename }
	if !s.options.Reloaded || one.Guards() || slices.ContainsFunc(s.set.tools, taken) {
		return e
	}
	s.set.Unmatched = append(s.set.Unmatched, e)
	s.warn(Warning{Reason: e.Error()})
	return nil
}

// apply returns the tool with the changes of the shapes. It adds to given the arguments that shapes for
// all tools found.
func (s *shaper) apply(t *Tool, given map[string]bool) (*Tool, error) {
	declared := s.declared[t]
	one := toolShaper{shaper: s, from: t, configured: make(map[string]string)}
	if declared != nil {
		one.Shape = *declared
		one.matched = true
	}
	for _, all := range [...]bool{true, false} {
		for i := range s.shapes {
			if c := &s.shapes[i]; (c.Tool == shape.All) == all && c.matches(t, declared) {
				if err := one.add(c, declared, given); err != nil {
					return nil, err
				}
			}
		}
	}
	if !one.matched {
		return t, nil
	}
	return one.shape()
}

// givenKey identifies an argument of a shape for all tools.
func givenKey(argument string) string { return shape.All + "\x00" + argument }

// checkGiven returns an error if no tool has an argument of a shape for all tools.
func (s *shaper) checkGiven(given map[string]bool) error {
	for i := range s.shapes {
		one := &s.shapes[i]
		if one.Tool != shape.All {
			continue
		}
		for name, a := range one.Arguments {
			if given[givenKey(name)] {
				continue
			}
			near := nearest.Name(name, func(yield func(string) bool) {
				for _, t := range s.set.tools {
					for j := range t.all {
						if !yield(t.all[j].Name) {
							return
						}
					}
				}
			})
			err := fmt.Errorf("%s: no tool has an argument %q%s", one.name(), name, nearest.DidYouMean(near))
			if !s.options.Reloaded || a.Guards() {
				return err
			}
			s.warn(Warning{Reason: err.Error()})
		}
	}
	return nil
}

// claimNames gives the tools their new names. A configured name that is taken is an error, and one of the
// document is not used.
func (s *shaper) claimNames() error {
	owner := make(map[string]*Tool, len(s.set.tools))
	for _, t := range s.set.tools {
		if t.Unshaped.Name == t.Name {
			owner[t.Name] = t
		}
	}
	for _, configured := range [...]bool{true, false} {
		for _, t := range s.set.tools {
			if t.Unshaped.Name == t.Name || s.renamed[t] != configured {
				continue
			}
			if other := owner[t.Name]; other != nil {
				reason := fmt.Sprintf("%s: rename %s: this is the name of the tool for %s; choose another name", t.Unshaped.Name, t.Name, other.Operation())
				if configured {
					return fmt.Errorf("tool %s", reason)
				}
				s.warn(Warning{Operation: t.Operation(), Reason: shape.Extension + " of tool " + reason})
				if t.Name = t.Unshaped.Name; owner[t.Name] != nil {
					return fmt.Errorf("tool %s: rename %s: this is the name of the tool for %s; choose another name",
						owner[t.Name].Unshaped.Name, t.Name, t.Operation())
				}
			}
			owner[t.Name] = t
		}
	}
	s.set.byName = owner
	return nil
}

// CheckGuards returns an error if the configuration fixed or hid an argument of a tool of the previous
// toolset, and callers can give this argument, or another one in its place, to the same tool of this
// toolset.
func (s *Toolset) CheckGuards(previous *Toolset) error {
	for _, before := range previous.tools {
		if before.guards == nil || len(before.guards.configured) == 0 {
			continue
		}
		i := slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Method == before.Method && t.Path == before.Path })
		if i < 0 {
			i = slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Name == before.Name })
		}
		if i < 0 {
			continue
		}
		for _, name := range before.guards.configured {
			if !s.tools[i].guards.covers(name) {
				return fmt.Errorf("tool %s: argument %s, which the configuration fixes or hides, is not in the changed document: "+
					"change the configuration of the argument, or restart to accept the document", before.Name, name)
			}
		}
	}
	return nil
}

// readShape reads the x-fairway of the operation and merges those of its arguments into it. It returns
// an error if an argument cannot be fixed or hidden as the document demands.
func (t *toolBuilder) readShape() error {
	at := t.operation.At(shape.Extension)
	if at.Node == nil && t.argumentShapes == nil {
		return nil
	}
	declared := shape.Shape{}
	if at.Node != nil {
		var mistakes shape.Mistakes
		declared, mistakes = shape.ReadOperation(at.AppendJSON(nil))
		if err := t.report(mistakes); err != nil {
			return err
		}
		if declared.Annotations[shape.ReadOnlyHint] && changesByDefinition(t.tool.Method) {
			delete(declared.Annotations, shape.ReadOnlyHint)
			t.warnIgnored("%s: annotation %s true is left out, because %s changes something; if that is not so, set it in a tool block",
				shape.Extension, shape.ReadOnlyHint, t.tool.Method)
		}
	}
	named := make(map[string]shape.Argument, len(declared.Arguments))
	for name, a := range declared.Arguments {
		i, known := argumentFor(t.tool, name)
		if !known {
			reason := fmt.Sprintf("%s: there is no argument %q%s", shape.Extension, name, nearest.DidYouMean(nearestArgument(t.tool, name)))
			if a.Guards() {
				return fmt.Errorf("%s", reason)
			}
			t.warnIgnored("%s", reason)
			continue
		}
		named[t.tool.all[i].Name] = a
	}
	declared.Arguments = named
	declared = declared.Over(shape.Shape{Arguments: t.argumentShapes})
	t.declared[t.tool] = &declared
	return nil
}

// changesByDefinition reports whether the semantics of the method is a change (RFC 9110, section 9.3;
// RFC 5789). A document cannot declare such an operation read-only, because clients call read-only
// tools without asking the user. POST is not included, because it is often used for searches.
func changesByDefinition(method string) bool {
	return method == "PUT" || method == "PATCH" || method == "DELETE"
}

// report adds warnings about mistakes. If a mistake concerns an argument that must be fixed or hidden,
// report returns an error instead.
func (t *toolBuilder) report(mistakes shape.Mistakes) error {
	if mistakes.Guards {
		return fmt.Errorf("%s", strings.Join(mistakes.Reasons, "; "))
	}
	for _, reason := range mistakes.Reasons {
		t.warnIgnored("%s", reason)
	}
	return nil
}

// readArgumentShape reads the x-fairway of an argument's parameter or property.
func (t *toolBuilder) readArgumentShape(a *Argument, holder openapi.Place) {
	at := holder.At(shape.Extension)
	if at.Node == nil {
		return
	}
	read, mistakes := shape.ReadArgument("argument "+a.Name, at.AppendJSON(nil))
	if err := t.report(mistakes); err != nil {
		t.withheld = err
	}
	if t.argumentShapes == nil {
		t.argumentShapes = make(map[string]shape.Argument)
	}
	t.argumentShapes[a.Name] = read
}

// argumentFor returns the position of a listed argument by its name, or by its name in the request.
func argumentFor(t *Tool, name string) (position int, known bool) {
	if i, known := t.index.position(t.all, name); known && !t.plans[i].Filled {
		return i, true
	}
	i := slices.IndexFunc(t.all, func(a Argument) bool { return a.WireName == name })
	return i, i >= 0 && !t.plans[i].Filled
}

// nearestArgument returns the name of the listed argument that is nearest to an unknown one.
func nearestArgument(t *Tool, name string) string {
	return nearest.Name(name, func(yield func(string) bool) {
		for i := range t.Arguments {
			if !yield(t.Arguments[i].Name) {
				return
			}
		}
	})
}
