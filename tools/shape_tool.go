package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/schema"
)

// toolShaper applies one shape, merged from the document and the options, to one tool.
type toolShaper struct {
	*shaper
	build.Shape // arguments by their name in from
	matched     bool
	configured  map[string]string // the shape of the options that names an argument, by the argument's name
	source      string            // the shape of the options that was added last, for messages
	selects     bool              // a shape of the options has the expression of Select

	from, to *Tool
	names    []string // of the arguments, after renaming
	edit     schema.Edit
	guards   guards
	changes  []string
}

// add merges a shape of the options into the shape. Its settings take precedence.
func (s *toolShaper) add(c *selectedShape, declared *build.Shape, given map[string]bool) error {
	over := c.Shape
	over.Arguments = make(map[string]build.ArgumentShape, len(c.Arguments))
	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		a := c.Arguments[name]
		own, known := s.argument(name, declared)
		switch {
		case known:
			over.Arguments[own] = a
			s.configured[own] = c.name()
			given[givenKey(name)] = true
		case c.Tool == build.AllTools:
		default:
			err := fmt.Errorf("%s: %s has no argument %q%s", c.name(), s.from.Operation(), name, s.from.SuggestArgument(name))
			if !s.options.Reloaded || a.Guards() {
				return err
			}
			s.set.Report.warn(Warning{Operation: s.from.Operation(), Reason: err.Error()})
		}
	}
	s.Shape = over.Over(s.Shape)
	s.source = c.name()
	s.matched = true
	s.selects = s.selects || c.Select != ""
	if c.Rename != "" {
		s.renamed[s.from] = true
	}
	return nil
}

// argument returns the name of an argument by the name that the document gives it, or that the shape in
// the document gives it.
func (s *toolShaper) argument(name string, declared *build.Shape) (own string, known bool) {
	if i, known := argumentFor(s.from, name); known {
		return s.from.Plan.Arguments[i].Name, true
	}
	if declared != nil {
		for own, a := range declared.Arguments {
			if a.Rename == name {
				return own, true
			}
		}
	}
	return "", false
}

// shape returns the changed tool.
func (s *toolShaper) shape() (*Tool, error) {
	s.to = s.from.clone()
	s.names = make([]string, len(s.from.Plan.Arguments))
	s.edit = schema.Edit{Rename: make(map[string]string), Set: make(map[string][]strictjson.Member)}
	for i := range s.from.Plan.Arguments {
		s.names[i] = s.from.Plan.Arguments[i].Name
		if name := s.Arguments[s.names[i]].Rename; name != "" {
			s.names[i] = name
		}
	}
	for i := range s.from.Plan.Arguments {
		a, named := s.Arguments[s.from.Plan.Arguments[i].Name]
		if !named {
			continue
		}
		if err := s.shapeArgument(i, &a); err != nil {
			if err = s.reject(i, &a, err); err != nil {
				return nil, err
			}
		}
	}
	if err := s.checkAliases(); err != nil {
		return nil, err
	}
	s.addFields()
	s.finishArguments()
	if err := s.shapeTexts(); err != nil {
		return nil, err
	}
	s.to.Unshaped.Changes = s.changes
	if s.renamed[s.from] {
		s.renamed[s.to] = true
	}
	if s.lost[s.from] {
		s.lost[s.to] = true
	}
	return s.to, nil
}

// reject handles a change of an argument that is impossible and was not applied. If the options
// demand the change, it returns an error. If the document does, it adds a warning, and omits the tool if
// the argument must be fixed or hidden.
func (s *toolShaper) reject(i int, a *build.ArgumentShape, err error) error {
	name := s.from.Plan.Arguments[i].Name
	if source := s.configured[name]; source != "" {
		err = fmt.Errorf("%s: argument %s: %w", source, name, err)
		if !s.options.Reloaded || a.Guards() {
			return err
		}
		s.set.Report.warn(Warning{Operation: s.from.Operation(), Reason: err.Error()})
		return nil
	}
	s.set.Report.warn(Warning{Operation: s.from.Operation(), Reason: fmt.Sprintf("%s of argument %s: %v", build.ShapeExtension, name, err), Lost: a.Guards()})
	if a.Guards() {
		s.lost[s.from] = true
	}
	return nil
}

// shapeArgument changes the argument at position i.
func (s *toolShaper) shapeArgument(i int, a *build.ArgumentShape) error {
	if a.Rename != "" {
		for j := range s.names {
			if j != i && s.names[j] == a.Rename {
				return fmt.Errorf("rename %s: the tool has an argument with this name; choose another name", a.Rename)
			}
		}
	}
	switch {
	case a.Fixed != nil:
		return s.fix(i, "fixed", a.Fixed)
	case a.Hidden() && a.Default != nil:
		return s.fix(i, "default", a.Default)
	case a.Hidden():
		return s.hide(i)
	}
	value, err := s.value(i, "default", a.Default)
	if err != nil {
		return err
	}
	argument, planned := &s.to.Plan.Arguments[i], &s.to.Plan.Encodings[i]
	var set []strictjson.Member
	var changes []string
	if a.Rename != "" && a.Rename != argument.Name {
		s.edit.Rename[argument.Name] = a.Rename
		changes = append(changes, "renamed to "+a.Rename)
	}
	if a.Description != "" {
		argument.Description = a.Description
		set = append(set, strictjson.Member{Name: "description", Value: strictjson.AppendString(nil, a.Description)})
		changes = append(changes, "description")
	}
	if value != nil {
		argument.Default, argument.Required = value, false
		planned.Fill = value
		set = append(set, strictjson.Member{Name: "default", Value: value})
		s.edit.Optional = append(s.edit.Optional, argument.Name)
		s.sendBody(i)
		changes = append(changes, "default "+text.Cut(string(value), maxChange))
	}
	if len(set) > 0 {
		s.edit.Set[argument.Name] = set
		argument.Schema = schema.SetMembers(argument.Schema, set...)
	}
	if len(changes) > 0 {
		s.changed("argument "+argument.Name, strings.Join(changes, ", "))
	}
	return nil
}

// maxChange is the maximum number of bytes of a value that Unshaped.Changes quotes.
const maxChange = 60

func (s *toolShaper) changed(what, how string) {
	s.changes = append(s.changes, what+": "+how)
}

// sendBody makes an optional body required, if the argument is in it.
func (s *toolShaper) sendBody(i int) {
	if s.from.Plan.Arguments[i].In == InBody && !s.from.Plan.Body.Required {
		s.to.Plan.sendsBody = true
	}
}

// value checks a value of the configuration against the argument's schema and returns it as JSON. Word
// is the name of the shape's member, for messages.
func (s *toolShaper) value(i int, word string, raw json.RawMessage) (jsontext.Value, error) {
	if raw == nil {
		return nil, nil
	}
	a := &s.from.Plan.Arguments[i]
	value := jsontext.Value(raw).Clone()
	if err := strictjson.Check(value); err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	value, err := build.ConvertValue(value, a.types)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", word, text.Cut(string(raw), maxChange), err)
	}
	decoded, err := strictjson.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	problems, err := (&validation{tool: s.from, forgiven: func(*Argument) bool { return true }}).problems(map[string]any{a.Name: decoded})
	if err != nil {
		return nil, fmt.Errorf("%s: the schema of the tool cannot be used: %w", word, err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Path, text.Pointer(a.Name)) {
			return nil, fmt.Errorf("%s %s: %s", word, text.Cut(string(raw), maxChange), p.Message)
		}
	}
	if param := s.from.Plan.Encodings[i].Param; param != nil && value.Kind() != 'n' && !isSendable(param, value) {
		return nil, fmt.Errorf("%s %s cannot be sent in the %s of a request", word, text.Cut(string(raw), maxChange), a.In)
	}
	return value, nil
}

// fix makes the gateway send the value with every call.
func (s *toolShaper) fix(i int, word string, raw json.RawMessage) error {
	template := jsontext.Value(raw).Clone()
	a, planned := &s.to.Plan.Arguments[i], &s.to.Plan.Encodings[i]
	if word == "fixed" && strictjson.Check(template) == nil && len(build.Placeholders(template)) > 0 {
		if err := s.fixPerCall(i, template); err != nil {
			return err
		}
		planned.Fill = nil
	} else {
		value, err := s.value(i, word, raw)
		if err != nil {
			return err
		}
		planned.Fill = value
	}
	s.sendBody(i)
	s.guard(i)
	s.changed("argument "+a.Name, "fixed "+text.Cut(string(template), maxChange))
	return nil
}

// fixPerCall makes the gateway send a value with placeholders, which are replaced when the tool is called.
func (s *toolShaper) fixPerCall(i int, template jsontext.Value) error {
	a := &s.from.Plan.Arguments[i]
	if structured := template.Kind() == '[' || template.Kind() == '{'; structured && !request.Fits(template, a.types) {
		return fmt.Errorf("fixed: must be %s", strings.Join(a.types, " or "))
	}
	input, _ := schema.Parse(s.from.Definition.InputSchema)
	own, _ := schema.Parse(a.Schema)
	s.guards.perCall = append(s.guards.perCall, perCallValue{
		argument: i, template: template, schema: new(schema.Validator),
		text: input.Complete(own.Tree),
	})
	return nil
}

// hide makes the gateway omit the argument. If the document requires the argument and has a default for
// it, the default is sent.
func (s *toolShaper) hide(i int) error {
	a, planned := &s.to.Plan.Arguments[i], &s.to.Plan.Encodings[i]
	sent := planned.Fill != nil && (planned.Needed || planned.NeededInBody || a.In == InPath)
	if !sent && (a.Required || planned.Needed || planned.NeededInBody || a.In == InPath) {
		return fmt.Errorf("hide: the API requires the argument; add default or fixed to its block")
	}
	if !sent {
		planned.Fill = nil
	}
	s.guard(i)
	s.changed("argument "+a.Name, "hidden")
	return nil
}

// guard removes the argument from those that callers see and give.
func (s *toolShaper) guard(i int) {
	a, planned := &s.to.Plan.Arguments[i], &s.to.Plan.Encodings[i]
	s.edit.Remove = append(s.edit.Remove, a.Name)
	planned.Filled, planned.Guarded = true, true
	s.guards.names = append(s.guards.names, a.WireName)
	a.Required, a.NonInferrable, a.MCPHeader = false, false, ""
	if s.configured[a.Name] != "" {
		s.guards.configured = append(s.guards.configured, a.WireName)
	}
	if a.In == InPath || a.In == InQuery || a.In == InBody && a.WireName != "" {
		if s.guards.aliases == nil {
			s.guards.aliases = make(map[string]bool)
		}
		s.guards.aliases[request.Alias(a.WireName)] = true
		s.guards.aliases[request.Alias(request.Stem(a.WireName))] = true
	}
}

// checkAliases returns an error if callers can give an argument that servers may mistake for a fixed
// one.
func (s *toolShaper) checkAliases() error {
	for i := range s.to.Plan.Arguments {
		fixed := &s.to.Plan.Arguments[i]
		if !s.to.Plan.Encodings[i].Guarded || s.to.Plan.Encodings[i].Fill == nil && !slices.ContainsFunc(s.guards.perCall, func(v perCallValue) bool { return v.argument == i }) {
			continue
		}
		for j := range s.to.Plan.Arguments {
			other := &s.to.Plan.Arguments[j]
			if s.to.Plan.Encodings[j].Filled || other.WireName == "" || other.In == InHeader || other.In == InCookie || fixed.In == InHeader || fixed.In == InCookie ||
				request.Alias(request.Stem(other.WireName)) != request.Alias(request.Stem(fixed.WireName)) {
				continue
			}
			a := s.Arguments[fixed.Name]
			err := fmt.Errorf("fixed: some servers confuse argument %s (%s) with it; fix or hide that argument, too", other.Name, other.In)
			if err := s.reject(i, &a, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishArguments sets the schema and the list of arguments.
func (s *toolShaper) finishArguments() {
	t := s.to
	if t.Plan.sendsBody {
		for i := range t.Plan.Arguments {
			if a, planned := &t.Plan.Arguments[i], &t.Plan.Encodings[i]; a.In == InBody && planned.NeededInBody && !planned.Filled && planned.Fill == nil && !a.Required {
				a.Required = true
				s.edit.Required = append(s.edit.Required, a.Name)
			}
		}
	}
	for i := range t.Plan.Arguments {
		t.Plan.Arguments[i].Name = s.names[i]
		t.Plan.Encodings[i].DropNull = t.Plan.Encodings[i].DropNull || !t.Plan.Arguments[i].Required && !request.Fits(jsontext.Value("null"), t.Plan.Arguments[i].types)
	}
	t.Plan.Undeclared.Taken = maps.Clone(t.Plan.Undeclared.Taken)
	for i := range t.Plan.Arguments {
		if a := &t.Plan.Arguments[i]; a.In == InBody && a.Name != a.WireName {
			t.Plan.Undeclared.take(a.WireName)
		}
	}
	if s.edit.Changes() {
		t.Definition.InputSchema, t.Definition.full = schema.Prune(s.edit.Apply(t.Definition.InputSchema)), t.Definition.full.With(s.edit)
	}
	if s.guards.aliases != nil || len(s.edit.Remove) > 0 {
		t.Plan.guards = &s.guards
	}
	t.Plan.index = indexOf(t.Plan.Arguments)
	for i := range t.Plan.Arguments {
		a := &t.Plan.Arguments[i]
		if !t.Plan.Encodings[i].Guarded && slices.ContainsFunc(s.options.NonInferrable, func(name string) bool { return marksArgument(name, t, a) }) {
			a.NonInferrable = true
		}
	}
	t.list()
}

// shapeTexts changes the tool's name and texts, and the part of its responses that models get.
func (s *toolShaper) shapeTexts() error {
	t := s.to
	if s.Rename != "" && s.Rename != t.Name {
		s.changed("renamed", "from "+t.Name)
		t.Name = s.Rename
	}
	if s.Title != "" {
		t.Definition.Title = s.Title
		s.changed("title", s.Title)
	}
	if s.Description != "" {
		t.Definition.Description = s.Description
		s.changed("description", text.Cut(s.Description, maxChange))
	}
	if len(s.Annotations) > 0 {
		t.Definition.Annotations = s.Annotations
		for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
			s.changed("annotation", fmt.Sprintf("%s %t", name, s.Annotations[name]))
		}
	}
	if s.MaxTokens != 0 {
		t.Output.MaxTokens = s.MaxTokens
		s.changed("max_tokens", limitText(s.MaxTokens))
	}
	if s.Fields != nil {
		s.changed("fields", strconv.FormatBool(t.Output.Fields))
	}
	if s.SendMismatches != nil {
		t.Plan.Leniency.SendsMismatches = *s.SendMismatches
		s.changed("send_mismatches", strconv.FormatBool(*s.SendMismatches))
	}
	if t.Output.Fields {
		t.Output.Schema, t.Output.Types = nil, nil // they depend on the members that the caller selects
	}
	if s.Select == "" {
		return nil
	}
	query, err := s.query(s.Select)
	if err != nil {
		err = fmt.Errorf("select: %w", err)
		if s.selects {
			return fmt.Errorf("%s: %w", s.source, err)
		}
		s.set.Report.warn(Warning{Operation: t.Operation(), Reason: build.ShapeExtension + ": " + err.Error() + "; it is left out"})
		return nil
	}
	t.Output.Select, t.Output.SelectDeclared = query, !s.selects
	t.Output.Schema, t.Output.Types = nil, nil
	s.changed("select", text.Cut(s.Select, maxChange))
	return nil
}

// limitText returns a limit as the Caddyfile writes it.
func limitText(limit int) string {
	if limit < 0 {
		return "off"
	}
	return strconv.Itoa(limit)
}

// query compiles a jq program once for all tools.
func (s *shaper) query(source string) (*result.Query, error) {
	if query := s.queries[source]; query != nil {
		return query, nil
	}
	query, err := result.CompileQuery(source)
	if err == nil {
		s.queries[source] = query
	}
	return query, err
}

// Hint returns an annotation of the tool: what a shape says, or what the HTTP method implies. An
// openWorldHint is true by default, because it is unknown whether the API uses other systems.
func (t *Tool) Hint(name string) bool {
	if hint, set := t.Definition.Annotations[name]; set {
		return hint
	}
	switch name {
	case build.ReadOnlyHint:
		return t.ReadOnly()
	case build.DestructiveHint:
		return !t.Hint(build.ReadOnlyHint)
	case build.IdempotentHint:
		return t.Idempotent()
	}
	return true
}
