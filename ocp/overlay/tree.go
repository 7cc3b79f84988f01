package overlay

import (
	"fmt"

	"github.com/fairwayhq/fairway/internal/jsonpath"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// toTree returns the value as a tree of its own. In a document in YAML, a value that aliases share
// is copied. Values is the number of values that the tree may still have.
func toTree(n *openapi.Node, values *int) (*jsonpath.Node, error) {
	if *values--; *values < 0 {
		return nil, fmt.Errorf("more than %d values", int(openapi.DefaultMaxNodes))
	}
	tree := &jsonpath.Node{Kind: jsonpath.Kind(n.Kind())}
	switch tree.Kind {
	case '{':
		members := n.Members()
		tree.Members = make([]jsonpath.Member, len(members))
		for i, m := range members {
			value, err := toTree(m.Value, values)
			if err != nil {
				return nil, err
			}
			tree.Members[i] = jsonpath.Member{Name: m.Name, Value: value}
		}
	case '[':
		items := n.Items()
		tree.Items = make([]*jsonpath.Node, len(items))
		for i, item := range items {
			value, err := toTree(item, values)
			if err != nil {
				return nil, err
			}
			tree.Items[i] = value
		}
	default:
		tree.Raw = n.Raw()
	}
	return tree, nil
}

// clone returns a deep copy. The text of primitive values is shared.
func clone(n *jsonpath.Node) *jsonpath.Node {
	copied := &jsonpath.Node{Kind: n.Kind, Raw: n.Raw}
	if n.Members != nil {
		copied.Members = make([]jsonpath.Member, len(n.Members))
		for i, m := range n.Members {
			copied.Members[i] = jsonpath.Member{Name: m.Name, Value: clone(m.Value)}
		}
	}
	if n.Items != nil {
		copied.Items = make([]*jsonpath.Node, len(n.Items))
		for i, item := range n.Items {
			copied.Items[i] = clone(item)
		}
	}
	return copied
}

// size returns the number of values of a tree.
func size(n *jsonpath.Node) int {
	total := 1
	for _, m := range n.Members {
		total += size(m.Value)
	}
	for _, item := range n.Items {
		total += size(item)
	}
	return total
}

// appendJSON appends a tree as compact JSON.
func appendJSON(dst []byte, n *jsonpath.Node) []byte {
	switch n.Kind {
	case '{':
		dst = append(dst, '{')
		for i, m := range n.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(wire.AppendString(dst, m.Name), ':')
			dst = appendJSON(dst, m.Value)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, item)
		}
		return append(dst, ']')
	}
	return append(dst, n.Raw...)
}
