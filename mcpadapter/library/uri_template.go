package library

import (
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
// The package uritemplate is not used: its Match rejects query parameters in another order and
// a ":" in a path segment, lets {+name} include the query, and reads "a,b" as an empty value.
type uriTemplate struct {
	text      string
	path      *regexp.Regexp // matches the part before the query variables
	literal   int            // number of literal bytes
	variables []string       // variables in path, in order
	query     []string       // variables in {?…}
}

// A binding is the value of a variable in a URI.
type binding struct{ name, value string }

// templateExpression matches an expression; everything else is literal.
var templateExpression = regexp.MustCompile(`\{([^{}]*)\}`)

// templateVariable matches the name of a variable. Percent-encoded characters are not supported.
var templateVariable = regexp.MustCompile(`^[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*$`)

// parseTemplate parses a template. A template without variables is a URI.
func parseTemplate(source string) (*uriTemplate, error) {
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("the URI is longer than %d bytes", maxTemplate)
	}
	t := &uriTemplate{text: source}
	pattern := strings.Builder{}
	rest, after := source, "" // after is the expression before rest
	for {
		at := templateExpression.FindStringSubmatchIndex(rest)
		literal := rest
		if at != nil {
			literal = rest[:at[0]]
		}
		if err := content.CheckLiteral(literal); err != nil {
			return nil, err
		}
		switch {
		case t.query != nil && (literal != "" || at != nil):
			return nil, fmt.Errorf("%s must be at the end of the URI", after)
		case at != nil && strings.HasPrefix(rest[at[0]:], "{?") && strings.Contains(source[:len(source)-len(rest)+at[0]], "?"):
			return nil, fmt.Errorf("the URI already has a query before %s", rest[at[0]:at[1]])
		case at != nil && literal == "" && after != "" && !strings.HasPrefix(rest, "{?"):
			return nil, fmt.Errorf("%s and %s need text between them, because a URI cannot be split otherwise", after, rest[:at[1]])
		}
		pattern.WriteString(regexp.QuoteMeta(literal))
		t.literal += len(literal)
		if at == nil {
			break
		}
		after = rest[at[0]:at[1]]
		if err := t.addExpression(rest[at[2]:at[3]], &pattern); err != nil {
			return nil, err
		}
		rest = rest[at[1]:]
	}
	if !uriScheme.MatchString(source) {
		return nil, fmt.Errorf("%q must begin with a scheme and a colon, as in docs:///fares", text.Cut(source, text.MaxQuoted))
	}
	t.path = regexp.MustCompile(`^(?s:` + pattern.String() + `)$`)
	return t, nil
}

// literalTemplate returns the template for the URI of an MCP server as it is, whatever its characters.
func literalTemplate(uri string) *uriTemplate {
	return &uriTemplate{text: uri, literal: len(uri), path: regexp.MustCompile(`^(?s:` + regexp.QuoteMeta(uri) + `)$`)}
}

// addExpression adds the variables of one expression, and the regular expression that matches it.
func (t *uriTemplate) addExpression(expression string, pattern *strings.Builder) error {
	operator := ""
	if expression != "" && strings.IndexByte("+?", expression[0]) >= 0 {
		operator, expression = expression[:1], expression[1:]
	}
	names := strings.Split(expression, ",")
	for _, name := range names {
		switch {
		case !templateVariable.MatchString(name):
			return fmt.Errorf("{%s%s} is not supported; write {name}, {+name} or, at the end, {?name,name}; a name has only letters, digits, dots and underscores",
				operator, expression)
		case t.has(name):
			return fmt.Errorf("the URI has the variable %s twice", name)
		case len(t.variables)+len(t.query) == maxVariables:
			return fmt.Errorf("the URI has more than %d variables", maxVariables)
		}
		if operator == "?" {
			t.query = append(t.query, name)
			continue
		}
		if len(names) > 1 {
			return fmt.Errorf("{%s%s} has several variables; only {?…} can have more than one", operator, expression)
		}
		t.variables = append(t.variables, name)
	}
	switch operator {
	case "":
		pattern.WriteString(`([^/?#]+?)`)
	case "+":
		pattern.WriteString(`([^?#]+?)`)
	}
	return nil
}

// uriScheme matches the start of a URI (RFC 3986, section 3.1).
var uriScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[^{]`)

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
		if !ok || !slices.Contains(t.query, name) {
			return nil, false
		}
		for _, earlier := range bindings[given:] {
			if earlier.name == name {
				return nil, false
			}
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
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(value))
	for i := range len(value) {
		c := value[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&0xf])
		}
	}
	return string(b)
}
