// Package yamltree reads the files that users write, agent documents and prompts, into YAML nodes
// that know their lines, so that every error names one.
//
// [Parse] reads YAML and [ParseJSON] JSON. Both can limit the depth of the tree. The caller walks the
// nodes by its own schema: it checks the keys of each mapping with [Keys], and describes what it does
// not expect with [Describe].
//
// OpenAPI documents have a reader of their own (tools/openapi), which converts much larger
// files to JSON.
package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

var (
	// ErrEmpty reports a text without a YAML document.
	ErrEmpty = errors.New("the file is empty")

	// ErrSecondDocument reports a text with more than one YAML document.
	ErrSecondDocument = errors.New("the file has more than one YAML document")
)

// An Error is an error with the line where it was found.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// At adds the line of the node to an error that has no line.
func At(n *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*Error](err); known {
		return err
	}
	return &Error{n.Line, err}
}

// Options are the options of Parse and ParseJSON.
type Options struct {
	MaxDepth int  // levels of lists and mappings; 0 means no other limit than the 10,000 of the YAML parser
	Aliases  bool // accept anchors and aliases
	Before   int  // lines of the file before the text; added to the line of each node and error
}

// Parse reads a text that is one YAML document. If aliases are accepted, the caller must limit the
// depth of what it reads, because an alias may be inside of what it refers to.
func Parse(data []byte, options Options) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, ErrEmpty
	case err != nil:
		return nil, SyntaxError(data, err, options.Before)
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, ErrSecondDocument
	}
	if len(document.Content) != 1 {
		return nil, ErrEmpty
	}
	root := document.Content[0]
	return root, options.check(root, 0)
}

// check adds the lines before the text to each node. It rejects deep nesting and, unless they are
// accepted, aliases, which could expand a small file to a huge one.
func (o *Options) check(n *yaml.Node, depth int) error {
	n.Line += o.Before
	switch {
	case o.MaxDepth > 0 && depth > o.MaxDepth:
		return At(n, fmt.Errorf("lists and mappings nest deeper than %d levels", o.MaxDepth))
	case !o.Aliases && (n.Kind == yaml.AliasNode || n.Anchor != ""):
		return At(n, errors.New("anchors and aliases are not supported here: repeat the value"))
	}
	for _, child := range n.Content {
		if err := o.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Keys has the line of each key of one mapping. Create it with make.
type Keys map[string]int

// Add adds a key. It must be a string that the mapping does not have yet.
func (k Keys) Add(key *yaml.Node) error {
	if !IsString(key) {
		return fmt.Errorf("a key must be a string, not %s; put it in quotes", Describe(key))
	}
	if line, taken := k[key.Value]; taken {
		return fmt.Errorf("duplicate key; line %d already has it", line)
	}
	k[key.Value] = key.Line
	return nil
}

// Resolve returns the node that an alias refers to.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// IsString reports whether the node itself is a string.
func IsString(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str"
}

// IsNull reports whether the value is null.
func IsNull(n *yaml.Node) bool {
	n = Resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// Bool returns the value of a boolean: true, True, TRUE or the same of false. ok is false if the node
// is none.
func Bool(n *yaml.Node) (value, ok bool) {
	n = Resolve(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		switch n.Value {
		case "true", "True", "TRUE":
			return true, true
		case "false", "False", "FALSE":
			return false, true
		}
	}
	return false, false
}

// Member returns the value of a key of a mapping, or nil if there is none.
func Member(n *yaml.Node, name string) *yaml.Node {
	if n = Resolve(n); n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == name {
			return Resolve(n.Content[i+1])
		}
	}
	return nil
}

// Describe returns the kind of a node for messages, with its text if that is short.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the string %.64q", n.Value)
	case "!!null":
		return "null"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return fmt.Sprintf("the number %.64s", n.Value)
	}
	return fmt.Sprintf("a value of type %.64s", n.ShortTag())
}
