package overlay

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// A node is one value of a document. Each node occurs once in its tree.
type node struct {
	kind    byte           // the first byte of the JSON value, as in jsontext: '{', '[', '"', '0', 't', 'f' or 'n'
	raw     jsontext.Value // the JSON text of a text, number, boolean or null
	members []member       // the members of an object, with unique names
	items   []*node        // the items of an array
	decoded any            // the result of decode; nil for a primitive value, and if the value may have changed
}

// A member is one name and value of an object.
type member struct {
	name  string
	value *node
}

// primitive reports whether the value is neither an object nor an array.
func (n *node) primitive() bool { return n.kind != '{' && n.kind != '[' }

// decode returns the value as encoding/json decodes it. A number that is too large is infinite.
func (n *node) decode() any {
	switch {
	case n.decoded != nil:
		return n.decoded
	case n.kind == '{':
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			object[m.name] = m.value.decode()
		}
		n.decoded = object
	case n.kind == '[':
		array := make([]any, len(n.items))
		for i, item := range n.items {
			array[i] = item.decode()
		}
		n.decoded = array
	case n.kind == '"':
		text, _ := jsontext.AppendUnquote(nil, n.raw)
		return string(text)
	case n.kind == '0':
		number, _ := strconv.ParseFloat(string(n.raw), 64)
		return number
	case n.kind != 'n':
		return n.kind == 't'
	}
	return n.decoded
}

// toTree returns the value as a tree of its own. In a document in YAML, a value that aliases share
// is copied. openapi.Parse has limited the number of values.
func toTree(n *openapi.Node) *node {
	tree := &node{kind: byte(n.Kind()), raw: n.Raw(), members: make([]member, len(n.Members())), items: make([]*node, len(n.Items()))}
	for i, m := range n.Members() {
		tree.members[i] = member{m.Name, toTree(m.Value)}
	}
	for i, item := range n.Items() {
		tree.items[i] = toTree(item)
	}
	return tree
}

// clone returns a deep copy. The text of primitive values is shared.
func clone(n *node) *node {
	copied := &node{kind: n.kind, raw: n.raw, members: slices.Clone(n.members), items: slices.Clone(n.items)}
	for i, m := range copied.members {
		copied.members[i].value = clone(m.value)
	}
	for i, item := range copied.items {
		copied.items[i] = clone(item)
	}
	return copied
}

// size returns the number of values of a tree.
func size(n *node) int {
	total := 1
	for _, m := range n.members {
		total += size(m.value)
	}
	for _, item := range n.items {
		total += size(item)
	}
	return total
}

// appendJSON appends a tree as compact JSON.
func appendJSON(dst []byte, n *node) []byte {
	if n.primitive() {
		return append(dst, n.raw...)
	}
	dst = append(dst, n.kind)
	for _, m := range n.members {
		dst = append(strictjson.AppendString(dst, m.name), ':')
		dst = append(appendJSON(dst, m.value), ',')
	}
	for _, item := range n.items {
		dst = append(appendJSON(dst, item), ',')
	}
	return append(bytes.TrimSuffix(dst, []byte(",")), n.kind+2) // } or ]
}
