package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/result"
)

// Unshaped describes a tool before shapes changed it.
type Unshaped struct {
	Name    string   // the name, as include and exclude use it
	Size    int      // bytes of the name, title, description and input schema, with the description as the document has it
	Changes []string // the changes by shapes, for the operator; nil if there are none
	Former  string   // the name in earlier versions, if that was another one

	former map[string]int // the arguments by their names in earlier versions, if those were others
}

// Shapes are applied after all tools are built. Tools without a shape stay as they are.

// shaper applies the shapes of the options and of the document to the tools.
type shaper struct {
	options  BuildOptions
	set      *Toolset
	declared map[*Tool]*build.Shape // of the document
	shapes   []selectedShape
	queries  map[string]*result.Query // by source
	lost     map[*Tool]bool
	renamed  map[*Tool]bool // by the options; their names win over those of the document
}

// A selectedShape is a shape of the options.
type selectedShape struct {
	build.Shape
	selection build.Selection // nil for all tools
}

// name returns the name of the shape in messages.
func (s *selectedShape) name() string { return "tool " + s.Tool }

// matches reports whether the shape selects the tool. Declared is the shape in the document.
func (s *selectedShape) matches(t *Tool, declared *build.Shape) bool {
	operation := openapi.Operation{ID: t.Definition.OperationID, Method: t.Plan.Method, Path: t.Plan.Path, Template: t.Plan.Template}
	return s.Tool == build.AllTools || s.selection.Matches(build.Candidate{Operation: &operation, Tool: t.Name}) || declared != nil && declared.Rename == s.Tool
}

// shapeTools applies the shapes of the options and of the document to the tools of a Toolset. Operations are those
// of the document, also excluded ones.
func shapeTools(set *Toolset, o BuildOptions, declared map[*Tool]*build.Shape, operations []build.Candidate) error {
	for _, t := range set.tools {
		t.Unshaped.Name, t.Unshaped.Size = t.Name, t.Unshaped.Size+len(t.Name)+len(t.Definition.Title)+len(t.Definition.InputSchema)
	}
	if len(o.Shapes) == 0 && len(declared) == 0 {
		return nil
	}
	s := &shaper{
		options: o, set: set, declared: declared,
		queries: make(map[string]*result.Query), lost: make(map[*Tool]bool), renamed: make(map[*Tool]bool),
	}
	if err := s.compile(operations); err != nil {
		return err
	}
	given := make(map[string]bool) // arguments that at least one tool has, with the position of their shape
	for i, t := range set.tools {
		shaped, err := s.apply(t, given)
		if err != nil {
			return err
		}
		set.tools[i] = shaped
	}
	if err := s.checkGiven(given); err != nil {
		return err
	}
	set.tools = slices.DeleteFunc(set.tools, func(t *Tool) bool { return s.lost[t] })
	return s.claimNames()
}

// compile checks the shapes of the options and finds those that select nothing.
func (s *shaper) compile(operations []build.Candidate) error {
	for i := range s.options.Shapes {
		one := selectedShape{Shape: s.options.Shapes[i]}
		if err := one.Check(); err != nil {
			return fmt.Errorf("%s: %w", one.name(), err)
		}
		if one.Tool != build.AllTools {
			var err error
			if one.selection, err = build.CompileSelectors([]build.Selector{{By: "operation", Value: one.Tool}}); err != nil {
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
func (s *shaper) checkMatches(one *selectedShape, operations []build.Candidate) error {
	for _, t := range s.set.tools {
		if one.matches(t, s.declared[t]) {
			return nil
		}
	}
	e := one.selection.Unmatched(build.ShapeOption, operations)
	if e == nil {
		s.set.Report.warn(Warning{Reason: one.name() + " has no effect: include, exclude or readonly leave its operation out"})
		return nil
	}
	taken := func(t *Tool) bool { return one.Rename != "" && t.Name == one.Rename }
	if !s.options.Reloaded || one.Guards() || slices.ContainsFunc(s.set.tools, taken) {
		return e
	}
	s.set.Report.Unmatched = append(s.set.Report.Unmatched, e)
	s.set.Report.warn(Warning{Reason: e.Error()})
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
			if c := &s.shapes[i]; (c.Tool == build.AllTools) == all && c.matches(t, declared) {
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
func givenKey(argument string) string { return build.AllTools + "\x00" + argument }

// checkGiven returns an error if no tool has an argument of a shape for all tools.
func (s *shaper) checkGiven(given map[string]bool) error {
	for i := range s.shapes {
		one := &s.shapes[i]
		if one.Tool != build.AllTools {
			continue
		}
		for name, a := range one.Arguments {
			if given[givenKey(name)] {
				continue
			}
			var names []string
			for _, t := range s.set.tools {
				for j := range t.Plan.Arguments {
					names = append(names, t.Plan.Arguments[j].Name)
				}
			}
			near := text.DidYouMean(text.Nearest(name, slices.Values(names)))
			err := fmt.Errorf("%s: no tool has an argument %q%s", one.name(), name, cmp.Or(nowNamed(s.set.tools, name), near))
			if !s.options.Reloaded || a.Guards() {
				return err
			}
			s.set.Report.warn(Warning{Reason: err.Error()})
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
				s.set.Report.warn(Warning{Operation: t.Operation(), Reason: build.ShapeExtension + " of tool " + reason})
				if t.Name = t.Unshaped.Name; owner[t.Name] != nil {
					return fmt.Errorf("tool %s: rename %s: this is the name of the tool for %s; choose another name",
						owner[t.Name].Unshaped.Name, t.Name, t.Operation())
				}
			}
			owner[t.Name] = t
		}
	}
	return nil
}

// CheckGuards returns an error if the configuration fixed or hid an argument of a tool of the previous
// toolset, and callers can give this argument, or another one in its place, to the same tool of this
// toolset.
func (s *Toolset) CheckGuards(previous *Toolset) error {
	for _, before := range previous.tools {
		if before.Plan.guards == nil || len(before.Plan.guards.configured) == 0 {
			continue
		}
		i := slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Plan.Method == before.Plan.Method && t.Plan.Path == before.Plan.Path })
		if i < 0 {
			i = slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Name == before.Name })
		}
		if i < 0 {
			continue
		}
		for _, name := range before.Plan.guards.configured {
			if !s.tools[i].Plan.guards.covers(name) {
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
	at := t.operation.At(build.ShapeExtension)
	own := t.isOwn(at)
	if own && t.options.IgnoreExtensions {
		at.Node = nil
	}
	if at.Node == nil && t.argumentShapes == nil {
		return nil
	}
	declared := build.Shape{}
	if at.Node != nil {
		var mistakes build.Mistakes
		declared, mistakes = build.ReadShape(at.AppendJSON(nil))
		if err := t.reportMistakes(mistakes); err != nil {
			return err
		}
		if declared.Annotations[build.ReadOnlyHint] && !t.tool.ReadOnly() && own {
			delete(declared.Annotations, build.ReadOnlyHint)
			t.warnIgnored("%s: annotation %s true is left out, because the operation can change something; if it does not, set the annotation in a tool block or an overlay",
				build.ShapeExtension, build.ReadOnlyHint)
		}
	}
	named := make(map[string]build.ArgumentShape, len(declared.Arguments))
	for name, a := range declared.Arguments {
		i, known := argumentFor(t.tool, name)
		if !known {
			reason := fmt.Sprintf("%s: there is no argument %q%s", build.ShapeExtension, name, t.tool.SuggestArgument(name))
			if a.Guards() {
				return fmt.Errorf("%s", reason)
			}
			t.warnIgnored("%s", reason)
			continue
		}
		named[t.plan.Arguments[i].Name] = a
	}
	declared.Arguments = named
	declared = declared.Over(build.Shape{Arguments: t.argumentShapes})
	t.shape = &declared
	return nil
}

// isOwn reports whether an x-fairway is the document's own, and not from an overlay of the operator. The
// document cannot declare an operation read-only, because clients call read-only tools without asking the user.
func (s *toolSource) isOwn(at openapi.Place) bool { return !s.options.Overlaid || at.File != s.root }

// reportMistakes adds warnings about mistakes. If a mistake concerns an argument that must be fixed or hidden,
// it returns an error instead.
func (t *toolBuilder) reportMistakes(mistakes build.Mistakes) error {
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
	at := holder.At(build.ShapeExtension)
	if at.Node == nil || t.options.IgnoreExtensions && t.isOwn(at) {
		return
	}
	read, mistakes := build.ReadArgumentShape("argument "+a.Name, at.AppendJSON(nil))
	if err := t.reportMistakes(mistakes); err != nil {
		t.withheld = err
	}
	t.addArgumentShape(a.Name, read)
}

func (t *toolBuilder) addArgumentShape(argument string, shape build.ArgumentShape) {
	if t.argumentShapes == nil {
		t.argumentShapes = make(map[string]build.ArgumentShape)
	}
	t.argumentShapes[argument] = shape
}

// argumentFor returns the position of a listed argument by its name, or by its name in the request.
func argumentFor(t *Tool, name string) (position int, known bool) {
	if i, known := t.Plan.index.position(t.Plan.Arguments, name); known && !t.Plan.Encodings[i].Filled {
		return i, true
	}
	i := slices.IndexFunc(t.Plan.Arguments, func(a Argument) bool { return a.WireName == name })
	return i, i >= 0 && !t.Plan.Encodings[i].Filled
}

// SuggestArgument returns the end of an error about an unknown argument. It names the listed argument that had the
// name in earlier versions, has it in the document, or has the nearest name. It is "" if there is none.
func (t *Tool) SuggestArgument(name string) string {
	if now := nowNamed([]*Tool{t}, name); now != "" {
		return now
	}
	if i, known := argumentFor(t, name); known {
		return text.DidYouMean(t.Plan.Arguments[i].Name)
	}
	var names []string
	for i := range t.Definition.Arguments {
		names = append(names, t.Definition.Arguments[i].Name)
	}
	return text.DidYouMean(text.Nearest(name, slices.Values(names)))
}

// nowNamed returns the end of an error about an argument that one of the tools had in earlier versions, or "".
func nowNamed(tools []*Tool, argument string) string {
	for _, t := range tools {
		if now := t.RenamedArgument(argument); now != "" {
			return text.NowNamed(now)
		}
	}
	return ""
}

// RenamedArgument returns the name of the listed argument that had another name in earlier versions, or "".
func (t *Tool) RenamedArgument(former string) string {
	i, renamed := t.Unshaped.former[former]
	if !renamed || t.Plan.Encodings[i].Filled {
		return ""
	}
	return t.Plan.Arguments[i].Name
}
