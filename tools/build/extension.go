package build

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// maxShapeExtension limits one x-fairway of a document, in bytes.
const maxShapeExtension = 64 << 10

// maxNamed limits how much of a value of the document a message repeats, in bytes.
const maxNamed = 80

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
	m.Reasons = append(m.Reasons, ShapeExtension+": "+fmt.Sprintf(format, arguments...))
}

// A member of an extension.
type member struct {
	name string
	read func(value jsontext.Value)
}

// ReadShape reads the x-fairway of an operation.
func ReadShape(value jsontext.Value) (s Shape, m Mistakes) {
	m.members(value,
		member{"rename", func(v jsontext.Value) { m.name(&s.Rename, v) }},
		member{"title", func(v jsontext.Value) { m.text("title", &s.Title, v) }},
		member{"description", func(v jsontext.Value) { m.text("description", &s.Description, v) }},
		member{"annotations", func(v jsontext.Value) { m.annotations(&s, v) }},
		member{"arguments", func(v jsontext.Value) { m.arguments(&s, v) }},
		member{"select", func(v jsontext.Value) { m.text("select", &s.Select, v) }},
		member{"max_tokens", func(v jsontext.Value) { m.tokens(&s.MaxTokens, v) }},
		member{"fields", func(v jsontext.Value) { s.Fields = m.toggle("fields", v) }},
		member{"send_mismatches", func(v jsontext.Value) { s.SendMismatches = m.toggle("send_mismatches", v) }})
	return s, m
}

// ReadArgumentShape reads the x-fairway of a parameter or a property. Where names it in messages.
func ReadArgumentShape(where string, value jsontext.Value) (a ArgumentShape, m Mistakes) {
	m.members(value,
		member{"rename", func(v jsontext.Value) { m.name(&a.Rename, v) }},
		member{"description", func(v jsontext.Value) { m.text("description of "+where, &a.Description, v) }},
		member{"default", func(v jsontext.Value) { a.Default = json.RawMessage(v) }},
		member{"fixed", func(v jsontext.Value) { a.Fixed = m.fixed(where, v) }},
		member{"hide", func(v jsontext.Value) {
			a.Hide = m.toggle("hide of "+where, v)
			m.Guards = m.Guards || a.Hide == nil
		}})
	if err := a.check(); err != nil {
		m.add("%s: %v", where, err)
		m.Guards = m.Guards || a.Guards()
		a = ArgumentShape{}
	}
	return a, m
}

// members reads the members of an extension, in the order of the list. It leaves out those that are unknown.
func (m *Mistakes) members(value jsontext.Value, list ...member) {
	switch {
	case value.Kind() != '{':
		m.add("must be an object and is %s; it is left out", strictjson.KindName(value.Kind()))
		return
	case len(value) > maxShapeExtension:
		m.add("is larger than %d KiB; it is left out", maxShapeExtension>>10)
		m.Guards = true
		return
	}
	known := make([]string, len(list))
	for i := range list {
		known[i] = list[i].name
	}
	given := make(map[string]jsontext.Value)
	for walk := strictjson.Into(value); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if slices.Contains(known, name) {
			given[name] = walk.Value
			continue
		}
		suggestion := "; known are " + strings.Join(known, ", ")
		if near := text.Nearest(name, slices.Values(known)); near != "" {
			suggestion = text.DidYouMean(near)
			m.Guards = m.Guards || near == "fixed" || near == "hide"
		}
		m.add("ignored unknown member %q%s", text.Cut(name, maxNamed), suggestion)
	}
	for _, one := range list {
		if value, ok := given[one.name]; ok {
			one.read(value)
		}
	}
}

func (m *Mistakes) text(name string, to *string, value jsontext.Value) {
	if value.Kind() != '"' || strictjson.Text(value) == "" {
		m.add("%s must be a text that is not empty; it is left out", name)
		return
	}
	*to = strictjson.Text(value)
}

func (m *Mistakes) name(to *string, value jsontext.Value) {
	name := strictjson.Text(value)
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
	switch source := string(value); source {
	case `"off"`, "false":
		*to = -1
	default:
		n, err := strconv.Atoi(source)
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
	for walk := strictjson.Into(value); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if name == "title" && walk.Value.Kind() == '"' {
			s.Title = cmp.Or(s.Title, strictjson.Text(walk.Value))
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
	s.Arguments = make(map[string]ArgumentShape)
	for walk := strictjson.Into(value); walk.Next(); {
		name := strictjson.Text(walk.Name)
		a, inside := ReadArgumentShape("argument "+text.Cut(name, maxNamed), walk.Value)
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
