package inspect

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
)

// Bounds of what a detector reads inside of a string.
const (
	maxNested = 3        // levels of JSON, or base64, in strings
	minBase64 = 24       // characters
	maxBase64 = 64 << 10 // characters
	maxCursor = 2 << 10  // bytes of an opaque cursor
	maxLabels = 16       // different labels of one message
	maxKnown  = 256      // names of members that are looked up
)

// A Hit is a part of a text that a Detector has found.
type Hit struct {
	Start, End int
	Label      string // "email"; replaces the part, in brackets
	Whole      string // replaces the part if it is the whole text; "" for the label. It keeps formats of JSON Schema valid
}

// A Detector finds values in texts.
type Detector interface {
	// Find appends what it finds in a text, ordered, without overlaps. Name is the name of the JSON member that has the
	// text, in lower case, or "".
	Find(hits []Hit, name string, text []byte) []Hit
}

// Detect returns the inspector that masks what a detector finds. With reject, it rejects messages with a hit.
//
// In JSON, it reads the decoded names and strings, and numbers. It also reads JSON in strings, and text in base64.
// A masked string stays a string, and a masked number becomes 0. Everything else keeps its bytes.
func Detect(d Detector, reject bool) Inspector { return &detection{d, reject} }

type detection struct {
	detector Detector
	reject   bool
}

// Inspect implements Inspector.
func (d *detection) Inspect(_ context.Context, m *Message) (Verdict, error) {
	s := search{detector: d.detector, first: d.reject}
	var masked []byte
	body := m.Body
	isJSON := m.JSON || looksLikeJSON(body)
	if isJSON {
		masked = s.json(body, 0)
	}
	if !isJSON || !s.stop() && !m.valid() { // values may be outside of strings
		if masked != nil {
			body = masked
		}
		if text := s.text("", body, 0); text != nil {
			masked = text
		}
	}
	if masked == nil {
		return Verdict{}, nil
	}
	slices.Sort(s.labels)
	return Verdict{Rejected: d.reject, Body: masked, Labels: s.labels}, nil
}

// FindsIn reports whether an inspector of the chain that inspects results finds something in a text. Webhooks are not called.
func (c Chain) FindsIn(text string) bool {
	return slices.ContainsFunc(c, func(step Step) bool {
		d, ok := step.Inspector.(*detection)
		return ok && slices.Contains(step.Phases, Result) && len(d.detector.Find(nil, "", []byte(text))) > 0
	})
}

// looksLikeJSON reports whether a text is an object or array, or several of them.
func looksLikeJSON(body []byte) bool {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	return len(body) > 1 && (body[0] == '{' || body[0] == '[')
}

// A search is one pass of a detector over a message.
type search struct {
	detector Detector
	first    bool // stop at the first hit
	labels   []string
	inName   bool              // the text is the name of a member
	names    int               // member names that were masked
	known    map[string]string // names without hits, in the form for detectors
	hits     []Hit             // reused
	plain    []byte            // reused by encoded
}

func (s *search) note(label string) {
	if len(s.labels) < maxLabels && !slices.Contains(s.labels, label) {
		s.labels = append(s.labels, label)
	}
}

// stop reports whether the rest need not be read.
func (s *search) stop() bool { return s.first && len(s.labels) > 0 }

// json returns JSON with the hits masked, nil if there are none. The text need not be valid: everything that a parser may
// take for a string is read as one.
func (s *search) json(source []byte, depth int) []byte {
	var out []byte
	copied := 0
	replace := func(from, to int, with []byte) {
		out = append(append(out, source[copied:from]...), with...)
		copied = to
	}
	name, object := "", false // the member of the current value
	for i := 0; i < len(source) && !s.stop(); {
		switch c := source[i]; {
		case c == '"':
			end := stringEnd(source, i+1)
			content := source[i+1 : end]
			if after := skipSpace(source, end+1); after < len(source) && source[after] == ':' {
				var masked []byte
				if name, masked = s.member(content); masked != nil {
					replace(i, min(end+1, len(source)), strictjson.AppendString(nil, s.uniqueName(masked)))
				}
				object, i = true, after+1
				continue
			}
			if masked := s.value(name, unquote(content), depth); masked != nil {
				replace(i, min(end+1, len(source)), strictjson.AppendString(nil, masked))
			}
			i = end + 1
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(source) && isNumber[source[end]] {
				end++
			}
			if s.isHit(name, source[i:end]) {
				replace(i, end, []byte("0"))
			}
			i = end
		case c == '{' || c == '}' || c == ',' && object:
			name, object = "", c != ','
			i++
		default:
			object = object && c != '['
			i++
		}
	}
	if out == nil {
		return nil
	}
	return append(out, source[copied:]...)
}

// member reads the name of a member. It returns the name in the form for detectors, and the masked name, nil if it has no hits.
func (s *search) member(content []byte) (name string, masked []byte) {
	if known, ok := s.known[string(content)]; ok {
		return known, nil
	}
	decoded := unquote(content)
	name = lowerName(decoded)
	s.inName = true
	masked = s.text("", decoded, maxNested)
	if s.inName = false; masked == nil && len(s.known) < maxKnown {
		if s.known == nil {
			s.known = make(map[string]string)
		}
		s.known[string(content)] = name
	}
	return name, masked
}

// uniqueName returns a masked name that no other masked name equals, since the names of an object must be different.
func (s *search) uniqueName(masked []byte) []byte {
	if s.names++; s.names == 1 {
		return masked
	}
	return append(append(append(masked, " ("...), strconv.Itoa(s.names)...), ')')
}

// isHit reports whether there is a hit in a number.
func (s *search) isHit(name string, number []byte) bool {
	if s.hits = s.detector.Find(s.hits[:0], name, number); len(s.hits) == 0 {
		return false
	}
	s.note(s.hits[0].Label)
	return true
}

// value is text for a string of JSON.
func (s *search) value(name string, text []byte, depth int) []byte {
	switch {
	case isCursor(name, text):
		return nil
	case depth < maxNested && looksLikeJSON(text) && strictjson.Valid(text):
		return s.json(text, depth+1)
	}
	return s.text(name, text, depth)
}

// text returns a text with the hits masked, nil if there are none.
func (s *search) text(name string, text []byte, depth int) []byte {
	if len(text) < 2 {
		return nil
	}
	var out []byte
	if s.hits = s.detector.Find(s.hits[:0], name, text); len(s.hits) > 0 {
		copied := 0
		for _, h := range s.hits {
			s.note(h.Label)
			out = append(out, text[copied:h.Start]...)
			if copied = h.End; h.Whole != "" && !s.inName && h.Start == 0 && h.End == len(text) {
				out = append(out, h.Whole...)
				continue
			}
			out = append(append(append(out, '['), h.Label...), ']')
		}
		out = append(out, text[copied:]...)
		text = out
	}
	if len(text) >= minBase64 && depth < maxNested && !s.stop() {
		if decoded := s.base64(text); decoded != nil {
			return decoded
		}
	}
	return out
}

// base64 returns a text in which the runs of base64 with a hit are masked and encoded again, nil if there are none.
func (s *search) base64(text []byte) []byte {
	var out []byte
	copied := 0
	for i := 0; i+minBase64 <= len(text); {
		if last := lastOther(text[i : i+minBase64]); last >= 0 { // no run begins before the byte after it
			i += last + 1
			continue
		}
		end := i + minBase64
		for end < len(text) && isBase64[text[end]] {
			end++
		}
		run := text[i:end]
		for end < len(text) && text[end] == '=' {
			end++
		}
		if masked := s.encoded(run, end > i+len(run)); masked != nil {
			out = append(append(out, text[copied:i]...), masked...)
			copied = end
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

// encoded masks the hits of one run of base64, without its padding. It returns nil if there are none.
func (s *search) encoded(run []byte, padded bool) []byte {
	if len(run) > maxBase64 {
		return nil
	}
	coding := base64.RawStdEncoding
	if bytes.ContainsAny(run, "-_") {
		coding = base64.RawURLEncoding
	}
	decoded, err := coding.AppendDecode(s.plain[:0], run)
	if s.plain = decoded; err != nil || !isPrintable(decoded) {
		return nil
	}
	plain := bytes.Clone(decoded)
	var masked []byte
	if looksLikeJSON(plain) {
		masked = s.json(plain, maxNested)
	} else {
		masked = s.text("", plain, maxNested)
	}
	if masked == nil {
		return nil
	}
	if padded {
		coding = coding.WithPadding(base64.StdPadding)
	}
	return coding.AppendEncode(nil, masked)
}

// isPrintable reports whether bytes are text.
func isPrintable(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' })
}

// cursors end the names of members whose values are opaque positions, in lower case without - and _.
var cursors = [...]string{"cursor", "requeststate", "pagetoken", "continuationtoken", "synctoken", "deltatoken"}

// isCursor reports whether a string is an opaque position that the caller must send back unchanged.
func isCursor(name string, text []byte) bool {
	if len(name) < 6 || len(text) > maxCursor || !slices.ContainsFunc(cursors[:], func(end string) bool { return strings.HasSuffix(name, end) }) {
		return false
	}
	return !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || !isBase64[r] && !strings.ContainsRune("=.:~%", r) })
}

// lowerName returns the name of a member in the form in which detectors get it.
func lowerName(name []byte) string {
	lower := make([]byte, 0, len(name))
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			lower = append(lower, c+'a'-'A')
		case c != '_' && c != '-' && c != ' ':
			lower = append(lower, c)
		}
	}
	return string(lower)
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
