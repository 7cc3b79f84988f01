// Package detect finds secrets and personal data in messages: inspectors by form (Detector), and clients of servers that inspect.
package detect

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// Bounds of what a detector reads inside of a string.
const (
	maxNested = 3       // levels of JSON, or base64, in strings
	minBase64 = 24      // characters
	maxCursor = 2 << 10 // bytes of an opaque cursor
	maxLabels = 16      // different labels of one message
)

// A Hit is a part of a text that a Detector has found.
type hit struct {
	Start, End int
	Label      string // "email"; replaces the part, in brackets
	Whole      string // replaces the part if it is the whole text; "" for the label. It keeps formats of JSON Schema valid
}

// A Detector finds values in texts.
type detector interface {
	// wants reports whether there may be something to find in a text with these traits.
	wants(t traits, name nameKind) bool
	// find appends what it finds in a text, ordered, without overlaps. Name is the kind of name of the JSON member that has
	// the text.
	find(hits []hit, name nameKind, text []byte) []hit
}

// Detect returns the inspector that masks what a detector finds. With reject, it rejects messages with a hit.
//
// In JSON, it reads the decoded names and strings, and numbers. It also reads JSON in strings, and text in base64.
// A masked string stays a string, and a masked number becomes 0. Everything else keeps its bytes.
//
// Detections that follow each other in a Chain share one walk over the bytes. The walk determines the traits of each string
// (traits.go), and detectors read only the strings in which something may be.
func Detect(d detector, reject bool) inspect.Inspector { return &detection{d, reject} }

type detection struct {
	detector detector
	reject   bool
}

// Inspect implements inspect.Inspector.
func (d *detection) Inspect(_ context.Context, m *inspect.Message) (inspect.Verdict, error) {
	verdict, _, _ := d.Join(inspect.Chain{d.alone(m.Phase)}, m)
	return verdict, nil
}

// Join implements inspect.Joining.
func (d *detection) Join(chain inspect.Chain, m *inspect.Message) (verdict inspect.Verdict, steps int, rejecting string) {
	s := searchOf(chain, m.Phase)
	verdict = s.verdict(m)
	if s.rejecting != nil {
		rejecting = s.rejecting.name
	}
	return verdict, s.steps, rejecting
}

// FindsIn implements inspect.Joining.
func (d *detection) FindsIn(text string) bool {
	return searchOf(inspect.Chain{d.alone(inspect.Result)}, inspect.Result).text(0, []byte(text), 0, anyTrait) != nil
}

// alone returns a step of the detection for a phase.
func (d *detection) alone(phase inspect.Phase) inspect.Step {
	return inspect.Step{Inspector: d, Phases: []inspect.Phase{phase}}
}

// looksLikeJSON reports whether a text is an object or array, or several of them.
func looksLikeJSON(body []byte) bool {
	if len(body) < 2 || body[0] > ' ' && body[0] != '{' && body[0] != '[' && body[0] != 0xef {
		return false
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	return len(body) > 1 && (body[0] == '{' || body[0] == '[')
}

// A search is one walk of detections over a message.
type search struct {
	detections []namedDetection
	steps      int // of the chain that the search makes
	filter     *keywordFilter
	every      traits          // that are assumed of every text
	rejecting  *namedDetection // has rejected the message; the rest need not be read
	labels     []string        // of the rejecting detection, or of all
	inName     bool            // the text is the name of a member
	names      int             // member names that were masked
	known      [64]knownName
	hits       []hit  // reused
	plain      []byte // reused by encoded
	reading    reading
}

type namedDetection struct {
	*detection
	name string // of the inspector
}

// A knownName is the name of a member, without hits. APIs repeat the same names in each element of a list.
type knownName struct {
	content []byte // between the quotation marks
	kind    nameKind
}

// searchOf returns the search of the detections that the chain begins with.
func searchOf(c inspect.Chain, phase inspect.Phase) *search {
	s := &search{filter: &noKeywords}
	for _, step := range c {
		d, ok := step.Inspector.(*detection)
		if !ok || step.Reviews != c[0].Reviews || step.Reviews && s.steps > 0 {
			break
		}
		s.steps++
		if !slices.Contains(step.Phases, phase) {
			continue
		}
		s.detections = append(s.detections, namedDetection{d, step.Name})
		if known, ok := d.detector.(*secrets); ok {
			s.filter = &known.filter
		}
	}
	return s
}

// verdict searches a message.
func (s *search) verdict(m *inspect.Message) inspect.Verdict {
	var masked []byte
	body := m.Body
	if m.Events {
		body = s.events(m)
	}
	if m.JSON || looksLikeJSON(body) {
		masked = s.json(0, body, 0)
	} else {
		masked = s.text(0, body, 0, anyTrait)
	}
	if masked == nil && len(s.labels) > 0 {
		masked = body
	}
	slices.Sort(s.labels)
	return inspect.Verdict{Rejected: s.stop(), Body: masked, Labels: s.labels}
}

func (s *search) note(d *namedDetection, label string) {
	if d.reject && s.rejecting == nil {
		s.rejecting, s.labels = d, nil
	}
	if len(s.labels) < maxLabels && !slices.Contains(s.labels, label) {
		s.labels = append(s.labels, label)
	}
}

// stop reports whether the rest need not be read.
func (s *search) stop() bool { return s.rejecting != nil }

// json returns JSON with the hits masked, nil if there are none. The text need not be valid: everything that a parser may
// take for a string is read as one. If there is something else outside of strings, the whole is also read as text.
func (s *search) json(of nameKind, source []byte, depth int) []byte {
	var out []byte
	copied := 0
	replace := func(from, to int, with []byte) {
		out = append(append(out, source[copied:from]...), with...)
		copied = to
	}
	var name nameKind                              // of the member of the current value
	object, number, strange := false, false, false // the last token but white space is a number
	for i := 0; i < len(source) && !s.stop(); {
		switch c := source[i]; {
		case c == '"':
			number = false
			end, t := s.filter.scan(source, i+1)
			t |= s.every
			content := source[i+1 : end]
			if end < len(source) && source[end] == '\\' {
				end = stringEnd(source, end)
				content = source[i+1 : end]
			}
			if after := skipSpace(source, end+1); after < len(source) && source[after] == ':' {
				var masked []byte
				if name, masked = s.member(content); masked != nil {
					replace(i, min(end+1, len(source)), strictjson.AppendString(nil, s.uniqueName(masked)))
				}
				object, i = true, after+1
				continue
			}
			if t != 0 || name != 0 || len(content) >= minBase64 || len(content) > 0 && looksLikeJSON(content) {
				decoded := content
				if t&hasEscape != 0 {
					decoded = unquote(content)
					t = s.filter.traits(decoded) | s.every
				}
				if masked := s.value(name, decoded, depth, t); masked != nil {
					replace(i, min(end+1, len(source)), strictjson.AppendString(nil, masked))
				}
			}
			i = end + 1
		case c == '-' || c >= '0' && c <= '9':
			end, count := i+1, weights[c]
			for end < len(source) && isNumber[source[end]] {
				count += weights[source[end]]
				end++
			}
			if count >= minDigits && s.isHit(name, source[i:end]) {
				replace(i, end, []byte("0"))
			}
			strange = strange || number
			number, i = true, end
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
			i++
		case c == '{' || c == '}' || c == ',':
			number = false
			if c != ',' || object {
				name, object = 0, c != ','
			}
			i++
		case c == '[' || c == ']' || c == ':':
			number, object = false, object && c != '['
			i++
		default:
			n := literal(source[i:])
			strange = strange || n == 0
			number, i = false, i+max(n, 1)
		}
	}
	if out != nil {
		out = append(out, source[copied:]...)
	}
	if strange && !s.stop() {
		if out != nil {
			source = out
		}
		if text := s.text(of, source, depth, anyTrait); text != nil {
			return text
		}
	}
	return out
}

// literal returns the length of the true, false or null that a text begins with, 0 if there is none.
func literal(text []byte) int {
	for _, word := range [...]string{"null", "true", "false"} {
		if len(text) >= len(word) && string(text[:len(word)]) == word {
			return len(word)
		}
	}
	return 0
}

// member reads the name of a member. It returns the kind of the name, and the masked name, nil if it has no hits.
func (s *search) member(content []byte) (kind nameKind, masked []byte) {
	known := &s.known[0]
	if n := len(content); n > 0 {
		known = &s.known[(n*7+int(content[0])*3+int(content[n-1]))%len(s.known)]
	}
	if known.content != nil && bytes.Equal(known.content, content) {
		return known.kind, nil
	}
	decoded := unquote(content)
	kind = kindOf(decoded)
	s.inName = true
	masked = s.text(0, decoded, maxNested, s.filter.traits(decoded))
	s.inName = false
	if masked == nil {
		*known = knownName{content, kind}
	}
	return kind, masked
}

// uniqueName returns a masked name that no other masked name equals, since the names of an object must be different.
func (s *search) uniqueName(masked []byte) []byte {
	if s.names++; s.names == 1 {
		return masked
	}
	return append(append(append(masked, " ("...), strconv.Itoa(s.names)...), ')')
}

// isHit reports whether there is a hit in a number.
func (s *search) isHit(name nameKind, number []byte) bool {
	for i := range s.detections {
		d := &s.detections[i]
		if !d.detector.wants(hasDigits, name) {
			continue
		}
		if s.hits = d.detector.find(s.hits[:0], name, number); len(s.hits) > 0 {
			s.note(d, s.hits[0].Label)
			return true
		}
	}
	return false
}

// value is text for a string of JSON.
func (s *search) value(name nameKind, text []byte, depth int, t traits) []byte {
	switch {
	case name&cursorName != 0 && isCursor(text):
		return nil
	case depth < maxNested && looksLikeJSON(text):
		return s.json(name, text, depth+1)
	}
	return s.text(name, text, depth, t)
}

// text returns a text with the hits masked, nil if there are none.
func (s *search) text(name nameKind, text []byte, depth int, t traits) []byte {
	if len(text) < 2 {
		return nil
	}
	var out []byte
	differs := t&hasAt != 0 && s.reading.read(text)
	if differs {
		t |= s.filter.traits(s.reading.text)
	}
	for i := range s.detections {
		d := &s.detections[i]
		if !d.detector.wants(t, name) {
			continue
		}
		if s.hits = s.find(d, name, text, differs); len(s.hits) == 0 {
			continue
		}
		out = s.mask(d, text)
		text = out
		if s.stop() {
			return out
		}
		differs = differs && s.reading.read(text)
	}
	if len(text) >= minBase64 && depth < maxNested {
		if decoded := s.base64(text); decoded != nil {
			return decoded
		}
	}
	return out
}

// mask returns a text with the current hits of a detection masked.
func (s *search) mask(d *namedDetection, text []byte) (out []byte) {
	copied := 0
	for _, h := range s.hits {
		s.note(d, h.Label)
		out = append(out, text[copied:h.Start]...)
		copied = h.End
		if h.Whole != "" && !s.inName && h.Start == 0 && h.End == len(text) {
			out = append(out, h.Whole...)
			continue
		}
		out = append(append(append(out, '['), h.Label...), ']')
	}
	return append(out, text[copied:]...)
}

// base64 returns a text in which the runs of base64 with a hit are masked and encoded again, nil if there are none. A run may have
// several lines.
func (s *search) base64(text []byte) []byte {
	var out []byte
	copied, block := 0, 0 // block is where the last lines of base64 end
	for i := 0; i+minBase64 <= len(text); {
		if last := lastOther(text[i : i+minBase64]); last >= 0 { // no run begins before the byte after it
			i += last + 1
			continue
		}
		end := base64End(text, i+minBase64)
		lines, butLast := end, end
		if i >= block && end < len(text) {
			lines, butLast = linesEnd(text, i, end)
			block = lines
		}
		for _, to := range slices.Compact([]int{lines, butLast, end}) { // the last line may be a word, or only the first be text
			masked, isText := s.encoded(text[i:to], to < block)
			if masked != nil {
				out = append(append(out, text[copied:i]...), masked...)
				copied = to
			}
			if isText {
				end = to
				break
			}
		}
		i = end
	}
	if out == nil {
		return nil
	}
	return append(out, text[copied:]...)
}

// lastOther returns the position of the last byte that is not base64, -1 if all are.
func lastOther(text []byte) int {
	for i, c := range slices.Backward(text) {
		if !isBase64[c] {
			return i
		}
	}
	return -1
}

// base64End returns the end of the base64 that goes on at a position, with its padding.
func base64End(text []byte, i int) int {
	for i < len(text) && isBase64[text[i]] {
		i++
	}
	for i < len(text) && text[i] == '=' {
		i++
	}
	return i
}

// linesEnd returns the end of the lines of base64 that begin with a run, and that of all but the last. They have the same length, but
// for the last.
func linesEnd(text []byte, start, end int) (all, butLast int) {
	all, butLast = end, end
	for width := end - start; text[all-1] != '='; {
		next := skipSpace(text, all)
		last := base64End(text, next)
		if last == next || last-next > width || !bytes.ContainsAny(text[all:next], "\r\n") {
			break
		}
		if all, butLast = last, all; last-next < width {
			break
		}
	}
	return all, butLast
}

// encoded masks the hits of a run of base64, which may have several lines of the same length. It returns nil if there are none. If
// other base64 goes on after it, the result has no padding, since decoders stop there.
func (s *search) encoded(run []byte, goesOn bool) (masked []byte, isText bool) {
	coding := base64.RawStdEncoding
	if bytes.IndexByte(run, '-') >= 0 || bytes.IndexByte(run, '_') >= 0 {
		coding = base64.RawURLEncoding
	}
	var first [minBase64]byte // most runs are identifiers or binary data
	n, err := coding.Decode(first[:], run[:minBase64])
	if err != nil || slices.ContainsFunc(first[:n], func(c byte) bool { return isControl(rune(c)) }) {
		return nil, false
	}
	lines := bytes.Fields(run)
	digits := bytes.TrimRight(bytes.Join(lines, nil), "=")
	decoded, err := coding.AppendDecode(s.plain[:0], digits)
	s.plain = decoded
	if err != nil || !isPrintable(decoded) {
		return nil, false
	}
	plain := bytes.Clone(decoded)
	if looksLikeJSON(plain) {
		masked = s.json(0, plain, maxNested)
	} else {
		masked = s.text(0, plain, maxNested, anyTrait)
	}
	if masked == nil {
		return nil, true
	}
	for goesOn && len(masked)%3 != 0 {
		masked = append(masked, ' ')
	}
	if run[len(run)-1] == '=' || coding == base64.RawStdEncoding && len(digits)%4 == 0 { // it may need no padding
		coding = coding.WithPadding(base64.StdPadding)
	}
	width := len(lines[0])
	chunks := slices.Chunk(coding.AppendEncode(nil, masked), width)
	return bytes.Join(slices.Collect(chunks), run[width:skipSpace(run, width)]), true
}

// isPrintable reports whether bytes are text.
func isPrintable(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return isControl(r) || r >= 0x7f && unicode.IsControl(r) })
}

// isControl reports whether a character of ASCII does not occur in text.
func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }

// isCursor reports whether a string looks like an opaque position that the caller must send back unchanged.
func isCursor(text []byte) bool {
	return len(text) <= maxCursor && !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || !isBase64[r] && !strings.ContainsRune("=.:~%", r) })
}

// stringEnd returns the position of the quotation mark that ends a string whose content begins at i.
func stringEnd(source []byte, i int) int {
	for {
		quote := bytes.IndexByte(source[i:], '"')
		if quote < 0 {
			return len(source)
		}
		slash := bytes.IndexByte(source[i:i+quote], '\\')
		if slash < 0 {
			return i + quote
		}
		if i += slash + 2; i >= len(source) {
			return len(source)
		}
	}
}

func skipSpace(source []byte, i int) int {
	for i < len(source) && (source[i] == ' ' || source[i] == '\n' || source[i] == '\t' || source[i] == '\r') {
		i++
	}
	return i
}

// unquote decodes the escapes of a string. Content that is not valid stays as it is.
func unquote(content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	quoted := append(append(append(make([]byte, 0, len(content)+2), '"'), content...), '"')
	if decoded, err := jsontext.AppendUnquote(nil, quoted); err == nil || len(decoded) > 0 {
		return decoded
	}
	return content
}

// tableOf returns a table of bytes.
func tableOf(characters string) (table [256]bool) {
	for _, c := range []byte(characters) {
		table[c] = true
	}
	return table
}

const (
	digits  = "0123456789"
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Classes of bytes.
var (
	isNumber = tableOf(digits + "+-.eE")
	isBase64 = tableOf(digits + letters + "+/-_")
	isWord   = tableOf(digits + letters + "_")
	isDigit  = tableOf(digits)
	isLetter = tableOf(letters)
)
