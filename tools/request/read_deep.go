package request

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A deepNode is one level of a deepObject: a text, or child nodes by name in the order
// of their first appearance.
type deepNode struct {
	text  string
	leaf  bool
	names []string
	below map[string]*deepNode
	count int // number of items written as "[]"
}

// deep reads pairs of the form name[a][b]=text. Array items have the indices 0, 1,
// …, or all of them have []. A pair without brackets is a value that is not an object.
func (r *pairReader) deep(dst []byte) ([]byte, error) {
	if r.types == 0 || r.types&single != 0 {
		switch pair, err := r.takeOne(); {
		case err != nil:
			return dst, err
		case pair != nil:
			return r.appendSingle(dst, pair.Value)
		}
	}
	var root deepNode
	for i := range r.pairs {
		p := &r.pairs[i]
		brackets, ok := strings.CutPrefix(p.Name, r.param.name+"[")
		if p.Taken || !ok {
			continue
		}
		p.Taken = true
		path, ok := strings.CutSuffix(brackets, "]")
		if !ok {
			return dst, r.param.misread(Malformed, "has brackets that do not match in "+quote(p.Name))
		}
		if err := r.addDeep(&root, strings.Split(path, "]["), p.Value); err != nil {
			return dst, err
		}
	}
	if root.below == nil {
		return dst, nil
	}
	out, err := r.appendNode(dst, &root, r.shape)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (r *reading) addDeep(n *deepNode, path []string, text string) error {
	if len(path) > MaxDepth {
		return r.param.misread(Malformed, "nests deeper than "+strconv.Itoa(MaxDepth)+" levels")
	}
	for i, name := range path {
		if strings.ContainsAny(name, "[]") {
			return r.param.misread(Malformed, "has brackets that do not match")
		}
		if name == "" {
			if i < len(path)-1 {
				return r.param.misread(Ambiguous, "has [] before other brackets, which servers read in different ways: number the items, [0], [1], …")
			}
			name = strconv.Itoa(n.count)
			n.count++
		}
		if n.leaf {
			return r.param.misread(Duplicate, "gives "+quote(name)+" both a value and properties")
		}
		next := n.below[name]
		if next == nil {
			if n.below == nil {
				n.below = make(map[string]*deepNode)
			}
			next = new(deepNode)
			n.below[name] = next
			n.names = append(n.names, name)
		}
		n = next
	}
	if n.leaf || n.below != nil {
		return r.param.misread(Duplicate, "is given more than once as "+quote("["+strings.Join(path, "][")+"]"))
	}
	n.text, n.leaf = text, true
	return nil
}

func (r *reading) appendNode(dst []byte, n *deepNode, shape Shape) ([]byte, error) {
	types := typesOf(shape)
	switch {
	case n.leaf:
		if types != 0 && types&^(nested|Null) == 0 {
			return dst, r.param.misread(Unfit, "has a value "+quote(n.text)+" where the document has an array or object")
		}
		return r.param.appendText(dst, n.text, types&^nested)
	case n.isList(types):
		return r.appendList(dst, n, shape)
	case types != 0 && types&Object == 0:
		return dst, r.param.misread(Unfit, "has properties where the document has none, in "+quote(strings.Join(n.names, ", ")))
	}
	dst = append(dst, '{')
	for _, name := range n.names {
		dst = strictjson.Comma(dst)
		var property Shape
		if shape != nil {
			property, _ = shape.Property(name)
		}
		dst = append(strictjson.AppendString(dst, name), ':')
		var err error
		if dst, err = r.appendNode(dst, n.below[name], property); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// isList reports whether a node is an array. Its types decide; if they allow both array
// and object, its names do.
func (n *deepNode) isList(types Types) bool {
	switch {
	case types&nested == Array:
		return true
	case types != 0 && types&Array == 0:
		return false
	}
	return n.count > 0 || n.below["0"] != nil && n.below[strconv.Itoa(len(n.names)-1)] != nil
}

func (r *reading) appendList(dst []byte, n *deepNode, shape Shape) ([]byte, error) {
	dst = append(dst, '[')
	for i := range n.names {
		item := n.below[strconv.Itoa(i)]
		if item == nil {
			return dst, r.param.misread(Ambiguous, fmt.Sprintf("is an array of %d items without the index %d: number them 0, 1, …", len(n.names), i))
		}
		dst = strictjson.Comma(dst)
		var err error
		if dst, err = r.appendNode(dst, item, itemOf(shape)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}
