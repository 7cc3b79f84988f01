package library

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
)

const (
	MaxURI       = 8 << 10 // bytes of a URI in a request
	maxTemplate  = 2 << 10 // bytes of a URI template
	maxVariables = 32      // in one template
)

// A uriTemplate is a URI template with the following expressions (RFC 6570):
//
//   - {name} matches a path segment.
//   - {+name} may match several segments, with slashes.
//   - {?name,…} matches query parameters and must be at the end.
//
// Literal text is required between two variables, so that a URI can be matched unambiguously.
//
// The package uritemplate expands templates (Entry.expand). It does not match them: its Match rejects query parameters in
// another order and a ":" in a path segment, lets {+name} include the query, and reads "a,b" as an empty value.
type uriTemplate struct {
	text      string
	path      *regexp.Regexp // matches the part before the query variables
	literal   int            // number of literal bytes
	variables []string       // variables in path, in order
	query     []string       // variables in {?…}
}

// A binding is the value of a variable in a URI.
type binding struct{ name, value string }

// templateForm matches a template: a part with variables, and the query variables. The name of a variable cannot have
// percent-encoded characters.
var templateForm = regexp.MustCompile(strings.ReplaceAll(`^([^{}]*(?:\{\+?NAME\}[^{}]+)*(?:\{\+?NAME\})?)(?:\{\?(NAME(?:,NAME)*)\})?$`, "NAME", `[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*`))

// templateVariable matches a variable in the first part of a template.
var templateVariable = regexp.MustCompile(`\{(\+?)([^{}]*)\}`)

// uriScheme matches the start of a URI (RFC 3986, section 3.1).
var uriScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[^{]`)

// parseTemplate parses a template. A template without variables is a URI.
func parseTemplate(source string) (*uriTemplate, error) {
	form := templateForm.FindStringSubmatch(source)
	switch {
	case len(source) > maxTemplate:
		return nil, fmt.Errorf("the URI is longer than %d bytes", maxTemplate)
	case form == nil:
		return nil, fmt.Errorf("%q has a variable that is not supported; write {name}, {+name} or, at the end, {?name,name}, and text between two of them; "+
			"a name has only letters, digits, dots and underscores", text.Cut(source, text.MaxQuoted))
	case form[2] != "" && strings.Contains(form[1], "?"):
		return nil, fmt.Errorf("the URI already has a query before {?%s}", form[2])
	}
	t := &uriTemplate{text: source}
	pattern, variables := strings.Builder{}, templateVariable.FindAllStringSubmatch(form[1], -1)
	for i, literal := range templateVariable.Split(form[1], -1) {
		if err := content.CheckLiteral(literal); err != nil {
			return nil, err
		}
		pattern.WriteString(regexp.QuoteMeta(literal))
		t.literal += len(literal)
		if i < len(variables) {
			t.variables = append(t.variables, variables[i][2])
			pattern.WriteString(map[string]string{"": `([^/?#]+?)`, "+": `([^?#]+?)`}[variables[i][1]])
		}
	}
	if form[2] != "" {
		t.query = strings.Split(form[2], ",")
	}
	all := slices.Sorted(slices.Values(slices.Concat(t.variables, t.query)))
	switch unique := slices.Compact(slices.Clone(all)); {
	case !uriScheme.MatchString(source):
		return nil, fmt.Errorf("%q must begin with a scheme and a colon, as in docs:///fares", text.Cut(source, text.MaxQuoted))
	case len(unique) < len(all):
		return nil, errors.New("the URI has a variable twice")
	case len(all) > maxVariables:
		return nil, fmt.Errorf("the URI has more than %d variables", maxVariables)
	}
	t.path = regexp.MustCompile(`^(?s:` + pattern.String() + `)$`)
	return t, nil
}

// literalTemplate returns the template for the URI of an MCP server as it is, whatever its characters.
func literalTemplate(uri string) *uriTemplate {
	return &uriTemplate{text: uri, literal: len(uri), path: regexp.MustCompile(`^(?s:` + regexp.QuoteMeta(uri) + `)$`)}
}

func (t *uriTemplate) has(name string) bool {
	return slices.Contains(t.variables, name) || slices.Contains(t.query, name)
}

// isURI reports whether the template has no variables.
func (t *uriTemplate) isURI() bool { return len(t.variables)+len(t.query) == 0 }

// match matches a URI and returns the values of the variables. Query variables are optional.
func (t *uriTemplate) match(uri string) (bindings []binding, ok bool) {
	if len(uri) > MaxURI {
		return nil, false
	}
	path, query := uri, ""
	if len(t.query) > 0 {
		path, query, _ = strings.Cut(uri, "?")
	}
	found := t.path.FindStringSubmatch(path)
	if found == nil {
		return nil, false
	}
	for i, name := range t.variables {
		value, ok := unescape(found[i+1])
		if !ok {
			return nil, false
		}
		bindings = append(bindings, binding{name, value})
	}
	return t.matchQuery(bindings, query)
}

// matchQuery adds the values of the query variables to bindings. Unknown and repeated parameters
// do not match.
func (t *uriTemplate) matchQuery(bindings []binding, query string) ([]binding, bool) {
	if query == "" {
		return bindings, true
	}
	given := len(bindings)
	for pair := range strings.SplitSeq(query, "&") {
		name, escaped, _ := strings.Cut(pair, "=")
		value, ok := unescape(escaped)
		if !ok || !slices.Contains(t.query, name) || slices.ContainsFunc(bindings[given:], func(earlier binding) bool { return earlier.name == name }) {
			return nil, false
		}
		bindings = append(bindings, binding{name, value})
	}
	return bindings, true
}

// unescape decodes percent-encoding. ok is false if the result is not valid text.
func unescape(escaped string) (string, bool) {
	value, err := url.PathUnescape(escaped)
	return value, err == nil && utf8.ValidString(value) && strings.IndexByte(value, 0) < 0
}

// escapeValue percent-encodes everything except unreserved characters, like the expansion of {name}
// (RFC 6570, section 3.2.2).
func escapeValue(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}
