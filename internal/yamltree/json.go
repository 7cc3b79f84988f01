package yamltree

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// ParseJSON reads a text that is one JSON value into the equivalent YAML nodes. YAML parsers do not
// read all JSON: they do not support surrogate pairs (\ud83d\ude00). MaxDepth is required.
func ParseJSON(data []byte, options Options) (*yaml.Node, error) {
	if err := strictjson.CheckDepth(data, options.MaxDepth); err != nil {
		return nil, err
	}
	t := jsonNodes{data: data, decoder: jsontext.NewDecoder(bytes.NewReader(data))}
	root, err := t.next()
	if err == nil {
		if _, end := t.decoder.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the end of the JSON")
		}
	}
	if err != nil {
		return nil, &Error{options.Before + t.line(), err}
	}
	return root, options.check(root, 0)
}

// jsonNodes builds YAML nodes from JSON tokens.
type jsonNodes struct {
	data    []byte
	decoder *jsontext.Decoder
	lines   int // line breaks before offset
	offset  int
}

// line returns the current line of the decoder.
func (t *jsonNodes) line() int {
	now := int(t.decoder.InputOffset())
	t.lines += bytes.Count(t.data[t.offset:now], []byte("\n"))
	t.offset = now
	return t.lines + 1
}

func (t *jsonNodes) next() (*yaml.Node, error) {
	token, err := t.decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: t.line()}
	switch token.Kind() {
	case '"':
		n.Tag, n.Value = "!!str", token.String()
	case '0':
		n.Tag, n.Value = "!!float", token.String()
	case 't', 'f':
		n.Tag, n.Value = "!!bool", token.String()
	case 'n':
		n.Tag, n.Value = "!!null", "null"
	case '{':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		return n, t.children(n, '}')
	case '[':
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		return n, t.children(n, ']')
	}
	return n, nil
}

func (t *jsonNodes) children(n *yaml.Node, closing jsontext.Kind) error {
	for t.decoder.PeekKind() != closing {
		child, err := t.next()
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := t.decoder.ReadToken()
	return err
}
