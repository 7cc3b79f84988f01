package openapi

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/tools/source"
)

// AppendYAML appends the value as a YAML 1.2 document in block style, in the order of the
// tree. YAML 1.1 parsers read the same values. It returns an error if the output exceeds limit
// bytes.
func (n *Node) AppendYAML(dst []byte, limit int) ([]byte, error) {
	w := limitedWriter{dst: dst, limit: len(dst) + limit}
	encoder := yaml.NewEncoder(&w)
	encoder.SetIndent(yamlIndent)
	err := errors.Join(encoder.Encode(n.yaml()), encoder.Close())
	switch {
	case w.full:
		return dst, fmt.Errorf("%w: more than %d bytes as YAML", source.ErrTooLarge, limit)
	case err != nil:
		return dst, err
	}
	return w.dst, nil
}

// yamlIndent is the number of spaces per level of indentation.
const yamlIndent = 2

// A limitedWriter appends to dst until that would exceed the limit.
type limitedWriter struct {
	dst   []byte
	limit int
	full  bool
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(w.dst)+len(p) > w.limit {
		w.full = true
		return 0, source.ErrTooLarge
	}
	w.dst = append(w.dst, p...)
	return len(p), nil
}

// yaml returns the value as a node of the encoder.
func (n *Node) yaml() *yaml.Node {
	switch n.Kind() {
	case '{':
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		for _, m := range n.Members() {
			mapping.Content = append(mapping.Content, yamlText(m.Name), m.Value.yaml())
		}
		return mapping
	case '[':
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.Items() {
			list.Content = append(list.Content, item.yaml())
		}
		return list
	case '"':
		return yamlText(n.Text())
	case '0':
		return &yaml.Node{Kind: yaml.ScalarNode, Value: yamlNumber(n.raw)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(n.raw)}
}

// yamlText returns a string: as a block if it has several lines, plain if it cannot be mistaken for another
// value, and otherwise in quotes. The encoder writes texts such as No, yes and 1:30 without quotes, which
// YAML 1.1 parsers read as other values. It rejects bytes that are not UTF-8: they become U+FFFD, as in JSON.
func yamlText(text string) *yaml.Node {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	switch {
	case isBlock(text):
		n.Style = yaml.LiteralStyle
	case isPlain(text):
		n.Style = 0
	}
	return n
}

// yamlNumber returns a number as YAML 1.1 parsers read it as well: an exponent gets a decimal point and a sign.
func yamlNumber(raw []byte) string {
	mantissa, exponent, found := strings.Cut(strings.ToLower(string(raw)), "e")
	if !found {
		return mantissa
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if exponent[0] != '+' && exponent[0] != '-' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}

// isBlock reports whether a string can be written as a block: it has several lines, and no characters or spaces that
// the encoder writes as another text, such as tabs or spaces at the ends of lines.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || s[0] == ' ' || s[0] == '\n' {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasSuffix(line, " ") || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return false
		}
	}
	return true
}

// isPlain reports whether a string can be written without quotes. It must begin with a letter,
// "/" or "$", contain no special characters of YAML, and not be a word for another value.
func isPlain(s string) bool {
	if s == "" || s[len(s)-1] == ' ' {
		return false
	}
	if c := s[0]; !isLetter(c) && c != '/' && c != '$' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune(" _-./{}$,()", rune(c)) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
