package openapi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pathParser splits a key of the Paths Object into the part to send and the part that only
// identifies the operation. It accepts keys that OpenAPI does not allow but documents use:
//
//   - "/files/{id}#add_shared_link": the part from "#" on is never sent.
//   - "/rest?method=photos.get": the query is sent with every request. A pair
//     whose value has a parameter ("?q={text}") becomes a query parameter.
//   - "/trips{?page,limit}" (RFC 6570, section 3.2.8): query parameters.
//   - "/files/{path=**}", "/{name=shelves/*}:archive": parameters of several segments.
type pathParser struct {
	*ledger
	*Operation
	template strings.Builder // the path to send, without the query
	names    []string        // names of the path parameters, without duplicates
	nameless int             // number of parameters without a name so far

	spans map[string]string // Segments of the path parameters that have them, by name
	wide  bool              // a path parameter has any number of segments
}

// read sets Template, ConstantQuery and the parameters in the path. It returns an error
// only if the path cannot be sent.
func (p *pathParser) read() error {
	path := p.Path
	switch {
	case len(path) > maxPath || strings.Count(path, "{") > maxPathNames:
		return fmt.Errorf("the path %.50q… has more than %d bytes or %d parameters", path, maxPath, maxPathNames)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("the path %q has a NUL character, which no request can have", path)
	}
	path, query := splitPath(p.absolute(path))
	p.readTemplate(path)
	template, ok := withoutDotSegments(p.template.String())
	switch {
	case !ok:
		return fmt.Errorf("the path %q leads above the API's base path", p.Path)
	case template != p.template.String():
		p.warn("the path has . or .. segments: %s is used", template)
	}
	p.Template = template
	p.readQuery(query)
	p.matchTemplate(slices.DeleteFunc(p.names, func(name string) bool { return !strings.Contains(template, "{"+name+"}") }))
	return nil
}

// absolute returns the path with a leading slash, without surrounding space and without the
// scheme and host that some documents repeat.
func (p *pathParser) absolute(path string) string {
	trimmed := strings.TrimSpace(path)
	for _, scheme := range [...]string{"https://", "http://"} {
		if rest, found := strings.CutPrefix(trimmed, scheme); found {
			_, rest, _ = strings.Cut(rest, "/")
			trimmed = "/" + rest
		}
	}
	if !strings.HasPrefix(trimmed, "/") {
		trimmed = "/" + trimmed
	}
	if trimmed != path {
		p.warn("the path %q is not of the form /path: %s is used", path, trimmed)
	}
	return trimmed
}

// splitPath removes the fragment and splits path and query. Text in braces belongs to the name
// of a parameter.
func splitPath(path string) (before, query string) {
	depth := 0
	mark := -1
	for i := range len(path) {
		switch c := path[i]; {
		case c == '{' && closingBrace(path[i:]) > 0:
			depth++
		case c == '}' && depth > 0:
			depth--
		case depth > 0:
		case c == '?' && mark < 0:
			mark = i
		case c == '#':
			path = path[:i]
			if mark < 0 {
				return path, ""
			}
			return path[:mark], path[mark+1:]
		}
	}
	if mark < 0 {
		return path, ""
	}
	return path[:mark], path[mark+1:]
}

// closingBrace returns the position of the brace that closes the one at the start of text, or
// 0 if there is none.
func closingBrace(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// readTemplate copies the path and writes its parameters as {name}. Braces without a name are
// literal.
func (p *pathParser) readTemplate(path string) {
	for path != "" {
		open := strings.IndexAny(path, "{}")
		if open < 0 {
			p.template.WriteString(path)
			return
		}
		p.template.WriteString(path[:open])
		path = path[open:]
		end := closingBrace(path)
		if end == 0 {
			p.literalBrace(path[0])
			path = path[1:]
			continue
		}
		inner := path[1:end]
		switch names, isQuery := queryExpression(inner); {
		case isQuery:
			for _, name := range names {
				p.queryParameter(name, "{"+name+"}", false)
			}
		case strings.HasPrefix(inner, "#"): // a fragment (RFC 6570, section 3.2.4)
		default:
			name, segments, ok := p.parameterName(inner)
			if !ok {
				p.literalBrace('{')
				path = path[1:]
				continue
			}
			if strings.HasPrefix(inner, "/") && !strings.HasSuffix(p.template.String(), "/") { // RFC 6570, section 3.2.6
				p.template.WriteByte('/')
			}
			p.template.WriteString("{" + name + "}")
			if !slices.Contains(p.names, name) {
				p.names = append(p.names, name)
				p.span(name, segments)
			}
		}
		path = path[end+1:]
	}
}

func (p *pathParser) literalBrace(brace byte) {
	p.warn("the path has a %q that encloses no parameter: it is sent as text", brace)
	fmt.Fprintf(&p.template, "%%%02X", brace)
}

// parameterName returns the parameter that the text in braces names, and its Segments. The text may
// be a declared name, or a name with an operator ("{+path}", "{proxy+}", "{path*}", "{path...}"), a pattern
// ("{id:[0-9]+}", "{name=shelves/*}") or more braces ("{{id}}").
func (p *pathParser) parameterName(inner string) (name, segments string, ok bool) {
	whole := inner
	if twice, found := strings.CutPrefix(inner, "{"); found {
		inner = strings.TrimSuffix(twice, "}")
	}
	bare, pattern, hasPattern := strings.Cut(inner, "=")
	if strings.ContainsAny(bare, ":") {
		bare, pattern, _ = strings.Cut(inner, ":")
		if hasPattern = false; slashes(pattern) {
			segments = anySegments
		}
	}
	trimmed := strings.TrimSpace(bare)
	bare = strings.TrimRight(strings.TrimLeft(trimmed, "+*/;."), "*+?.")
	switch {
	case trimmed != bare && (strings.ContainsAny(trimmed, "+*") || strings.HasSuffix(trimmed, "...")):
		segments = anySegments
	case hasPattern:
		segments = p.segments(bare, strings.TrimSpace(pattern))
	}
	switch {
	case p.has("path", whole) && !strings.ContainsAny(whole, "{}"):
		return whole, segments, true
	case strings.ContainsAny(bare, "{}/"):
		return "", "", false
	case bare == "":
		p.nameless++
		name = "parameter" + strconv.Itoa(p.nameless)
		p.warn("the path has a parameter without a name: it is called %s", name)
		return name, segments, true
	}
	return bare, segments, true
}

// slashes reports whether the constraint of a parameter, "path" or a regular expression, allows slashes.
func slashes(constraint string) bool {
	if constraint = strings.TrimSpace(constraint); constraint == "path" || strings.Trim(constraint, "*") == "" && constraint != "" {
		return true
	}
	expression, err := regexp.Compile("^(?:" + constraint + ")$")
	return err == nil && expression.MatchString("a/b")
}

// segments returns the Segments of a parameter with a pattern as in "{name=shelves/*}" (google.api.http). A
// pattern without a wildcard may also be a default, "{id=1}".
func (p *pathParser) segments(name, pattern string) string {
	parts := strings.Split(pattern, "/")
	isPart := func(part string) bool {
		return part != "" && (part == "*" || part == "**" || !strings.ContainsAny(part, "*{}"))
	}
	switch understood := !slices.ContainsFunc(parts, func(part string) bool { return !isPart(part) }); {
	case understood && len(parts) == 1 && pattern != anySegments:
		return ""
	case understood && strings.Count(pattern, anySegments) < 2:
		return pattern
	}
	p.warn("path parameter %q: the pattern %q is not understood, any number of segments is taken", name, pattern)
	return anySegments
}

// span sets the Segments of the path parameter with that name. Only one parameter of a path can have any number of
// segments, since the place where it ends must be certain.
func (p *pathParser) span(name, segments string) {
	if segments == "" {
		return
	}
	if strings.Contains(segments, anySegments) {
		if p.wide {
			p.warn("path parameter %q: taken as one segment, as another parameter of the path has any number of segments", name)
			return
		}
		p.wide = true
	}
	if p.spans == nil {
		p.spans = make(map[string]string)
	}
	p.spans[name] = segments
}

// queryExpression returns the names in "{?page,limit*}" or "{&page}".
func queryExpression(inner string) (names []string, ok bool) {
	if inner == "" || inner[0] != '?' && inner[0] != '&' {
		return nil, false
	}
	for name := range strings.SplitSeq(inner[1:], ",") {
		name, _, _ = strings.Cut(strings.TrimRight(strings.TrimSpace(name), "*"), ":")
		if name != "" {
			names = append(names, name)
		}
	}
	return names, true
}

// readQuery sets ConstantQuery, and creates a parameter for each pair that contains one.
func (p *pathParser) readQuery(query string) {
	var constant []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case pair == "":
		case strings.ContainsAny(pair, "{}") && name != "" && !strings.ContainsAny(name, "{}"):
			p.queryParameter(name, value, true)
		case strings.ContainsAny(pair, "{}"):
			p.warn("the query %q of the path names no parameter: it is not sent", pair)
		default:
			constant = append(constant, pair)
		}
	}
	p.ConstantQuery = strings.Join(constant, "&")
}

// queryParameter turns the parameter in the value of a query pair into a query parameter with
// the name of the pair.
func (p *pathParser) queryParameter(name, value string, required bool) {
	if p.has("query", name) {
		return
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}")
	for i := range p.Parameters {
		if declared := &p.Parameters[i]; value == "{"+declared.Name+"}" && (declared.In == "query" || declared.In == "path") {
			declared.Required = required || declared.In == "query" && declared.Required
			declared.Name, declared.In = name, "query"
			declared.Style, declared.Explode = "form", true
			return
		}
	}
	description := ""
	if strings.ContainsAny(inner, "{}") || inner == value {
		description = "Of the form " + value
	}
	p.Parameters = append(p.Parameters, textParameter(name, "query", p.File))
	added := &p.Parameters[len(p.Parameters)-1]
	added.Required, added.Description, added.Style, added.Explode = required, description, "form", true
}

// withoutDotSegments resolves "." and ".." segments, plain or percent-encoded, like HTTP
// clients (RFC 3986, section 5.2.4). ok is false if a segment leads above the root.
func withoutDotSegments(path string) (clean string, ok bool) {
	segments := strings.Split(path, "/")
	kept := segments[:0:0]
	for i, segment := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".":
			if last {
				kept = append(kept, "")
			}
		case "..":
			if len(kept) < 2 {
				return "", false
			}
			kept = kept[:len(kept)-1]
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return strings.Join(kept, "/"), true
}

// matchTemplate makes the path parameters match the names in the template.
func (p *pathParser) matchTemplate(names []string) {
	p.Parameters = slices.DeleteFunc(p.Parameters, func(declared Parameter) bool {
		unused := declared.In == "path" && !slices.Contains(names, declared.Name)
		if unused {
			p.warn("path parameter %q: left out, as the path does not have it", declared.Name)
		}
		return unused
	})
	for _, name := range names {
		if p.has("path", name) {
			continue
		}
		p.warn("path parameter %q: not declared, taken as required text", name)
		p.Parameters = append(p.Parameters, textParameter(name, "path", p.File))
	}
	for i := range p.Parameters {
		if declared := &p.Parameters[i]; declared.In == "path" {
			declared.Segments = p.spans[declared.Name]
		}
	}
}

// textParameter returns a required string parameter that the document does not declare.
func textParameter(name, in string, file *File) Parameter {
	return Parameter{
		Name:     name,
		In:       in,
		Required: true,
		Style:    defaultStyle(in),
		Schema:   Place{object([]Member{{"type", Text("string")}}), file},
	}
}

func (p *pathParser) has(in, name string) bool {
	return slices.ContainsFunc(p.Parameters, func(declared Parameter) bool {
		return declared.In == in && declared.Name == name
	})
}
