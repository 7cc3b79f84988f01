package console

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of a skeleton.
const (
	maxSkeleton      = 2 << 10 // bytes, above which it has no further members
	maxSkeletonDepth = 5
)

// skeleton returns JSON in the form of an argument, for people who fill in the values: with its required properties, or all if none is
// required. Values are examples, defaults or the first of an enum, or else empty. It returns "" if there is no schema.
func skeleton(a *argument) string {
	if a.schema == nil {
		return ""
	}
	s := skeletonWriter{root: a.root}
	s.add(a.schema, 0)
	text := jsontext.Value(s.text)
	if text.Indent(jsontext.WithIndent("  ")) != nil {
		return ""
	}
	return string(text)
}

type skeletonWriter struct {
	root *schema.Root
	text []byte
}

// add appends a value of a schema.
func (s *skeletonWriter) add(t *schema.Tree, depth int) {
	t = s.root.Resolve(t)
	for _, keyword := range []string{"const", "default", "example"} {
		if value := t.Value(keyword); value != nil {
			s.text = append(s.text, value...)
			return
		}
	}
	for _, keyword := range []string{"examples", "enum"} {
		if first := strictjson.Into(t.Value(keyword)); first.Next() {
			s.text = append(s.text, first.Value...)
			return
		}
	}
	types := t.Types()
	properties := s.properties(nil, t, 0)
	switch {
	case len(properties) > 0:
		s.addObject(properties, depth)
	case len(t.Parts("anyOf"))+len(t.Parts("oneOf")) > 0 && depth < maxSkeletonDepth:
		s.add(append(slices.Clone(t.Parts("anyOf")), t.Parts("oneOf")...)[0].Tree, depth+1)
	case t.Part("items") != nil && depth < maxSkeletonDepth && len(s.text) < maxSkeleton:
		s.text = append(s.text, '[')
		s.add(t.Part("items"), depth+1)
		s.text = append(s.text, ']')
	case slices.Contains(types, "array"):
		s.text = append(s.text, "[]"...)
	case slices.Contains(types, "string"):
		s.text = append(s.text, `""`...)
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		s.text = append(s.text, '0')
	case slices.Contains(types, "boolean"):
		s.text = append(s.text, "false"...)
	default:
		s.text = append(s.text, "{}"...)
	}
}

// property is a property of an object.
type property struct {
	schema.Part
	required bool
}

// properties appends the properties of a schema and of its parts in allOf.
func (s *skeletonWriter) properties(all []property, t *schema.Tree, depth int) []property {
	var required []string
	for walk := strictjson.Into(t.Value("required")); walk.Next(); {
		required = append(required, strictjson.Text(walk.Value))
	}
	for _, part := range t.Parts("properties") {
		all = append(all, property{part, slices.Contains(required, part.Name)})
	}
	for _, part := range t.Parts("allOf") {
		if depth < maxSkeletonDepth {
			all = s.properties(all, s.root.Resolve(part.Tree), depth+1)
		}
	}
	return all
}

// addObject appends an object.
func (s *skeletonWriter) addObject(properties []property, depth int) {
	onlyRequired := slices.ContainsFunc(properties, func(p property) bool { return p.required })
	s.text = append(s.text, '{')
	var seen []string
	for _, p := range properties {
		if onlyRequired && !p.required || depth >= maxSkeletonDepth || len(s.text) >= maxSkeleton || slices.Contains(seen, p.Name) {
			continue
		}
		seen = append(seen, p.Name)
		s.text = append(strictjson.AppendString(strictjson.Comma(s.text), p.Name), ':')
		s.add(p.Tree, depth+1)
	}
	s.text = append(s.text, '}')
}
