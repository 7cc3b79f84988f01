package request

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A writer is the state of one call of Append.
type writer struct {
	param *Serializer
	dst   []byte
	start int // where the parameter starts in dst
	parts int // number of parts written
}

func (w *writer) write(value jsontext.Value) error {
	value = bytes.Trim(value, " \t\r\n")
	if len(value) == 0 {
		return w.param.malformed()
	}
	if value[0] == 'n' {
		return nil
	}
	nested := value[0] == '[' || value[0] == '{'
	if nested && strictjson.CheckDepth(value, MaxDepth) != nil {
		return w.param.refuse("nests deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	switch {
	case !nested || w.param.content:
		return w.single(value)
	case w.param.layout.deep:
		var short [128]byte
		return w.deep(append(short[:0], w.param.key...), value)
	case w.param.explode:
		return w.exploded(value)
	}
	return w.list(value)
}

// single writes a value as a whole.
func (w *writer) single(value jsontext.Value) error {
	w.part()
	if !w.param.layout.named {
		return w.piece(value, w.param.values)
	}
	return w.pair(w.param.key, value)
}

// pair writes key=value.
func (w *writer) pair(key []byte, value jsontext.Value) error {
	w.dst = append(w.dst, key...)
	return w.equals(value, w.param.values)
}

func (w *writer) equals(value jsontext.Value, e escape) error {
	w.dst = append(w.dst, '=')
	mark := len(w.dst)
	if err := w.piece(value, e); err != nil {
		return err
	}
	w.dropBareEquals(mark)
	return nil
}

// dropBareEquals removes the "=" before mark if no value follows and the layout omits
// it in that case.
func (w *writer) dropBareEquals(mark int) {
	if w.param.layout.bareEmpty && len(w.dst) == mark {
		w.dst = w.dst[:mark-1]
	}
}

// part writes the text before a part: the style's prefix, or the separator.
func (w *writer) part() {
	if w.parts++; w.parts == 1 {
		w.dst = append(w.dst, w.param.layout.first...)
		return
	}
	w.dst = append(w.dst, w.param.layout.between...)
}

// piece writes the text of one value between delimiters.
func (w *writer) piece(value jsontext.Value, e escape) error {
	dst, err := w.param.text(w.dst, value, e)
	if err != nil {
		return err
	}
	w.dst = dst
	if len(dst)-w.start > w.param.maxLength {
		return w.param.tooLong()
	}
	return nil
}

// text appends the text of one value, checked and escaped: the content of a string, the
// literal of a number or boolean, or compact JSON for anything else.
func (s *Serializer) text(dst []byte, value jsontext.Value, e escape) ([]byte, error) {
	verbatim := s.content && s.json
	if text, ok := literal(value); ok && !verbatim {
		if s.in == Header {
			text = bytes.Trim(text, " ")
		}
		if problem := s.problemOf(text); problem != "" {
			return dst, s.refuse(problem)
		}
		return e.append(dst, text), nil
	}

	// Text that must be decoded is first decoded at the end of dst. The escaped form
	// is appended after it and then moved over the decoded text.
	mark := len(dst)
	var err error
	if value[0] == '"' && !verbatim {
		if dst, err = jsontext.AppendUnquote(dst, value); err != nil {
			return dst[:mark], s.malformed()
		}
	} else {
		dst = appendCompact(dst, value, s.in == Header)
	}
	text := dst[mark:]
	end := len(dst)
	if s.in == Header {
		text = bytes.Trim(text, " ")
	}
	if problem := s.problemOf(text); problem != "" {
		return dst[:mark], s.refuse(problem)
	}
	dst = e.append(dst, text)
	return dst[:mark+copy(dst[mark:], dst[end:])], nil
}

// literal returns the text of a value that needs no decoding.
func literal(value jsontext.Value) ([]byte, bool) {
	switch value[0] {
	case '[', '{':
		return nil, false
	case '"':
		if len(value) < 2 || value[len(value)-1] != '"' || bytes.IndexByte(value, '\\') >= 0 {
			return nil, false
		}
		return value[1 : len(value)-1], true
	}
	return value, true
}

func (w *writer) finish() error {
	text := w.dst[w.start:]
	if w.param.segments != "" {
		text = divide(text)
		w.dst = w.dst[:w.start+len(text)]
		if !w.param.HasSegments(string(text)) {
			return w.param.refuse(w.param.problemSegments())
		}
	}
	if w.param.in == Path && !isHarmless(text) {
		return w.param.checkSegment(text)
	}
	return nil
}

func (s *Serializer) malformed() error {
	return s.refuse("is not valid JSON")
}

func (s *Serializer) tooLong() error {
	return s.refuse("is too long: at most " + strconv.Itoa(s.maxLength) + " bytes can be sent, escapes included")
}

// Append appends the text of value, which must be valid JSON.
//
//   - Path: the text replaces {name} and includes the style's prefix. A plain slash is
//     encoded, unless it is between two segments of a parameter that has Segments. Text that could leave the segment or change the path is rejected, even
//     if it does so only after an upstream decodes it twice: empty or blank text, "."
//     and ".." segments, control characters, slashes that are already percent-encoded.
//   - Query and form body: pairs joined by "&", without a leading "?" or "&". A space
//     is written as %20, which every form decoder accepts.
//   - Header: the value of the line. Space around each value is removed, since every
//     server removes it. Control characters are rejected. Non-ASCII text is
//     percent-encoded as in RFC 6570, since servers read it in different ways or not
//     at all. ASCII text stays unchanged, except commas inside items.
//   - Cookie: pairs joined by "; ", one per item or property of an exploded value.
//     Characters that a cookie cannot contain are encoded.
//
// Null, an empty array and an empty object are absent values (RFC 6570, section 2.3).
// Null items and properties are left out. For an absent value or an empty header,
// nothing is appended, and the caller must omit the pair, header or cookie. A path
// parameter cannot be absent: such values are rejected.
//
// Items and properties that are arrays or objects are written as compact JSON and then
// escaped like other text. OpenAPI does not define this case. Exceptions: deepObject, and
// arrays in an exploded object of a query or form.
//
// The error is an *Error; dst is then returned unchanged.
func (s *Serializer) Append(dst []byte, value jsontext.Value) ([]byte, error) {
	w := writer{param: s, dst: dst, start: len(dst)}
	if err := w.write(value); err != nil {
		return dst, err
	}
	if err := w.finish(); err != nil {
		return dst, err
	}
	return w.dst, nil
}

func (s *Serializer) refuse(problem string) error {
	return &Error{In: s.in, Name: s.name, Problem: problem}
}

// An escape percent-encodes the text of a value.
type escape struct {
	plain *set

	// triples keeps existing %XX sequences, like reserved expansion (RFC 6570, section
	// 3.2.3).
	triples bool

	// whole encodes "%" only if something else in the text needs encoding. An ASCII
	// header value then stays unchanged, and any other value can be decoded.
	whole bool
}

// append appends text, escaped.
func (e escape) append(dst, text []byte) []byte {
	start := 0
	plain := e.plain
	if e.whole && !plain.all(text) {
		encoded := *plain
		encoded['%'] = false
		plain = &encoded
	}
	for i := range text {
		c := text[i]
		if plain[c] || e.triples && isTriple(text[i:]) {
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = append(dst, '%', upperHexDigits[c>>4], upperHexDigits[c&0xf])
		start = i + 1
	}
	return append(dst, text[start:]...)
}

// all reports whether every byte of text is in the set.
func (s *set) all(text []byte) bool {
	for _, c := range text {
		if !s[c] {
			return false
		}
	}
	return true
}

// problemOf returns why the parameter cannot contain the text, or "" if it can.
func (s *Serializer) problemOf(text []byte) string {
	switch s.in {
	case Header:
		if hasControl(text, false) {
			return problemControl
		}
	case Path:
		switch {
		case isHarmless(text):
			return ""
		case hasControl(text, false), hasControl(text, true):
			return problemControl
		case hasEncodedSlash(text):
			return problemSlash
		case HasDotSegment(text, false), HasDotSegment(text, true):
			return problemDots
		}
	}
	return ""
}

func isTriple(text []byte) bool {
	return len(text) >= 3 && text[0] == '%' && unhex(text[1]) >= 0 && unhex(text[2]) >= 0
}

// isHarmless reports whether text has only unreserved characters and is not only dots.
// This is true of almost every path value, and such text needs no further checks.
func isHarmless(text []byte) bool {
	dots := true
	for _, c := range text {
		if !unreservedSet[c] {
			return false
		}
		dots = dots && c == '.'
	}
	return !dots
}

// IsPlainPath reports whether the path is the same escaped and unescaped.
func IsPlainPath(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '/', c == '-', c == '_', c == '.', c == '~':
		default:
			return false
		}
	}
	return true
}

// Segments returns the number of segments that the parameter has, as in Param.
func (s *Serializer) Segments() string { return s.segments }

// HasSegments reports whether an escaped value matches the pattern of the parameter, if it has one.
func (s *Serializer) HasSegments(escaped string) bool {
	return s.pattern == nil || s.pattern.MatchString(escaped)
}
