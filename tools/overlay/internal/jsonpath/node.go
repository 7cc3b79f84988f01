package jsonpath

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A Node is one value of a JSON tree. Each Node occurs once in its tree.
type Node struct {
	Kind    Kind
	Raw     jsontext.Value // the JSON text of a string, number, boolean or null
	Members []Member       // the members of an object, with unique names
	Items   []*Node        // the items of an array
}

// Kind is the first byte of a JSON value, as in jsontext: '{', '[', '"', '0', 't', 'f' or 'n'.
type Kind byte

// A Member is one name and value of an object.
type Member struct {
	Name  string
	Value *Node
}

// Primitive reports whether the value is neither an object nor an array.
func (n *Node) Primitive() bool {
	return n.Kind != '{' && n.Kind != '['
}

// Get returns the value of the named member, or nil.
func (n *Node) Get(name string) *Node {
	for i := range n.Members {
		if n.Members[i].Name == name {
			return n.Members[i].Value
		}
	}
	return nil
}

// Text returns the text of a string, or "" for any other kind.
func (n *Node) Text() string {
	if n.Kind != '"' {
		return ""
	}
	if inner := n.Raw[1 : len(n.Raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	text, err := jsontext.AppendUnquote(nil, n.Raw)
	if err != nil {
		return ""
	}
	return string(text)
}

// number returns the value of a number.
func (n *Node) number() float64 {
	value, _ := strconv.ParseFloat(string(n.Raw), 64) // ±Inf if it is out of range
	return value
}

// children returns the number of members or items.
func (n *Node) children() int {
	return len(n.Members) + len(n.Items)
}

// child returns the member's value or the item at position i.
func (n *Node) child(i int) *Node {
	if n.Kind == '{' {
		return n.Members[i].Value
	}
	return n.Items[i]
}
