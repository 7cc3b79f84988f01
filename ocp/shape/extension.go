package shape

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
)

// MaxExtension limits one x-fairway of a document, in bytes.
const MaxExtension = 64 << 10

// maxNamed limits how much of a value of the document a message repeats, in bytes.
const maxNamed = 80

// The members of an extension.
var (
	shapeMembers    = []string{"rename", "title", "description", "annotations", "arguments", "select", "max_tokens", "fields"}
	argumentMembers = []string{"rename", "description", "default", "fixed", "hide"}
)

// requestPlaceholders are the prefixes of the placeholders that a document can use in fixed values: what
// is known about the caller. Others, such as {env.…} and {file.…}, would let a document read secrets of
// the gateway.
var requestPlaceholders = []string{"{http.auth.", "{http.ocp.", "{http.otc.", "{http.tool."}

// Mistakes are what is wrong in the x-fairway of a document. Members with mistakes are left out.
type Mistakes struct {
	Reasons []string

	// Guards is true if a mistake concerns an argument that is fixed or hidden. The tool must not be
	// offered then, because it would take what its document withholds.
	Guards bool
}

func (m *Mistakes) add(format string, arguments ...any) {
	m.Reasons = append(m.Reasons, Extension+": "+fmt.Sprintf(format, arguments...))
}

// ReadOperation reads the x-fairway of an operation.
func ReadOperation(value jsontext.Value) (s Shape, m Mistakes) {
	members := m.members(value, shapeMembers)
	for _, name := range shapeMembers {
		value, given := members[name]
		if !given {
			continue
		}
		switch name {
		case "rename":
			m.name(&s.Rename, value)
		case "title":
			m.text("title", &s.Title, value)
		case "description":
			m.text("description", &s.Description, value)
		case "select":
			m.text("select", &s.Select, value)
		case "annotations":
			m.annotations(&s, value)
		case "max_tokens":
			m.tokens(&s.MaxTokens, value)
		case "fields":
			s.Fields = m.toggle("fields", value)
		case "arguments":
			m.arguments(&s, value)
		}
	}
	return s, m
}

// ReadArgument reads the x-fairway of a parameter or a property. Where names it in messages.
func ReadArgument(where string, value jsontext.Value) (a Argument, m Mistakes) {
	members := m.members(value, argumentMembers)
	for _, name := range argumentMembers {
		value, given := members[name]
		if !given {
			continue
		}
		switch name {
		case "rename":
			m.name(&a.Rename, value)
		case "description":
			m.text("description of "+where, &a.Description, value)
		case "default":
			a.Default = json.RawMessage(value)
		case "fixed":
			a.Fixed = m.fixed(where, value)
		case "hide":
			if a.Hide = m.toggle("hide of "+where, value); a.Hide == nil {
				m.Guards = true
			}
		}
	}
	if err := a.check(); err != nil {
		m.add("%s: %v", where, err)
		m.Guards = m.Guards || a.Guards()
		a = Argument{}
	}
	return a, m
}

// members returns the members of an extension. It leaves out those that are unknown.
func (m *Mistakes) members(value jsontext.Value, known []string) map[string]jsontext.Value {
	switch {
	case value.Kind() != '{':
		m.add("must be an object and is %s; it is left out", wire.KindName(value.Kind()))
		return nil
	case len(value) > MaxExtension:
		m.add("is larger than %d KiB; it is left out", MaxExtension>>10)
		m.Guards = true
		return nil
	}
	members := make(map[string]jsontext.Value)
	for walk := wire.Into(value); walk.Next(); {
		name := wire.Text(walk.Name)
		if slices.Contains(known, name) {
			members[name] = walk.Value
			continue
		}
		suggestion := "; known are " + strings.Join(known, ", ")
		if near := nearest.Name(name, slices.Values(known)); near != "" {
			suggestion = "; did you mean " + near + "?"
			m.Guards = m.Guards || near == "fixed" || near == "hide"
		}
		m.add("ignored unknown member %q%s", text.Cut(name, maxNamed), suggestion)
	}
	return members
}

func (m *Mistakes) text(name string, to *string, value jsontext.Value) {
	if value.Kind() != '"' || wire.Text(value) == "" {
		m.add("%s must be a text that is not empty; it is left out", name)
		return
	}
	*to = wire.Text(value)
}

func (m *Mistakes) name(to *string, value jsontext.Value) {
	name := wire.Text(value)
	if value.Kind() != '"' || name == "" {
		m.add("rename must be a name; it is left out")
		return
	}
	if err := checkName(name); err != nil {
		m.add("%v; it is left out", err)
		return
	}
	*to = name
}

// toggle reads true, false, on or off.
func (m *Mistakes) toggle(name string, value jsontext.Value) *bool {
	on := false
	switch string(value) {
	case "true", `"on"`:
		on = true
	case "false", `"off"`:
	default:
		m.add("%s must be true or false; it is left out", name)
		return nil
	}
	return &on
}

// tokens reads a number of tokens or off.
func (m *Mistakes) tokens(to *int, value jsontext.Value) {
	switch text := string(value); text {
	case `"off"`, "false":
		*to = -1
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n == 0 {
			m.add("max_tokens must be a number of tokens or off; it is left out")
			return
		}
		*to = max(n, -1)
	}
}

func (m *Mistakes) annotations(s *Shape, value jsontext.Value) {
	if value.Kind() != '{' {
		m.add("annotations must be an object; it is left out")
		return
	}
	for walk := wire.Into(value); walk.Next(); {
		name := wire.Text(walk.Name)
		if name == "title" && walk.Value.Kind() == '"' {
			if s.Title == "" {
				s.Title = wire.Text(walk.Value)
			}
			continue
		}
		if err := CheckAnnotation(name); err != nil {
			m.add("%v; it is left out", err)
			continue
		}
		hint := m.toggle("annotation "+name, walk.Value)
		if hint == nil {
			continue
		}
		if s.Annotations == nil {
			s.Annotations = make(map[string]bool)
		}
		s.Annotations[name] = *hint
	}
}

func (m *Mistakes) arguments(s *Shape, value jsontext.Value) {
	if value.Kind() != '{' {
		m.add("arguments must be an object; it is left out")
		m.Guards = true
		return
	}
	s.Arguments = make(map[string]Argument)
	for walk := wire.Into(value); walk.Next(); {
		name := wire.Text(walk.Name)
		a, inside := ReadArgument("argument "+text.Cut(name, maxNamed), walk.Value)
		m.Reasons = append(m.Reasons, inside.Reasons...)
		m.Guards = m.Guards || inside.Guards
		s.Arguments[name] = a
	}
}

// fixed checks the placeholders of a fixed value. Caddy also replaces what placeholder does not match,
// such as names with spaces, so a text with a placeholder has no other braces.
func (m *Mistakes) fixed(where string, value jsontext.Value) json.RawMessage {
	if hasOtherBraces(value) {
		m.add("the fixed value of %s has a placeholder and other braces; documents can use only whole placeholders without spaces", where)
		m.Guards = true
		return nil
	}
	for _, p := range Placeholders(value) {
		if !slices.ContainsFunc(requestPlaceholders, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
			m.add("the fixed value of %s has the placeholder %s; documents can use only {http.auth.*}, {http.ocp.*}, {http.otc.*} and {http.tool.*}",
				where, text.Cut(p, maxNamed))
			m.Guards = true
			return nil
		}
	}
	return json.RawMessage(value)
}
