package jsonpath

import (
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// tree returns the tree of a JSON text.
func tree(t testing.TB, text string) *Node {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(text))
	n, err := decode(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		t.Fatalf("more text after the value: %v", err)
	}
	return n
}

func decode(d *jsontext.Decoder) (*Node, error) {
	n := &Node{Kind: Kind(d.PeekKind())}
	if n.Primitive() {
		raw, err := d.ReadValue()
		n.Raw = raw.Clone()
		return n, err
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var name string
		if n.Kind == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name = token.String()
		}
		child, err := decode(d)
		if err != nil {
			return nil, err
		}
		if n.Kind == '{' {
			n.Members = append(n.Members, Member{name, child})
		} else {
			n.Items = append(n.Items, child)
		}
	}
	_, err := d.ReadToken()
	return n, err
}

// appendJSON appends the compact JSON text of a tree.
func appendJSON(dst []byte, n *Node) []byte {
	if n.Primitive() {
		return append(dst, n.Raw...)
	}
	dst = append(dst, byte(n.Kind))
	for i := range n.children() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.Kind == '{' {
			dst = append(append(dst, textNode(n.Members[i].Name).Raw...), ':')
		}
		dst = appendJSON(dst, n.child(i))
	}
	return append(dst, byte(n.Kind)+2)
}
