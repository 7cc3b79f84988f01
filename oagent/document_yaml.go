package oagent

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/yamltree"
)

// mapping reads the fields of a mapping. A key whose value is null counts as absent.
func (r *reader) mapping(n *yaml.Node, rule string, fields []field) {
	seen := make(map[string]bool)
	r.each(n, rule, len(fields)+maxFaults, func(key, value *yaml.Node, rule string) {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if at < 0 {
			r.fault(key, rule, "unknown key%s; known keys: %s", suggest(key.Value, namesOf(fields)), strings.Join(namesOf(fields), ", "))
			return
		}
		if !yamltree.IsNull(value) {
			seen[key.Value] = true
			fields[at].read(value, rule)
		}
	})
	if yamltree.Resolve(n).Kind != yaml.MappingNode {
		return
	}
	for _, f := range fields {
		if f.required != "" && !seen[f.name] {
			r.fault(n, join(rule, f.name), "missing required key; expected %s", f.required)
		}
	}
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// each calls entry for each entry of a mapping. It checks that the keys are unique strings.
func (r *reader) each(n *yaml.Node, rule string, most int, entry func(key, value *yaml.Node, rule string)) {
	mapping := yamltree.Resolve(n)
	if mapping.Kind != yaml.MappingNode {
		r.fault(n, rule, "expected a mapping of keys to values, not %s", yamltree.Describe(mapping))
		return
	}
	if len(mapping.Content) > 2*most {
		r.fault(n, rule, "the limit is %d entries", most)
		return
	}
	keys := make(yamltree.Keys)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := rule
		if yamltree.IsString(key) {
			path = join(rule, key.Value)
		}
		if err := keys.Add(key); err != nil {
			r.fault(key, path, "%v", err)
			continue
		}
		entry(key, value, path)
	}
}

func join(rule, key string) string {
	const most = MaxName // bytes of a key in a path
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most], "") + "…"
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		key = strconv.Quote(key)
	}
	if rule == "" {
		return key
	}
	return rule + "." + key
}

func lastKey(rule string) string {
	return rule[strings.LastIndexByte(rule, '.')+1:]
}

// text reads a non-empty string.
func (r *reader) text(n *yaml.Node, rule string, most int) string {
	n = yamltree.Resolve(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(n, rule, "expected a string, not %s", yamltree.Describe(n))
	case n.ShortTag() != "!!str":
		r.fault(n, rule, "expected a string, not %s; put it in quotes", yamltree.Describe(n))
	case strings.TrimSpace(n.Value) == "":
		r.fault(n, rule, "the value is empty")
	case len(n.Value) > most:
		r.fault(n, rule, "the value has %d bytes; the limit is %d", len(n.Value), most)
	}
	return n.Value
}

// boolean reads true or false. It also accepts True and False, as Python writes them.
func (r *reader) boolean(n *yaml.Node, rule string) bool {
	value, ok := yamltree.Bool(n)
	if !ok {
		r.fault(n, rule, "expected true or false, not %s", yamltree.Describe(yamltree.Resolve(n)))
	}
	return value
}
