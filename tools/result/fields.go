package result

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of a list of fields.
const (
	// maxFields is the maximum length of a list of fields, in bytes.
	maxFields = 4 << 10

	// maxFieldNotes is how many unknown fields a note names.
	maxFieldNotes = 5

	// maxNamesShown is how many existing names a note lists for each unknown field.
	maxNamesShown = 40
)

// Fields are the members of a response that a model selects. They are for one response only.
type Fields struct {
	root fieldNode
}

// A fieldNode is one name of a list of fields.
type fieldNode struct {
	members map[string]*fieldNode // nil if the whole value is selected
	order   []string              // the names of members
	met     bool                  // the response has the member
	objects bool                  // the value is an object somewhere in the response
	scalars bool                  // the value is a scalar other than null somewhere
}

// ParseFields parses a list of names that are separated by commas, such as "items.title,total". A dot
// leads into an object. Arrays have no name of their own: "items.title" is the title of each item. A
// name that contains a dot or a comma itself cannot be given; the object that it is in can.
func ParseFields(list string) (*Fields, error) {
	if len(list) > maxFields {
		return nil, fmt.Errorf("the list has %d bytes; the limit is %d", len(list), maxFields)
	}
	f := new(Fields)
	for field := range strings.SplitSeq(list, ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		names := strings.Split(field, ".")
		if len(names) > strictjson.MaxDepth {
			return nil, fmt.Errorf("%q has more than %d names", text.Cut(field, text.MaxQuoted), strictjson.MaxDepth)
		}
		if slices.Contains(names, "") {
			return nil, fmt.Errorf(`%q has an empty name; write a field as "items.title"`, text.Cut(field, text.MaxQuoted))
		}
		f.root.add(names)
	}
	if f.root.members == nil {
		return nil, errors.New(`the list is empty; write names such as "items.title,total"`)
	}
	return f, nil
}

// add adds a field below the node.
func (n *fieldNode) add(names []string) {
	for i, name := range names {
		if n.members == nil {
			n.members = make(map[string]*fieldNode)
		}
		next, known := n.members[name]
		if !known {
			next = new(fieldNode)
			n.members[name] = next
			n.order = append(n.order, name)
		} else if next.members == nil {
			return // the whole value is already selected
		}
		n = next
		if i == len(names)-1 {
			n.members, n.order = nil, nil
		}
	}
}

// Append appends the chosen members of a JSON body to dst. Members keep their order, and values are
// copied unchanged. The note lists the fields that the response does not have, and the existing names; it
// is "" if the response has all fields. Append returns ErrNotJSON if the body is not JSON.
func (f *Fields) Append(dst, body []byte) (result []byte, note string, err error) {
	if !strictjson.Valid(body) {
		return dst, "", ErrNotJSON
	}
	d := decoder{data: body, text: string(body)}
	dst = d.filter(dst, &f.root)
	var notes []string
	f.root.unknown("", func(path string, parent *fieldNode, where []string) {
		if len(notes) < maxFieldNotes {
			names := decoder{data: body, text: d.text}
			notes = append(notes, unknownField(path, parent, where, names.namesAt(where)))
		}
	}, nil)
	return dst, strings.Join(notes, "; "), nil
}

// filter appends the part of the next value that the node selects.
func (d *decoder) filter(dst []byte, n *fieldNode) []byte {
	kind := d.next()
	switch {
	case n.members == nil:
		start := d.at
		d.skip()
		return append(dst, d.data[start:d.at]...)
	case kind == '[':
		dst = append(dst, '[')
		d.at++
		for d.more() {
			dst = d.filter(strictjson.Comma(dst), n)
		}
		return append(dst, ']')
	case kind != '{':
		n.scalars = n.scalars || kind != 'n'
		start := d.at
		d.skip()
		return append(dst, d.data[start:d.at]...)
	}
	n.objects = true
	dst = append(dst, '{')
	d.members(func(name string, quoted []byte) {
		member := n.members[name]
		if member == nil {
			d.skip()
			return
		}
		member.met = true
		dst = append(append(strictjson.Comma(dst), quoted...), ':')
		dst = d.filter(dst, member)
	})
	return append(dst, '}')
}

// members calls member for each member of the next object. member must read or skip the value.
func (d *decoder) members(member func(name string, quoted []byte)) {
	d.at++
	for d.more() {
		d.next()
		start := d.at
		name := d.string()
		quoted := d.data[start:d.at]
		d.next()
		d.at++ // the colon
		member(name, quoted)
	}
}

// unknown calls report for each field that the response does not have. It skips fields of an empty list,
// because the members of its items are unknown.
func (n *fieldNode) unknown(path string, report func(path string, parent *fieldNode, where []string), where []string) {
	for _, name := range n.order {
		member := n.members[name]
		full := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case member.met:
			member.unknown(full, report, append(slices.Clip(where), name))
		case n.objects || n.scalars:
			report(full, n, where)
		}
	}
}

// namesAt returns the names of the members of the objects that where leads to, in the order of the
// response and at most maxNamesShown+1.
func (d *decoder) namesAt(where []string) []string {
	var names []string
	var visit func(rest []string)
	visit = func(rest []string) {
		switch d.next() {
		case '[':
			d.at++
			for d.more() {
				visit(rest)
			}
		case '{':
			d.members(func(name string, _ []byte) {
				switch {
				case len(rest) > 0 && name == rest[0]:
					visit(rest[1:])
					return
				case len(rest) == 0 && len(names) <= maxNamesShown && !slices.Contains(names, name):
					names = append(names, name)
				}
				d.skip()
			})
		default:
			d.skip()
		}
	}
	visit(where)
	return names
}

// unknownField returns the note about a field that does not exist, with the existing names.
func unknownField(path string, parent *fieldNode, where, names []string) string {
	message := fmt.Sprintf("the response has no field %q", text.Cut(path, text.MaxQuoted))
	of := "it"
	if len(where) > 0 {
		of = text.Cut(strings.Join(where, "."), text.MaxQuoted)
	}
	if !parent.objects {
		return message + "; " + of + " has no fields"
	}
	wanted := path[strings.LastIndexByte(path, '.')+1:]
	if near := text.Nearest(wanted, slices.Values(names)); near != "" {
		message += fmt.Sprintf("; did you mean %q?", text.Cut(near, text.MaxQuoted))
	}
	more := ""
	if len(names) > maxNamesShown {
		names, more = names[:maxNamesShown], ", …"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = text.Cut(name, text.MaxQuoted)
	}
	return message + "; " + of + " has: " + strings.Join(shown, ", ") + more
}
