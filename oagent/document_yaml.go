package oagent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
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
		if !isNull(value) {
			seen[key.Value] = true
			fields[at].read(value, rule)
		}
	})
	if resolve(n).Kind != yaml.MappingNode {
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
	mapping := resolve(n)
	if mapping.Kind != yaml.MappingNode {
		r.fault(n, rule, "expected a mapping of keys to values, not %s", describeNode(mapping))
		return
	}
	if len(mapping.Content) > 2*most {
		r.fault(n, rule, "the limit is %d entries", most)
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			r.fault(key, rule, "a key must be a string, not %s; put it in quotes", describeNode(key))
			continue
		}
		path := join(rule, key.Value)
		if line, taken := lines[key.Value]; taken {
			r.fault(key, path, "duplicate key; line %d already has it", line)
			continue
		}
		lines[key.Value] = r.before + key.Line
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
	n = resolve(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(n, rule, "expected a string, not %s", describeNode(n))
	case n.ShortTag() != "!!str":
		r.fault(n, rule, "expected a string, not %s; put it in quotes", describeNode(n))
	case strings.TrimSpace(n.Value) == "":
		r.fault(n, rule, "the value is empty")
	case len(n.Value) > most:
		r.fault(n, rule, "the value has %d bytes; the limit is %d", len(n.Value), most)
	}
	return n.Value
}

// boolean reads true or false. It also accepts True and False, as Python writes them.
func (r *reader) boolean(n *yaml.Node, rule string) bool {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		switch n.Value {
		case "true", "True", "TRUE":
			return true
		case "false", "False", "FALSE":
			return false
		}
	}
	r.fault(n, rule, "expected true or false, not %s", describeNode(n))
	return false
}

// resolve returns the node that an alias refers to. Aliases cannot make a document grow
// without limit, because the schema limits the depth of reading.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// member returns the value of a key of a mapping, or nil if there is none.
func member(n *yaml.Node, name string) *yaml.Node {
	if n = resolve(n); n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == name {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

// describeNode returns the kind of a node for messages, with its text if that is short.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the string %.64q", n.Value)
	case "!!null":
		return "null"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return fmt.Sprintf("the number %.64s", n.Value)
	}
	return fmt.Sprintf("a value of type %.64s", n.ShortTag())
}
