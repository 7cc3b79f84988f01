package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/yamltree"
)

// With aliases, a YAML file may expand to up to aliasFactor times the values it contains, or
// to aliasFree values if that is more.
const (
	aliasFactor = 20
	aliasFree   = 1e6
)

// yamlGrowth limits the size of the JSON that a YAML file expands to, with aliases: this many
// times the maximum size of the file.
const yamlGrowth = 2

// parseYAML parses a YAML file with one document into the corresponding JSON. Keys become
// strings, dates stay strings, and numbers are written in JSON syntax. Numbers that JSON cannot
// represent become null.
func parseYAML(data []byte, limits Limits) (*Node, error) {
	if at := invalidUTF8(data); at >= 0 {
		return nil, fmt.Errorf("byte %d is not valid UTF-8: unpack the document if it is compressed, else save it as UTF-8", at)
	}
	if countSeparators(data) > limits.Nodes {
		return nil, errTooMany(limits)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, yamltree.SyntaxError(data, err, 0)
	}
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case err == nil && !isNullDocument(&next):
		return nil, fmt.Errorf("line %d: the file holds more than one YAML document", next.Line)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	p := yamlParser{limits: limits, anchors: make(map[*yaml.Node]*expanded)}
	root, err := p.value(&document, 0)
	if err != nil {
		return nil, err
	}
	if root.size > max(aliasFree, aliasFactor*p.written) {
		return nil, fmt.Errorf("aliases expand %d values to %d", p.written, root.size)
	}
	return root.node, nil
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// countSeparators returns an upper bound of the number of values before any is built, since the
// YAML parser needs hundreds of bytes for each.
func countSeparators(data []byte) int {
	count := 0
	for _, c := range data {
		switch c {
		case '\n', ',', '[', '{', ':':
			count++
		}
	}
	return count
}

func isNullDocument(n *yaml.Node) bool {
	return n.Kind == yaml.DocumentNode && len(n.Content) == 1 && n.Content[0].ShortTag() == "!!null"
}

// A yamlParser converts YAML nodes to Nodes. The value of an anchor is converted once and
// shared by its aliases, so the cost depends on the size of the file and not on its expansion.
type yamlParser struct {
	limits  Limits
	written int
	anchors map[*yaml.Node]*expanded // a nil value means not finished
}

// expanded is a value and its cost if each alias were a copy.
type expanded struct {
	node   *Node
	size   int // values
	bytes  int // bytes of scalars and names
	height int // levels
}

func (p *yamlParser) value(n *yaml.Node, depth int) (*expanded, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) != 1 {
			return nil, errors.New("the file is empty")
		}
		return p.value(n.Content[0], depth)
	case yaml.AliasNode:
		return p.alias(n, depth)
	}
	p.written++
	if n.Anchor == "" {
		return p.plain(n, depth)
	}
	p.anchors[n] = nil
	e, err := p.plain(n, depth)
	if err == nil {
		p.anchors[n] = e
	}
	return e, err
}

func (p *yamlParser) plain(n *yaml.Node, depth int) (*expanded, error) {
	if n.Kind == yaml.ScalarNode {
		raw := yamltree.ScalarJSON(n)
		e := &expanded{node: &Node{raw: raw}, size: 1, bytes: len(raw)}
		if raw.Kind() == '0' && string(raw) != n.Value {
			e.node.branch = &branch{kind: '0', source: n.Value}
		}
		return e, nil
	}
	if depth >= p.limits.Depth {
		return nil, p.tooDeep(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return p.mapping(n, depth+1)
	case yaml.SequenceNode:
		return p.sequence(n, depth+1)
	}
	return nil, fmt.Errorf("line %d: a YAML value of an unknown kind", n.Line)
}

func (p *yamlParser) alias(n *yaml.Node, depth int) (*expanded, error) {
	e, met := p.anchors[n.Alias]
	switch {
	case !met:
		return nil, fmt.Errorf("line %d: the alias %q has no anchor", n.Line, n.Value)
	case e == nil:
		return nil, fmt.Errorf("line %d: the alias %q is inside what it names", n.Line, n.Value)
	case depth+e.height > p.limits.Depth:
		return nil, p.tooDeep(n)
	}
	return e, nil
}

func (p *yamlParser) tooDeep(n *yaml.Node) error {
	return fmt.Errorf("line %d: lists and mappings nest deeper than %d levels", n.Line, p.limits.Depth)
}

// add adds the cost of a part to the whole.
func (p *yamlParser) add(whole, part *expanded) error {
	whole.size += part.size
	whole.bytes += part.bytes
	whole.height = max(whole.height, part.height+1)
	if whole.size > p.limits.Nodes {
		return errTooMany(p.limits)
	}
	if whole.bytes > yamlGrowth*p.limits.Size {
		return fmt.Errorf("aliases expand the text to more than %d bytes", yamlGrowth*p.limits.Size)
	}
	return nil
}

func (p *yamlParser) sequence(n *yaml.Node, depth int) (*expanded, error) {
	whole := &expanded{size: 1, height: 1}
	items := make([]*Node, 0, len(n.Content))
	for _, child := range n.Content {
		item, err := p.value(child, depth)
		if err != nil {
			return nil, err
		}
		if err := p.add(whole, item); err != nil {
			return nil, err
		}
		items = append(items, item.node)
	}
	whole.node = List(items...)
	return whole, nil
}

func (p *yamlParser) mapping(n *yaml.Node, depth int) (*expanded, error) {
	whole := &expanded{size: 1, height: 1}
	members := make([]Member, 0, len(n.Content)/2)
	var merged []Member
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], n.Content[i+1]
		value, err := p.value(child, depth)
		if err != nil {
			return nil, err
		}
		if err := p.add(whole, value); err != nil {
			return nil, err
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merged = append(merged, mergedMembers(value.node)...)
			continue
		}
		name, err := keyText(key)
		if err != nil {
			return nil, err
		}
		whole.bytes += len(name)
		members = append(members, Member{name, visible(name, value.node)})
	}
	whole.node = object(withMerged(members, merged))
	return whole, nil
}

// mergedMembers returns the members from the value of a merge key: those of a mapping, or those
// of a list of mappings, of which the earlier ones win.
func mergedMembers(value *Node) []Member {
	if value.Kind() != '[' {
		return value.Members()
	}
	var all []Member
	for _, item := range value.Items() {
		all = append(all, item.Members()...)
	}
	return all
}

// withMerged returns the members from merge keys followed by the mapping's own members, which
// win.
func withMerged(members, merged []Member) []Member {
	if len(merged) == 0 {
		return members
	}
	all := make([]Member, 0, len(merged)+len(members))
	seen := make(map[string]bool, len(merged))
	for _, m := range merged {
		if !seen[m.Name] {
			seen[m.Name] = true
			all = append(all, m)
		}
	}
	return append(all, members...)
}

func keyText(key *yaml.Node) (string, error) {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("line %d: the key of a mapping must be text", key.Line)
	}
	return key.Value, nil
}
