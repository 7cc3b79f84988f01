package ocp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/ocp/openapi"
)

// A Selector chooses operations of a document.
type Selector struct {
	// By is what Value is compared with: "tag", "operation", "path" or "method".
	By string `json:"by"`

	// Value is a tag, an operationId, a path or a method. In a path, * stands
	// for anything within one segment and ** for anything at all. Methods are
	// compared without regard to case.
	Value string `json:"value"`
}

// String returns the selector as it stands in a Caddyfile: "tag bookings".
func (s Selector) String() string {
	return s.By + " " + s.Value
}

// selection is a compiled set of selectors.
type selection []func(*openapi.Operation) bool

func compileSelectors(selectors []Selector) (selection, error) {
	compiled := make(selection, 0, len(selectors))
	for _, s := range selectors {
		matches, err := s.compile()
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, matches)
	}
	return compiled, nil
}

// SelectTools returns what tells the tools that one of the selectors chooses.
func SelectTools(selectors []Selector) (func(*Tool) bool, error) {
	chosen, err := compileSelectors(selectors)
	if err != nil {
		return nil, err
	}
	return func(t *Tool) bool {
		return chosen.matches(&openapi.Operation{ID: t.OperationID, Method: t.Method, Path: t.Path, Tags: t.Tags})
	}, nil
}

func (s Selector) compile() (func(*openapi.Operation) bool, error) {
	if s.Value == "" {
		return nil, fmt.Errorf("selector %q needs a value", s.By)
	}
	switch s.By {
	case "tag":
		return func(o *openapi.Operation) bool { return slices.Contains(o.Tags, s.Value) }, nil
	case "operation":
		return func(o *openapi.Operation) bool { return o.ID == s.Value }, nil
	case "method":
		return func(o *openapi.Operation) bool { return strings.EqualFold(o.Method, s.Value) }, nil
	case "path":
		glob := compileGlob(s.Value)
		return func(o *openapi.Operation) bool { return glob.MatchString(o.Path) }, nil
	}
	return nil, fmt.Errorf("unknown selector %q: operations are selected by tag, operation, path or method", s.By)
}

// compileGlob compiles a path glob. Every glob is valid.
func compileGlob(glob string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `\*\*`, `.*`)
	pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
	return regexp.MustCompile(`^(?s:` + pattern + `)$`)
}

// matches reports whether one of the selectors chooses the operation.
func (s selection) matches(o *openapi.Operation) bool {
	for _, matches := range s {
		if matches(o) {
			return true
		}
	}
	return false
}
