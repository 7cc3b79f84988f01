package openapi

import (
	"fmt"
	"slices"
	"strings"
)

// templateNames returns the names that a path template has in braces, each
// once.
func templateNames(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("the path %q must begin with a slash", path)
	}
	if len(path) > maxPath || strings.Count(path, "{") > maxPathNames {
		return nil, fmt.Errorf("the path %.50q… has more than %d bytes or %d parameters", path, maxPath, maxPathNames)
	}
	if i := strings.IndexFunc(path, forbiddenInPath); i >= 0 {
		return nil, fmt.Errorf("the path %q must not contain %q", path, path[i:i+1])
	}
	if hasDotSegment(path) {
		return nil, fmt.Errorf("the path %q has a . or .. segment, which leads to another path", path)
	}
	var names []string
	for rest := path; ; {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			return names, nil
		}
		if rest[open] == '}' {
			return nil, errBraces(path)
		}
		end := strings.IndexAny(rest[open+1:], "{}/")
		if end < 0 || rest[open+1+end] != '}' {
			return nil, errBraces(path)
		}
		name := rest[open+1 : open+1+end]
		if name == "" {
			return nil, fmt.Errorf("the path %q has a parameter without a name", path)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		rest = rest[open+end+2:]
	}
}

// hasDotSegment reports whether a segment of the path is "." or "..", in plain or
// percent-encoded.
func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".", "..":
			return true
		}
	}
	return false
}

func errBraces(path string) error {
	return fmt.Errorf("the path %q has braces that do not match", path)
}

// forbiddenInPath reports characters that would end the path or break the
// request line.
func forbiddenInPath(c rune) bool {
	return c == '?' || c == '#' || c < ' ' || c == 0x7f
}

// matchTemplate makes the path parameters those that the template names.
func (r *reader) matchTemplate(names []string) {
	r.Parameters = slices.DeleteFunc(r.Parameters, func(p Parameter) bool {
		unused := p.In == "path" && !slices.Contains(names, p.Name)
		if unused {
			r.warn("path parameter %q: left out, as the path does not have it", p.Name)
		}
		return unused
	})
	for _, name := range names {
		if r.has("path", name) {
			continue
		}
		r.warn("path parameter %q: not declared, taken as required text", name)
		r.Parameters = append(r.Parameters, Parameter{
			Name:     name,
			In:       "path",
			Required: true,
			Style:    "simple",
			Schema:   Place{object([]Member{{"type", text("string")}}), r.File},
		})
	}
}

func (r *reader) has(in, name string) bool {
	return slices.ContainsFunc(r.Parameters, func(p Parameter) bool {
		return p.In == in && p.Name == name
	})
}
