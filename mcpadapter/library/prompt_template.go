package library

import (
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
)

// A Template is a text with {{argument}} placeholders; {{{{ is replaced by two braces. Values are
// inserted as they are and are not parsed for placeholders again.
type template struct {
	Parts []templatePart
}

// A templatePart is literal text or, if Argument is not empty, a placeholder.
type templatePart struct{ Text, Argument string }

// ParseTemplate parses a Template.
func ParseTemplate(source string) (template, error) {
	var t template
	literal := strings.Builder{}
	flush := func() {
		if literal.Len() > 0 {
			t.Parts = append(t.Parts, templatePart{Text: literal.String()})
			literal.Reset()
		}
	}
	for rest := source; ; {
		before, after, found := strings.Cut(rest, "{{")
		literal.WriteString(before)
		if !found {
			flush()
			return t, nil
		}
		if escaped, ok := strings.CutPrefix(after, "{{"); ok {
			literal.WriteString("{{")
			rest = escaped
			continue
		}
		name, end, closed := strings.Cut(after, "}}")
		name = strings.TrimSpace(name)
		if !closed || name == "" || strings.ContainsAny(name, "{}\n") {
			return template{}, fmt.Errorf("%q does not begin a placeholder of the form {{argument}}; write {{{{ for two literal braces", text.Cut("{{"+after, text.MaxQuoted))
		}
		flush()
		t.Parts = append(t.Parts, templatePart{Argument: name})
		rest = end
	}
}

// names returns the names of the arguments in the template.
func (t template) names() (names []string) {
	for _, part := range t.Parts {
		if part.Argument != "" {
			names = append(names, part.Argument)
		}
	}
	return names
}

// Size returns the length of the filled template, in bytes.
func (t template) Size(values map[string]string) (size int) {
	for _, part := range t.Parts {
		size += len(part.Text) + len(values[part.Argument])
	}
	return size
}

// Fill returns the text with the values inserted. A missing value is empty.
func (t template) Fill(values map[string]string) string {
	return t.join(values, func(value string) string { return value })
}

// FillURI is fill for a URI. If the template is a single placeholder, the value is the whole URI.
// Otherwise values are percent-encoded, so that they cannot change the structure of the URI.
func (t template) FillURI(values map[string]string) string {
	if len(t.Parts) == 1 {
		return t.Fill(values)
	}
	return t.join(values, escapeValue)
}

func (t template) join(values map[string]string, escape func(string) string) string {
	var b strings.Builder
	for _, part := range t.Parts {
		b.WriteString(part.Text)
		if part.Argument != "" {
			b.WriteString(escape(values[part.Argument]))
		}
	}
	return b.String()
}
