package openapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/source"
)

// AppendYAML appends the value as a YAML 1.2 document in block style, in the order of the
// tree. YAML 1.1 parsers read the same values. It returns an error if the output exceeds limit
// bytes.
func (n *Node) AppendYAML(dst []byte, limit int) ([]byte, error) {
	w := yamlWriter{dst: dst, limit: len(dst) + limit}
	w.value(n, 0)
	if w.full() {
		return dst, fmt.Errorf("%w: more than %d bytes as YAML", source.ErrTooLarge, limit)
	}
	return append(bytes.TrimLeft(w.dst, "\n "), '\n'), nil
}

// yamlIndent is the number of spaces per level of indentation.
const yamlIndent = 2

// A yamlWriter writes a tree and stops when it exceeds its limit.
type yamlWriter struct {
	dst   []byte
	limit int
}

func (w *yamlWriter) full() bool {
	return len(w.dst) > w.limit
}

// value writes the text after "name:" or "-": a scalar on the same line, or a block on the
// following lines, indented by depth levels.
func (w *yamlWriter) value(n *Node, depth int) {
	switch {
	case w.full():
	case len(n.Members()) > 0:
		w.members(n.Members(), depth, true)
	case len(n.Items()) > 0:
		w.items(n.Items(), depth)
	case n.Kind() == '{':
		w.dst = append(w.dst, " {}"...)
	case n.Kind() == '[':
		w.dst = append(w.dst, " []"...)
	case n.Kind() == '"':
		w.dst = append(w.dst, ' ')
		w.text(n.Text(), depth)
	case n.Kind() == '0':
		w.dst = append(w.dst, ' ')
		w.number(n.raw)
	default:
		w.dst = append(w.dst, ' ')
		w.dst = n.AppendJSON(w.dst)
	}
}

// members writes a mapping. The first member may follow a "-".
func (w *yamlWriter) members(members []Member, depth int, below bool) {
	for i, m := range members {
		if i > 0 || below {
			w.newline(depth)
		}
		w.key(m.Name, depth)
		w.dst = append(w.dst, ':')
		w.value(m.Value, depth+1)
	}
}

func (w *yamlWriter) items(items []*Node, depth int) {
	for _, item := range items {
		w.newline(depth)
		w.dst = append(w.dst, '-')
		if members := item.Members(); len(members) > 0 {
			w.dst = append(w.dst, ' ')
			w.members(members, depth+1, false)
			continue
		}
		w.value(item, depth+1)
	}
}

func (w *yamlWriter) newline(depth int) {
	if w.full() {
		return
	}
	w.dst = append(w.dst, '\n')
	for range depth * yamlIndent {
		w.dst = append(w.dst, ' ')
	}
}

// longestKey is the maximum length of a written member name before its colon. Longer names
// need another syntax.
const longestKey = 1000 // bytes; YAML allows 1,024 characters

func (w *yamlWriter) key(name string, depth int) {
	if len(name) <= longestKey && isPlain(name) {
		w.dst = append(w.dst, name...)
		return
	}
	mark := len(w.dst)
	w.quoted(name)
	if len(w.dst)-mark > longestKey {
		w.dst = slices.Insert(w.dst, mark, '?', ' ')
		w.newline(depth)
	}
}

// number writes a number so that YAML 1.1 parsers read a number as well: an exponent gets a
// decimal point and a sign.
func (w *yamlWriter) number(raw []byte) {
	at := bytes.IndexAny(raw, "eE")
	if at < 0 {
		w.dst = append(w.dst, raw...)
		return
	}
	w.dst = append(w.dst, raw[:at]...)
	if bytes.IndexByte(raw[:at], '.') < 0 {
		w.dst = append(w.dst, ".0"...)
	}
	w.dst = append(w.dst, 'e')
	if exponent := raw[at+1:]; exponent[0] != '+' && exponent[0] != '-' {
		w.dst = append(w.dst, '+')
	}
	w.dst = append(w.dst, raw[at+1:]...)
}

// text writes a string: as a block if it has several lines, plain if it cannot be mistaken for
// another value, and otherwise in quotes.
func (w *yamlWriter) text(s string, depth int) {
	switch {
	case isBlock(s):
		w.block(s, depth)
	case isPlain(s):
		w.dst = append(w.dst, s...)
	default:
		w.quoted(s)
	}
}

func (w *yamlWriter) block(s string, depth int) {
	lines, ended := strings.CutSuffix(s, "\n")
	w.dst = append(w.dst, '|')
	if !ended {
		w.dst = append(w.dst, '-')
	}
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			w.dst = append(w.dst, '\n')
			continue
		}
		w.newline(depth)
		w.dst = append(w.dst, line...)
	}
}

// quoted writes a string in double quotes, using only escapes that JSON has as well.
func (w *yamlWriter) quoted(s string) {
	quoted := strictjson.AppendString(nil, s)
	for len(quoted) > 0 {
		r, size := utf8.DecodeRune(quoted)
		if r >= utf8.RuneSelf && !isPrintable(r) {
			w.dst = fmt.Appendf(w.dst, `\u%04x`, r)
		} else {
			w.dst = append(w.dst, quoted[:size]...)
		}
		quoted = quoted[size:]
	}
}

// isPrintable reports whether YAML may contain a non-ASCII character unescaped.
func isPrintable(r rune) bool {
	switch {
	case r < 0xa0, r == '\u2028', r == '\u2029', r == '\ufeff', r == '\ufffe', r == '\uffff':
		return false
	}
	return true
}

// isBlock reports whether a string of several lines can be written as a literal block.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || s[0] == '\n' || s[0] == ' ' || s[0] == '\t' || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line != "" && strings.Trim(line, " \t") == "" {
			return false
		}
	}
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= utf8.RuneSelf && !isPrintable(r) {
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
