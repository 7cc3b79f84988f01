package build

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A Selector chooses operations of a document.
type Selector struct {
	// What Value is compared with: "tag", "operation", "path" or "method".
	// Required.
	By string `json:"by"`

	// A tag, an operation, a path or a method.
	//
	//   - An operation is a tool name as `caddy tools` lists it without filters, an
	//     operationId, or a method and path, as in "DELETE /trips/{id}".
	//   - In a path, * matches anything within one segment and ** matches anything. The
	//     query and fragment of a path in the document may be omitted.
	//   - Methods are compared case-insensitively.
	//
	// Required.
	Value string `json:"value"`
}

// String returns the selector in Caddyfile syntax: "tag bookings".
func (s Selector) String() string {
	return s.By + " " + s.Value
}

// selectorKinds are the values of Selector.By.
var selectorKinds = []string{"tag", "operation", "path", "method"}

// selectorMethods are the methods that operations in OpenAPI documents can have.
var selectorMethods = []string{"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "QUERY"}

// Check returns an error if the selector is invalid for every document.
func (s Selector) Check() error {
	if !slices.Contains(selectorKinds, s.By) {
		return fmt.Errorf("unknown selector %q%s: operations are selected by tag, operation, path or method",
			s.By, text.DidYouMean(text.Nearest(s.By, slices.Values(selectorKinds))))
	}
	if s.Value == "" {
		return fmt.Errorf("selector %q needs a value", s.By)
	}
	if s.By == "method" && !slices.Contains(selectorMethods, strings.ToUpper(s.Value)) {
		return fmt.Errorf("unknown method %q%s", s.Value, text.DidYouMean(text.Nearest(s.Value, slices.Values(selectorMethods))))
	}
	return nil
}

// A Candidate is an operation that selectors are compared with.
type Candidate struct {
	*openapi.Operation
	Tool   string // the name of its tool; "" if it cannot become a tool
	Former string // the name of its tool in earlier versions, if that was another one
}

// A compiledSelector is a Selector that is prepared for comparisons.
type compiledSelector struct {
	Selector
	matches func(Candidate) bool
}

// A Selection is a compiled set of selectors.
type Selection []compiledSelector

// CompileSelectors checks and prepares the selectors.
func CompileSelectors(selectors []Selector) (Selection, error) {
	compiled := make(Selection, 0, len(selectors))
	for _, s := range selectors {
		if err := s.Check(); err != nil {
			return nil, err
		}
		compiled = append(compiled, compiledSelector{s, s.compile()})
	}
	return compiled, nil
}

// compile returns a function that compares operations with a valid selector.
func (s Selector) compile() func(Candidate) bool {
	switch s.By {
	case "tag":
		return func(c Candidate) bool { return slices.Contains(c.Tags, s.Value) }
	case "method":
		return func(c Candidate) bool { return strings.EqualFold(c.Method, s.Value) }
	case "path":
		glob := compileGlob(s.Value)
		return func(c Candidate) bool { return glob.MatchString(c.Path) || glob.MatchString(c.Template) }
	}
	method, path, _ := strings.Cut(s.Value, " ")
	return func(c Candidate) bool {
		return c.ID == s.Value || c.Tool == s.Value || c.Path == path && strings.EqualFold(c.Method, method)
	}
}

// compileGlob compiles a path glob. Every glob is valid.
func compileGlob(glob string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `\*\*`, `.*`)
	pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
	return regexp.MustCompile(`^(?s:` + pattern + `)$`)
}

// Matches reports whether one of the selectors chooses the operation.
func (s Selection) Matches(c Candidate) bool {
	return slices.ContainsFunc(s, func(one compiledSelector) bool { return one.matches(c) })
}

// Without returns the selection without the selectors of a kind.
func (s Selection) Without(kind string) Selection {
	return slices.DeleteFunc(slices.Clone(s), func(one compiledSelector) bool { return one.By == kind })
}

// An UnmatchedError reports selectors that match no operation of the document.
type UnmatchedError struct {
	Option    string     // "include", "exclude" or "tool"
	Selectors []Selector // at least one
	near      []string   // for each selector that Error names, a suggestion or a hint
}

// maxNamedSelectors is the largest number of selectors that an UnmatchedError names.
const maxNamedSelectors = 8

// ShapeOption is the UnmatchedError.Option for shapes.
const ShapeOption = "tool"

// Error names the selectors and for each of them the nearest value of the document.
func (e *UnmatchedError) Error() string {
	var list strings.Builder
	for i, s := range e.Selectors[:min(len(e.Selectors), maxNamedSelectors)] {
		if i > 0 {
			list.WriteString("; ")
		}
		name := s.String()
		if e.Option == ShapeOption {
			name = s.Value
		}
		fmt.Fprintf(&list, "%s %s matches no operation of the document%s", e.Option, text.Cut(name, schema.MaxProblem), e.near[i])
	}
	if more := len(e.Selectors) - maxNamedSelectors; more > 0 {
		fmt.Fprintf(&list, "; and %d more", more)
	}
	return list.String()
}

// Unmatched returns an UnmatchedError for the selectors that match none of the operations,
// or nil if all match.
func (s Selection) Unmatched(option string, operations []Candidate) *UnmatchedError {
	e := &UnmatchedError{Option: option}
	for _, one := range s {
		if slices.ContainsFunc(operations, one.matches) {
			continue
		}
		e.Selectors = append(e.Selectors, one.Selector)
		if len(e.near) < maxNamedSelectors {
			e.near = append(e.near, one.instead(operations)) // compares the value with each of the document
		}
	}
	if e.Selectors == nil {
		return nil
	}
	return e
}

// instead suggests the value of the document that is nearest to the selector's. If none is
// near, it lists the values of the document.
func (s Selector) instead(operations []Candidate) string {
	if i := slices.IndexFunc(operations, func(c Candidate) bool { return s.By == "operation" && s.Value == c.Former }); i >= 0 {
		return text.NowNamed(operations[i].Tool)
	}
	near := text.Nearest(s.Value, func(yield func(string) bool) {
		for _, c := range operations {
			for _, value := range s.values(c) {
				if value != "" && !yield(value) {
					return
				}
			}
		}
	})
	if near != "" {
		return text.DidYouMean(near)
	}
	if s.By == "tag" || s.By == "method" {
		return s.known(operations)
	}
	return "; caddy tools lists its operations"
}

// values returns the values that would select the operation.
func (s Selector) values(c Candidate) []string {
	switch s.By {
	case "tag":
		return c.Tags
	case "method":
		return []string{c.Method}
	case "operation":
		if strings.Contains(s.Value, " ") {
			return []string{c.Method + " " + c.Path}
		}
		return []string{c.Tool, c.ID}
	}
	switch {
	case strings.Contains(s.Value, "**"):
		return globsBelow(c.Path)
	case strings.Contains(s.Value, "*") && !strings.Contains(c.Path, "{"):
		return nil
	case strings.Contains(s.Value, "*"):
		return []string{pathParameter.ReplaceAllString(c.Path, "*")}
	}
	return []string{c.Path}
}

var pathParameter = regexp.MustCompile(`\{[^{}/]*\}`)

// globsBelow returns the globs for everything below each segment of a path.
func globsBelow(path string) (globs []string) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			globs = append(globs, path[:i]+"/**")
		}
	}
	return globs
}

// known lists the tags or methods of the document, up to the limit for an error.
func (s Selector) known(operations []Candidate) string {
	var known []string
	for _, c := range operations {
		for _, value := range s.values(c) {
			if !slices.Contains(known, value) {
				known = append(known, value)
			}
			if len(known) > maxNamedSelectors {
				return "; caddy tools lists its operations"
			}
		}
	}
	if len(known) == 0 {
		return ", which has no " + s.By + "s"
	}
	return ", whose " + s.By + "s are " + strings.Join(known, ", ")
}
