package openapi

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Kind is the first byte of a JSON value, as in jsontext: '{', '[', '"', '0',
// 't', 'f' or 'n'. The Kind of an absent Node is 0.
type Kind byte

// A Node is one value of a document. Object members keep their order, and scalars keep
// their bytes. A nil *Node is an absent value; every method accepts it. Nodes are
// immutable once they are returned, so they are safe for concurrent use. Two places of a
// YAML document may share a Node.
type Node struct {
	raw    jsontext.Value // the bytes of a scalar
	branch *branch        // set for an object or array, and for a number with a source
}

// A branch has the fields that only objects and arrays need, and some numbers, since most nodes are
// other scalars.
type branch struct {
	kind    Kind
	members []Member         // members of an object, with unique names
	items   []*Node          // items of an array
	index   map[string]*Node // for an object with more than indexFrom members
	source  string           // of a number that YAML writes in another way than JSON
}

// indexFrom is the maximum number of members of an object without an index.
const indexFrom = 16

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value *Node
}

// Kind returns the kind of the value, or 0 if it is absent.
func (n *Node) Kind() Kind {
	switch {
	case n == nil:
		return 0
	case n.branch != nil:
		return n.branch.kind
	case len(n.raw) == 0:
		return 0
	}
	return Kind(n.raw.Kind())
}

// Members returns the members of an object in document order, or nil for any other kind.
func (n *Node) Members() []Member {
	if n == nil || n.branch == nil {
		return nil
	}
	return n.branch.members
}

// Items returns the items of an array, or nil for any other kind.
func (n *Node) Items() []*Node {
	if n == nil || n.branch == nil {
		return nil
	}
	return n.branch.items
}

// Get returns the value of the named member, or nil.
func (n *Node) Get(name string) *Node {
	if n == nil || n.branch == nil {
		return nil
	}
	if n.branch.index != nil {
		return n.branch.index[name]
	}
	for _, m := range n.branch.members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Raw returns the JSON bytes of a scalar, or nil for any other kind. The caller must not
// change them.
func (n *Node) Raw() jsontext.Value {
	if n == nil {
		return nil
	}
	return n.raw
}

// Source returns a scalar as it is written in the document: the JSON, or a YAML number such as +41 or 007.
func (n *Node) Source() string {
	if n != nil && n.branch != nil && n.branch.source != "" {
		return n.branch.source
	}
	return string(n.Raw())
}

// Text returns the text of a string, or "" for any other kind.
func (n *Node) Text() string {
	if n.Kind() != '"' {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, n.raw)
	if err != nil {
		return ""
	}
	return string(text)
}

// True reports whether the value is the literal true.
func (n *Node) True() bool {
	return n.Kind() == 't'
}

// AppendJSON appends the value as compact JSON, or null if it is absent.
func (n *Node) AppendJSON(dst []byte) []byte {
	switch n.Kind() {
	case 0:
		return append(dst, "null"...)
	case '{':
		dst = append(dst, '{')
		for _, m := range n.Members() {
			dst = strictjson.AppendString(strictjson.Comma(dst), m.Name)
			dst = append(dst, ':')
			dst = m.Value.AppendJSON(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for _, item := range n.Items() {
			dst = item.AppendJSON(strictjson.Comma(dst))
		}
		return append(dst, ']')
	}
	return append(dst, n.raw...)
}

// object returns an object of the members. If a name is repeated, the last value wins and
// takes the position of the first.
func object(members []Member) *Node {
	b := &branch{kind: '{', members: members}
	b.settle()
	return &Node{branch: b}
}

// settle removes repeated names from an object and builds its index.
func (b *branch) settle() {
	if len(b.members) <= indexFrom {
		b.members = uniqueFew(b.members)
		return
	}
	b.index = make(map[string]*Node, len(b.members))
	for _, m := range b.members {
		b.index[m.Name] = m.Value
	}
	if len(b.index) == len(b.members) {
		return
	}
	seen := make(map[string]bool, len(b.index))
	kept := b.members[:0]
	for _, m := range b.members {
		if !seen[m.Name] {
			seen[m.Name] = true
			kept = append(kept, Member{m.Name, b.index[m.Name]})
		}
	}
	b.members = kept
}

func uniqueFew(members []Member) []Member {
	kept := members[:0]
next:
	for _, m := range members {
		for i := range kept {
			if kept[i].Name == m.Name {
				kept[i].Value = m.Value
				continue next
			}
		}
		kept = append(kept, m)
	}
	return kept
}

// set sets a member of an object, replacing one of the same name. The tree must not be
// shared yet.
func (b *branch) set(name string, value *Node) {
	if b.index != nil {
		b.index[name] = value
	}
	for i := range b.members {
		if b.members[i].Name == name {
			b.members[i].Value = value
			return
		}
	}
	b.members = append(b.members, Member{name, value})
}
