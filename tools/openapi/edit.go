package openapi

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// With returns a copy of an object with the member set. The member replaces one of the
// same name, or is added at the end. Other values are shared with the original. If n is
// not an object, the result is a new object.
func (n *Node) With(name string, value *Node) *Node {
	members := slices.Clone(n.Members())
	at := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return object(append(members, Member{name, value}))
	}
	members[at].Value = value
	return object(members)
}

// Without returns the object without the named member. If there is no such member, it
// returns the same Node.
func (n *Node) Without(name string) *Node {
	if n.Get(name) == nil {
		return n
	}
	return object(slices.DeleteFunc(slices.Clone(n.Members()), func(m Member) bool { return m.Name == name }))
}

// Map returns a copy of an object in which each value is replaced by the result of
// replace. It returns the same Node if no value changes or if n is not an object.
func (n *Node) Map(replace func(name string, value *Node) *Node) *Node {
	var members []Member
	for i, m := range n.Members() {
		value := replace(m.Name, m.Value)
		if value == m.Value {
			continue
		}
		if members == nil {
			members = slices.Clone(n.Members())
		}
		members[i].Value = value
	}
	if members == nil {
		return n
	}
	return object(members)
}

// Text returns a Node that is a string.
func Text(s string) *Node {
	return &Node{raw: strictjson.AppendString(nil, s)}
}

// Boolean returns a Node that is true or false.
func Boolean(b bool) *Node {
	return &Node{raw: strictjson.Boolean(b)}
}

// List returns a Node that is an array of the items.
func List(items ...*Node) *Node {
	return &Node{branch: &branch{kind: '[', items: items}}
}

// Object returns a Node that is an object of the members. If a name is repeated, the
// last value wins.
func Object(members ...Member) *Node {
	return object(slices.Clone(members))
}
