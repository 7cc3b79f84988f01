package openapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Default limits for one file.
const (
	DefaultMaxSize  = 64 << 20 // bytes
	defaultMaxDepth = 100      // levels of arrays and objects; real documents reach 30
	defaultMaxNodes = 4e6      // values, with YAML aliases expanded; GitHub's document has 258,000
)

// Limits bound the cost of one file. A zero field means its default.
type Limits struct {
	Size  int // bytes
	Depth int // levels of arrays and objects
	Nodes int // values; each YAML alias counts as the values it expands to
}

func (l Limits) orDefaults() Limits {
	l.Size = cmp.Or(max(l.Size, 0), DefaultMaxSize)
	l.Depth = cmp.Or(max(l.Depth, 0), defaultMaxDepth)
	l.Nodes = cmp.Or(max(l.Nodes, 0), defaultMaxNodes)
	return l
}

// byteOrderMark may precede UTF-8 text. It is ignored.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Parse parses one JSON or YAML file. The file is JSON if its first character is '{'. The
// tree refers to parts of data, so data must not be changed afterwards. If an object
// repeats a name, the last value wins.
func Parse(data []byte, limits Limits) (*Node, error) { return parse(data, limits, false) }

func parse(data []byte, limits Limits, hidden bool) (*Node, error) {
	limits = limits.orDefaults()
	if len(data) > limits.Size {
		return nil, fmt.Errorf("the document has %d bytes, more than the limit of %d", len(data), limits.Size)
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
	start := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(start) == 0:
		return nil, errors.New("the file is empty")
	case start[0] == '{':
		return parseJSON(data, limits, hidden)
	case start[0] == '<':
		return nil, fmt.Errorf("an HTML or XML page, neither JSON nor YAML: it begins with %q", beginning(start))
	}
	return parseYAML(data, limits)
}

// beginning returns the first characters of text, for a message.
func beginning(text []byte) []byte {
	const most = 40 // bytes
	if line := bytes.IndexByte(text, '\n'); line >= 0 {
		text = text[:line]
	}
	return text[:min(len(text), most)]
}

// A jsonParser builds the tree of one JSON text. Nodes, members and items are allocated
// from slabs, since a large document has hundreds of thousands of them.
type jsonParser struct {
	data    []byte
	limits  Limits
	hidden  bool // Options.Hidden
	decoder *jsontext.Decoder
	names   map[string]string // the member names so far, each stored once
	count   int

	nodes    slab[Node]
	branches slab[branch]
	members  slab[Member]
	items    slab[*Node]

	openMembers []Member // members of all objects that are still open
	openItems   []*Node  // items of all arrays that are still open
}

func parseJSON(data []byte, limits Limits, hidden bool) (*Node, error) {
	p := &jsonParser{
		data:    data,
		limits:  limits,
		hidden:  hidden,
		decoder: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)),
		names:   make(map[string]string),
	}
	root, err := p.value(0)
	if err == nil {
		_, err = p.decoder.ReadToken()
		if err == io.EOF {
			return root, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: more text after the end of the JSON value", p.position(p.decoder.InputOffset()-1))
		}
	}
	return nil, p.explain(err)
}

func (p *jsonParser) value(depth int) (*Node, error) {
	if p.count++; p.count > p.limits.Nodes {
		return nil, errTooMany(p.limits)
	}
	kind := p.decoder.PeekKind()
	if kind != '{' && kind != '[' {
		raw, err := p.scalar()
		if err != nil {
			return nil, err
		}
		node := p.nodes.one()
		node.raw = raw
		return node, nil
	}
	if depth == p.limits.Depth {
		return nil, fmt.Errorf("%s: arrays and objects nest deeper than %d levels",
			p.position(p.decoder.InputOffset()), p.limits.Depth)
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return nil, err
	}
	node := p.nodes.one()
	node.branch = p.branches.one()
	node.branch.kind = Kind(kind)
	if kind == '{' {
		return node, p.object(node.branch, depth+1)
	}
	return node, p.array(node.branch, depth+1)
}

func (p *jsonParser) object(b *branch, depth int) error {
	start := len(p.openMembers)
	for p.decoder.PeekKind() != '}' {
		name, err := p.name()
		if err != nil {
			return err
		}
		value, err := p.value(depth)
		if err != nil {
			return err
		}
		if !p.hidden {
			value = visible(name, value)
		}
		p.openMembers = append(p.openMembers, Member{name, value})
	}
	b.members = p.members.copyOf(p.openMembers[start:])
	p.openMembers = p.openMembers[:start]
	b.settle()
	_, err := p.decoder.ReadToken()
	return err
}

func (p *jsonParser) array(b *branch, depth int) error {
	start := len(p.openItems)
	for p.decoder.PeekKind() != ']' {
		item, err := p.value(depth)
		if err != nil {
			return err
		}
		p.openItems = append(p.openItems, item)
	}
	b.items = p.items.copyOf(p.openItems[start:])
	p.openItems = p.openItems[:start]
	_, err := p.decoder.ReadToken()
	return err
}

// scalar returns the bytes of the next value as written.
func (p *jsonParser) scalar() (jsontext.Value, error) {
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(p.decoder.InputOffset())
	return jsontext.Value(p.data[end-len(raw) : end : end]), nil
}

func (p *jsonParser) name() (string, error) {
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return "", err
	}
	if len(raw) < 2 || raw[0] != '"' {
		return "", fmt.Errorf("%s: the name of a member must be a string", p.position(p.decoder.InputOffset()))
	}
	unquoted := []byte(raw[1 : len(raw)-1])
	if bytes.IndexByte(unquoted, '\\') >= 0 {
		if unquoted, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return "", err
		}
	}
	if name, known := p.names[string(unquoted)]; known {
		return name, nil
	}
	name := string(unquoted)
	p.names[name] = name
	return name, nil
}

// explain adds the position of a syntax error in the text.
func (p *jsonParser) explain(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	where := p.position(syntax.ByteOffset)
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) || errors.Is(syntax.Err, io.EOF) {
		return fmt.Errorf("%s: the JSON text ends in the middle", where)
	}
	return fmt.Errorf("%s: %w (byte %d)", where, syntax.Err, syntax.ByteOffset)
}

// position returns the line and column of the byte at offset, counted from 1.
func (p *jsonParser) position(offset int64) string {
	before := p.data[:min(int(offset), len(p.data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d", line, column)
}

func errTooMany(limits Limits) error {
	return fmt.Errorf("the document has more values than the limit of %d", limits.Nodes)
}

// A slab allocates values in chunks, so that a tree of many small values needs few
// allocations.
type slab[T any] struct {
	free []T
}

// slabSize is the number of values in one chunk.
const slabSize = 512

func (s *slab[T]) one() *T {
	if len(s.free) == 0 {
		s.free = make([]T, slabSize)
	}
	first := &s.free[0]
	s.free = s.free[1:]
	return first
}

// copyOf returns a copy of values without spare capacity.
func (s *slab[T]) copyOf(values []T) []T {
	n := len(values)
	if n > slabSize/4 {
		return append(make([]T, 0, n), values...)
	}
	if len(s.free) < n {
		s.free = make([]T, slabSize)
	}
	kept := s.free[:n:n]
	s.free = s.free[n:]
	copy(kept, values)
	return kept
}
