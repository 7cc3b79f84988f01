package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// An UnmatchedError reports selectors that match no operation of the document.
type UnmatchedError struct {
	Option    string     // "include" or "exclude"
	Selectors []Selector // at least one
	near      []string   // for each selector that Error names, a suggestion or a hint
}

// maxNamedSelectors is the largest number of selectors that an UnmatchedError names.
const maxNamedSelectors = 8

// Error names the selectors and for each of them the nearest value of the document.
func (e *UnmatchedError) Error() string {
	var list strings.Builder
	for i, s := range e.Selectors[:min(len(e.Selectors), maxNamedSelectors)] {
		if i > 0 {
			list.WriteString("; ")
		}
		fmt.Fprintf(&list, "%s %s matches no operation of the document%s", e.Option, text.Cut(s.String(), validate.MaxProblem), e.near[i])
	}
	if more := len(e.Selectors) - maxNamedSelectors; more > 0 {
		fmt.Fprintf(&list, "; and %d more", more)
	}
	return list.String()
}

// unmatched returns an UnmatchedError for the selectors that match none of the operations,
// or nil if all match.
func (s selection) unmatched(option string, operations []candidate) *UnmatchedError {
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
func (s Selector) instead(operations []candidate) string {
	near := nearest.Name(s.Value, func(yield func(string) bool) {
		for _, c := range operations {
			for _, value := range s.values(c) {
				if value != "" && !yield(value) {
					return
				}
			}
		}
	})
	if near != "" {
		return didYouMean(near)
	}
	if s.By == "tag" || s.By == "method" {
		return s.known(operations)
	}
	return "; caddy tools lists its operations"
}

// values returns the values that would select the operation.
func (s Selector) values(c candidate) []string {
	switch s.By {
	case "tag":
		return c.Tags
	case "method":
		return []string{c.Method}
	case "operation":
		if strings.Contains(s.Value, " ") {
			return []string{c.Method + " " + c.Path}
		}
		return []string{c.name, c.ID}
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
func (s Selector) known(operations []candidate) string {
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
