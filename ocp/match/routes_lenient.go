package match

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// lenientNode is a node of the path tree as lenient servers see it, which ignore case,
// empty segments and spaces.
type lenientNode struct {
	tools    []*tool.Tool // of the paths that end here, in document order
	literals map[string]*lenientNode
	mixed    []lenientMixed
	any      *lenientNode
}

type lenientMixed struct {
	route mixedRoute // its texts
	next  *lenientNode
}

func (r *Routes) makeLenient() {
	r.lenient = make(map[string]*lenientNode)
	for _, tool := range r.tools {
		root := r.lenient[tool.Method]
		if root == nil {
			root = new(lenientNode)
			r.lenient[tool.Method] = root
		}
		root.add(tool)
	}
}

// pathKey returns the path without the names of its parameters.
func pathKey(t *tool.Tool) string {
	return strings.Join(segments(t), "/")
}

func (n *lenientNode) add(tool *tool.Tool) {
	for _, segment := range segments(tool) {
		// A NUL marks a parameter; fold would keep it.
		for part := range strings.SplitSeq(fold(segment), "/") {
			if part != "" {
				n = n.child(part)
			}
		}
	}
	n.tools = append(n.tools, tool)
}

func (n *lenientNode) child(segment string) *lenientNode {
	switch {
	case segment == "\x00":
		if n.any == nil {
			n.any = new(lenientNode)
		}
		return n.any
	case strings.IndexByte(segment, 0) >= 0:
		texts := strings.Split(segment, "\x00")
		for i := range n.mixed {
			if slices.Equal(n.mixed[i].route.texts, texts) {
				return n.mixed[i].next
			}
		}
		next := new(lenientNode)
		n.mixed = append(n.mixed, lenientMixed{mixedRoute{texts: texts}, next})
		return next
	}
	next := n.literals[segment]
	if next == nil {
		next = new(lenientNode)
		if n.literals == nil {
			n.literals = make(map[string]*lenientNode)
		}
		n.literals[segment] = next
	}
	return next
}

// find returns the tools of the most concrete path that matches rest, which is folded. It
// ignores empty segments.
func (n *lenientNode) find(rest string) []*tool.Tool {
	rest = strings.TrimLeft(rest, "/")
	if rest == "" {
		return n.tools
	}
	segment, rest, _ := strings.Cut(rest, "/")
	if next := n.literals[segment]; next != nil {
		if tools := next.find(rest); len(tools) > 0 {
			return tools
		}
	}
	for i := range n.mixed {
		if m := &n.mixed[i]; m.route.matches(segment) {
			if tools := m.next.find(rest); len(tools) > 0 {
				return tools
			}
		}
	}
	if n.any != nil {
		return n.any.find(rest)
	}
	return nil
}

// appendReading appends a path, folded and without dot segments, unless the list contains
// it.
func appendReading(readings []string, reading string) []string {
	reading = fold(reading)
	if strings.Contains(reading, "/.") {
		reading = path.Clean(reading)
	}
	if slices.Contains(readings, reading) {
		return readings
	}
	return append(readings, reading)
}

// fold returns the same text for all texts that servers may treat as equal. Backslashes
// become slashes. Case, Unicode forms of a character, and spaces and dots at the end of a
// segment are ignored.
func fold(text string) string {
	if !isASCIIText(text) {
		text = norm.NFKC.String(text)
	}
	text = strings.Map(func(r rune) rune {
		if r == '\\' {
			return '/'
		}
		return style.Fold(r)
	}, text)
	if !strings.ContainsAny(text, ". ") {
		return text
	}
	segments := strings.Split(text, "/")
	for i, segment := range segments {
		segment = strings.Trim(segment, " ")
		if trimmed := strings.TrimRight(segment, ". "); trimmed != "" {
			segment = trimmed
		}
		segments[i] = segment
	}
	return strings.Join(segments, "/")
}

func isASCIIText(text string) bool {
	for i := range len(text) {
		if text[i] > unicode.MaxASCII {
			return false
		}
	}
	return true
}

// keptSlash represents a slash inside a segment, where no template has one.
const keptSlash = '\x01'

// decodeSegments fully decodes the segments of an escaped path. Slashes that come from
// decoding are represented differently from those that separate segments.
func decodeSegments(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		for range maxDecoded {
			segment = decodeTriples(segment)
		}
		segments[i] = strings.ReplaceAll(segment, "/", string(keptSlash))
	}
	return strings.Join(segments, "/")
}

// keepSlashes replaces backslashes by keptSlash, so that they do not separate segments.
func keepSlashes(r rune) rune {
	if r == '\\' {
		return keptSlash
	}
	return r
}

// cutSegments cuts each segment at its first semicolon.
func cutSegments(path string) string {
	if strings.IndexByte(path, ';') < 0 {
		return path
	}
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// decodeTriples decodes each %XX once and leaves every other "%" unchanged.
func decodeTriples(text string) string {
	found := strings.Contains(text, "%")
	if !found {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if high, low := unhex(text[i+1]), unhex(text[i+2]); high >= 0 && low >= 0 {
				decoded = append(decoded, byte(high<<4|low))
				i += len("XX")
				continue
			}
		}
		decoded = append(decoded, text[i])
	}
	return string(decoded)
}

// unhex returns the value of a hexadecimal digit, or -1 for any other byte.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
