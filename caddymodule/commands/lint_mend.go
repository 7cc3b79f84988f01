package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/overlay"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A flaw is a keyword of the document that rejects a part of an example.
type flaw struct {
	schema  openapi.Place
	keyword string
	allow   *openapi.Node // the type, value or property that the keyword does not allow; nil for other keywords
	example string        // trial.name
}

// mend returns an overlay that lets refused examples be sent, and how many. It changes nothing for the sake of others.
func (l *documentLint) mend(root openapi.Place, refused []trial) (mending []byte, mended int) {
	for len(refused) > 0 {
		flaws := make([]flaw, 0, len(refused))
		for _, t := range refused {
			finder := flawFinder{example: t.name, left: maxFlawSteps}
			flaws = append(flaws, finder.find(t.value, t.schema, true)...)
		}
		mending = []byte("overlay: 1.0.0\ninfo: {title: Let examples of the document fit, version: \"1\"}\nactions:\n")
		for _, action := range actionsOf(root, flaws) {
			mending = fmt.Appendf(mending, "  - %s\n", escaped(action.AppendJSON(nil)))
		}
		remaining := l.refusedAfter(mending)
		helped := slices.DeleteFunc(slices.Clone(refused), func(t trial) bool { return remaining == nil || remaining[t.name] })
		if len(helped) == len(refused) {
			return mending, len(helped)
		}
		refused = helped
	}
	return nil, 0
}

// refusedAfter returns the names of the examples that are refused after the overlay, or nil if it cannot be applied.
func (l *documentLint) refusedAfter(mending []byte) map[string]bool {
	read, err := overlay.Read(mending, "lint")
	if err != nil {
		return nil
	}
	result, err := overlay.Apply(l.data, overlay.Options{MaxSize: l.options.MaxDocument}, read)
	if err != nil {
		return nil
	}
	_, trials, err := l.tryExamples(result.JSON())
	if err != nil {
		return nil
	}
	names := make(map[string]bool)
	for _, t := range refusedOf(trials) {
		names[t.name] = true
	}
	return names
}

// maxFlawSteps limits the schemas that are compared with one example: they may refer to themselves.
const maxFlawSteps = 10_000

// A flawFinder walks through an example and its schema.
type flawFinder struct {
	example string // trial.name
	left    int    // schemas that may still be compared
}

// find returns the keywords that reject the value or its parts.
func (w *flawFinder) find(value *openapi.Node, p openapi.Place, isRoot bool) (found []flaw) {
	if w.left--; w.left < 0 {
		return nil
	}
	if p.IsRef() {
		if target, _, err := p.Follow(); err == nil {
			found = w.find(value, target, isRoot)
		}
		if p.File.Version30 {
			return found
		}
	}
	if value.Kind() == 'n' && p.Get("nullable").True() {
		return found
	}
	found = append(found, w.own(value, p)...)
	parts := p.At("allOf")
	for _, part := range parts.Items() {
		found = append(found, w.find(value, parts.Item(part), isRoot)...)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		var fewest []flaw
		arms := p.At(name)
		for i, arm := range arms.Items() {
			if flaws := w.find(value, arms.Item(arm), isRoot); i == 0 || len(flaws) < len(fewest) {
				fewest = flaws
			}
		}
		found = append(found, fewest...)
	}
	properties, additional := p.At("properties"), p.At("additionalProperties")
	for _, m := range value.Members() {
		switch property := properties.At(m.Name); {
		case property.Node != nil:
			found = append(found, w.find(m.Value, property, false)...)
		case additional.Kind() == 'f', isRoot && additional.Node == nil && properties.Node != nil: // only arguments can be sent
			found = append(found, flaw{p, "additionalProperties", nil, w.example})
		default:
			found = append(found, w.find(m.Value, additional, false)...)
		}
	}
	for _, item := range value.Items() {
		found = append(found, w.find(item, p.At("items"), false)...)
	}
	return found
}

// own returns the keywords of one schema that reject the value, without those that have schemas.
func (w *flawFinder) own(value *openapi.Node, p openapi.Place) (found []flaw) {
	declared := []openapi.Member{{Name: "type", Value: p.Get("type")}}
	if declared[0].Value == nil {
		declared = nil
	} else if !accepts(p, value, declared...) {
		kind := map[openapi.Kind]string{'{': "object", '[': "array", '"': "string", '0': "number", 't': "boolean", 'f': "boolean", 'n': "null"}[value.Kind()]
		if accepts(p, value, openapi.Member{Name: "type", Value: openapi.Text("integer")}) {
			kind = "integer"
		}
		found, declared = []flaw{{p, "type", openapi.Text(kind), w.example}}, nil
		if kind == "null" && p.File.Version30 {
			found[0].keyword = "nullable"
		}
	}
	for _, m := range p.Members() {
		switch m.Name {
		case "enum", "const", "pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
			"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties":
			if !accepts(p, value, append(slices.Clone(declared), m)...) {
				found = append(found, flaw{p, m.Name, value, w.example})
			}
		case "required":
			for _, name := range m.Value.Items() {
				if property, _ := p.At("properties").At(name.Text()).Resolve(); value.Kind() == '{' && value.Get(name.Text()) == nil && !property.Get("readOnly").True() {
					found = append(found, flaw{p, m.Name, name, w.example})
				}
			}
		}
	}
	return found
}

// accepts reports whether a schema of these keywords, read as those of a document are, accepts the value.
func accepts(p openapi.Place, value *openapi.Node, keywords ...openapi.Member) bool {
	translated := schema.NewTranslator(schema.Inline, schema.Input).Translate(openapi.Place{Node: openapi.Object(keywords...), File: p.File})
	compiled, err := schema.Compile(translated.Text())
	if err != nil {
		return true
	}
	decoded, err := strictjson.Decode(value.AppendJSON(nil))
	return err != nil || compiled.Validate(decoded) == nil
}

// actionsOf returns the actions of an overlay that mends the flaws.
func actionsOf(root openapi.Place, flaws []flaw) (actions []*openapi.Node) {
	paths := make(map[*openapi.Node]string)
	for _, f := range flaws {
		paths[f.schema.Node] = ""
	}
	findPaths(paths, root.Node, "$")
	done := make(map[string]bool)
	types := make(map[*openapi.Node][]*openapi.Node) // what schemas should allow
	for _, f := range flaws {
		if known := paths[f.schema.Node] + f.allow.Text(); f.keyword == "type" && !done[known] {
			done[known], types[f.schema.Node] = true, append(types[f.schema.Node], f.allow)
		}
	}
	for _, f := range flaws {
		path, declared, allowed := paths[f.schema.Node], f.schema.Get("type"), types[f.schema.Node]
		target := path + step(f.keyword)
		action := func(target, name string, value *openapi.Node) {
			if known := string(value.AppendJSON([]byte(target + name))); path != "" && !done[known] {
				done[known] = true
				actions = append(actions, openapi.Object(openapi.Member{Name: "target", Value: openapi.Text(target)},
					openapi.Member{Name: "description", Value: openapi.Text(f.example)}, openapi.Member{Name: name, Value: value}))
			}
		}
		switch {
		case f.keyword == "enum", f.keyword == "type" && declared.Kind() == '[':
			action(target, "update", openapi.List(f.allow))
		case f.keyword == "type":
			action(target, "remove", openapi.Boolean(true))
			action(path, "update", openapi.Object(openapi.Member{Name: "type", Value: openapi.List(append([]*openapi.Node{declared}, allowed...)...)}))
		case f.keyword == "additionalProperties", f.keyword == "nullable":
			action(path, "update", openapi.Object(openapi.Member{Name: f.keyword, Value: openapi.Boolean(true)}))
		case f.keyword == "required":
			action(target+"[?@ == "+quoted(f.allow.Text())+"]", "remove", openapi.Boolean(true))
		default:
			action(target, "remove", openapi.Boolean(true))
		}
	}
	return actions
}

// findPaths sets the paths of the values below n (RFC 9535) that are in the map. Path is that of n.
func findPaths(paths map[*openapi.Node]string, n *openapi.Node, path string) {
	if known, wanted := paths[n]; wanted && known == "" {
		paths[n] = path
	}
	for _, m := range n.Members() {
		if m.Value.Raw() == nil { // not a scalar
			findPaths(paths, m.Value, path+step(m.Name))
		}
	}
	for i, item := range n.Items() {
		findPaths(paths, item, fmt.Sprintf("%s[%d]", path, i))
	}
}

// step returns the part of a path that selects a member.
func step(name string) string { return "[" + quoted(name) + "]" }

// quoted returns a text as JSONPath writes it.
func quoted(name string) string {
	escaped := string(strictjson.AppendString(nil, name))
	return "'" + strings.NewReplacer(`\"`, `"`, `\\`, `\\`, "'", `\'`).Replace(escaped[1:len(escaped)-1]) + "'"
}
