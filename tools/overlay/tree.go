package overlay

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/overlay/internal/jsonpath"
)

// toTree returns the value as a tree of its own. In a document in YAML, a value that aliases share
// is copied. openapi.Parse has limited the number of values.
func toTree(n *openapi.Node) *jsonpath.Node {
	tree := &jsonpath.Node{Kind: jsonpath.Kind(n.Kind()), Raw: n.Raw()}
	tree.Members = slices.Grow(tree.Members, len(n.Members()))
	for _, m := range n.Members() {
		tree.Members = append(tree.Members, jsonpath.Member{Name: m.Name, Value: toTree(m.Value)})
	}
	tree.Items = slices.Grow(tree.Items, len(n.Items()))
	for _, item := range n.Items() {
		tree.Items = append(tree.Items, toTree(item))
	}
	return tree
}

// clone returns a deep copy. The text of primitive values is shared.
func clone(n *jsonpath.Node) *jsonpath.Node {
	copied := &jsonpath.Node{Kind: n.Kind, Raw: n.Raw}
	copied.Members = slices.Grow(copied.Members, len(n.Members))
	for _, m := range n.Members {
		copied.Members = append(copied.Members, jsonpath.Member{Name: m.Name, Value: clone(m.Value)})
	}
	copied.Items = slices.Grow(copied.Items, len(n.Items))
	for _, item := range n.Items {
		copied.Items = append(copied.Items, clone(item))
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
			dst = append(strictjson.AppendString(dst, m.Name), ':')
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
