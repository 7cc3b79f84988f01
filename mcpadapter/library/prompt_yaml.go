package library

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// promptTree parses the file into nodes that have line numbers.
func promptTree(data []byte) (*yaml.Node, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		// JSON has its own parser, because YAML does not support surrogate pairs (\ud83d\ude00).
		return jsonTree(data)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, withLine(data, err)
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document")
	}
	root := document.Content[0]
	return root, checkTree(root, 0)
}

// maxLineSearch is how many bytes are parsed again to find the line of a syntax error.
const maxLineSearch = 8 << 20

// withLine adds the line to a YAML syntax error: the first line that makes the text up to it
// invalid. The line in YAML's own error is often the start of the enclosing list or mapping, counted
// from zero.
func withLine(data []byte, err error) error {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	if _, rest, found := strings.Cut(reason, ": "); found && strings.HasPrefix(reason, "line ") {
		reason = rest
	}
	lines := bytes.SplitAfter(bytes.TrimRight(data, " \t\r\n"), []byte("\n"))
	before := bytes.Join(lines, nil)
	for n, left := len(lines), maxLineSearch; n > 0 && left > 0; n-- {
		before = before[:len(before)-len(lines[n-1])]
		left -= len(before)
		if yaml.Unmarshal(before, new(yaml.Node)) == nil {
			return &lineError{n, errors.New(reason)}
		}
	}
	return err
}

// checkTree rejects deep nesting, and aliases, which could expand a small file to a huge one.
func checkTree(n *yaml.Node, depth int) error {
	switch {
	case depth > maxPromptFileDepth:
		return at(n, fmt.Errorf("lists and mappings nest deeper than %d levels", maxPromptFileDepth))
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return at(n, errors.New("anchors and aliases are not read here: write the value out"))
	}
	for _, child := range n.Content {
		if err := checkTree(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// A lineError is an error with a line number.
type lineError struct {
	line int
	err  error
}

func (l *lineError) Error() string { return fmt.Sprintf("line %d: %v", l.line, l.err) }
func (l *lineError) Unwrap() error { return l.err }

// at adds the line of the node to an error that has no line.
func at(n *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	if known := (*lineError)(nil); errors.As(err, &known) {
		return err
	}
	return &lineError{n.Line, err}
}
