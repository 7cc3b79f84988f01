package openapi

import "slices"

// With returns a copy of an object that has the member: in the place of the one
// of that name, else at the end. The other values are shared. What is not an
// object becomes one.
func (n *Node) With(name string, value *Node) *Node {
	members := slices.Clone(n.Members())
	at := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return object(append(members, Member{name, value}))
	}
	members[at].Value = value
	return object(members)
}

// Without returns the object without the member of that name, the same Node if
// there is none.
func (n *Node) Without(name string) *Node {
	if n.Get(name) == nil {
		return n
	}
	return object(slices.DeleteFunc(slices.Clone(n.Members()), func(m Member) bool { return m.Name == name }))
}

// Map returns an object whose values are replaced by what replace makes of them,
// the same Node if that is nothing new or n is not an object.
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
	return text(s)
}

// Boolean returns a Node that is true or false.
func Boolean(b bool) *Node {
	if b {
		return &Node{raw: []byte("true")}
	}
	return &Node{raw: []byte("false")}
}

// List returns a Node that is an array of these items.
func List(items ...*Node) *Node {
	return array(items...)
}

// Object returns a Node that is an object of these members. Of members with the
// same name the last value wins.
func Object(members ...Member) *Node {
	return object(slices.Clone(members))
}
