package strictjson

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendChecked appends data as a JSON string, as AppendString does, and checks in the same pass
// that data is Unambiguous. If it is not, AppendChecked returns dst unchanged and false.
func AppendChecked(dst, data []byte) (b []byte, ok bool) {
	s := newScanner(data, maxPassedDepth, true)
	defer s.free()
	s.escape, s.out = true, append(dst, '"')
	if !s.scan() {
		return dst, false
	}
	s.flush(len(data))
	return append(s.out, '"'), true
}

// isStrict reports whether data is one JSON value in valid UTF-8 that nests at most limit levels
// deep. If unique is set, no object may have a name twice.
func isStrict(data []byte, limit int, unique bool) bool {
	s := newScanner(data, limit, unique)
	defer s.free()
	return s.scan()
}

// namesInList is how many names of one object are compared one by one. The names of a larger
// object are looked up by their hashes, so that the time stays linear.
const namesInList = 24

// maxKeptNames is the largest capacity of the list of names in a scanner that is reused.
const maxKeptNames = 128

// A scanner checks JSON in one pass. If escape is set, it also appends the JSON to out as the
// content of a JSON string. Its methods take a position in data and return the next one, so that the
// position stays in a register: that is a third of the time of a field.
type scanner struct {
	data   []byte
	limit  int // of the nesting
	unique bool

	escape bool
	out    []byte
	copied int // the part of data that is in out

	names [][]byte // of the objects that are open, without quotes and escapes; filled if unique is set
}

// invalid is the next position after JSON that is not valid.
const invalid = -1

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// newScanner returns a scanner from the pool. The caller must call free.
func newScanner(data []byte, limit int, unique bool) *scanner {
	s := scanners.Get().(*scanner)
	s.data, s.limit, s.unique = data, limit, unique
	return s
}

// free returns the scanner to the pool, without what it has scanned.
func (s *scanner) free() {
	names := s.names[:cap(s.names)]
	clear(names)
	*s = (scanner{})
	if len(names) <= maxKeptNames {
		s.names = names[:0]
	}
	scanners.Put(s)
}

// scan checks that data is one JSON value.
func (s *scanner) scan() bool {
	i := s.value(s.space(0), 0)
	return i != invalid && s.space(i) == len(s.data)
}

// space returns the position after white space.
func (s *scanner) space(i int) int {
	for i < len(s.data) {
		switch c := s.data[i]; c {
		case ' ':
			i++
		case '\n', '\t', '\r':
			i = s.pass(i, c)
		default:
			return i
		}
	}
	return i
}

// flush appends what was scanned since the last flush, up to position i.
func (s *scanner) flush(i int) {
	s.out = append(s.out, s.data[s.copied:i]...)
	s.copied = i
}

// pass moves over one byte that needs an escape.
func (s *scanner) pass(i int, c byte) int {
	if s.escape {
		s.flush(i)
		s.out = appendEscape(s.out, c)
		s.copied++
	}
	return i + 1
}

// passText copies a string without escapes, whose quotes are at from and to, and what precedes it. In
// JSON both are usually short, and copying 16 bytes at once is faster than copying the exact number.
func (s *scanner) passText(from, to int) {
	const most = 16
	before, n, end := from-s.copied, to-from-1, len(s.out)
	if before > most || n > most || len(s.data)-from <= most || cap(s.out)-end < 2*(most+2) {
		s.pass(from, '"')
		s.pass(to, '"')
		return
	}
	out := s.out[end : end+2*(most+2)]
	*(*[most]byte)(out) = [most]byte(s.data[s.copied:])
	out[before], out[before+1] = '\\', '"'
	out = out[before+2:]
	*(*[most]byte)(out) = [most]byte(s.data[from+1:])
	out[n], out[n+1] = '\\', '"'
	s.out = s.out[:end+before+n+4]
	s.copied = to + 1
}

// value scans the value at i, at the given level of nesting.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.data) {
		return invalid
	}
	switch s.data[i] {
	case '"':
		i, _ = s.text(i)
		return i
	case '{':
		if depth < s.limit {
			return s.object(i+1, depth+1)
		}
	case '[':
		if depth < s.limit {
			return s.array(i+1, depth+1)
		}
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		return s.number(i)
	}
	return invalid
}

// object scans an object after its opening bracket.
func (s *scanner) object(i, depth int) int {
	if i = s.space(i); i < len(s.data) && s.data[i] == '}' {
		return i + 1
	}
	first := len(s.names) // the names before belong to the objects around this one
	var index nameIndex
	for {
		if i >= len(s.data) || s.data[i] != '"' {
			return invalid
		}
		end, plain := s.text(i)
		if end == invalid || s.unique && !s.add(s.data[i:end], plain, first, &index) {
			return invalid
		}
		if end >= len(s.data) || s.data[end] != ':' {
			if end = s.space(end); end >= len(s.data) || s.data[end] != ':' {
				return invalid
			}
		}
		if i = end + 1; i < len(s.data) && s.data[i] <= ' ' {
			i = s.space(i)
		}
		if i = s.value(i, depth); i == invalid {
			return invalid
		}
		if i < len(s.data) && s.data[i] <= ' ' {
			i = s.space(i)
		}
		if i >= len(s.data) {
			return invalid
		}
		switch s.data[i] {
		case ',':
			if i++; i < len(s.data) && s.data[i] <= ' ' {
				i = s.space(i)
			}
		case '}':
			s.names = s.names[:first]
			return i + 1
		default:
			return invalid
		}
	}
}

// array scans an array after its opening bracket.
func (s *scanner) array(i, depth int) int {
	if i = s.space(i); i < len(s.data) && s.data[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i == invalid {
			return invalid
		}
		if i = s.space(i); i >= len(s.data) {
			return invalid
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return invalid
		}
	}
}

// literal scans the given word.
func (s *scanner) literal(i int, word string) int {
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return invalid
	}
	return i + len(word)
}

// number scans a number (RFC 8259, section 6).
func (s *scanner) number(i int) int {
	data := s.data
	if data[i] == '-' {
		i++
	}
	start := i
	if i = digits(data, i); i == start || data[start] == '0' && i > start+1 {
		return invalid
	}
	if i < len(data) && data[i] == '.' {
		start = i + 1
		if i = digits(data, start); i == start {
			return invalid
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		start = i
		if i = digits(data, start); i == start {
			return invalid
		}
	}
	return i
}

// digits returns the position after the digits at i.
func digits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}

// text scans the string at i; plain says that it has no escapes.
func (s *scanner) text(i int) (end int, plain bool) {
	data := s.data
	at := i + 1
	for len(data)-at >= 8 {
		special := specialBytes(binary.LittleEndian.Uint64(data[at:]))
		if special == 0 {
			at += 8
			continue
		}
		if at += bits.TrailingZeros64(special) / 8; data[at] != '"' {
			break
		}
		if s.escape {
			s.passText(i, at)
		}
		return at + 1, true
	}
	s.pass(i, '"')
	return s.restOfText(at)
}

// restOfText scans a string from its first byte that is not plain, or close to the end of data.
func (s *scanner) restOfText(i int) (end int, plain bool) {
	plain = true
	for {
		if i += leadingPlain(s.data[i:]); i >= len(s.data) {
			return invalid, false
		}
		switch c := s.data[i]; {
		case c == '"':
			return s.pass(i, c), plain
		case c == '\\':
			plain = false
			i = s.escaped(i)
		case c == 0x7f:
			i = s.pass(i, c)
		case c < ' ':
			return invalid, false
		default:
			i = s.rune(i)
		}
		if i == invalid {
			return invalid, false
		}
	}
}

// add adds a name, given in quotes, to the names of the current object, which begin at first. It
// returns false if the object has the name already.
func (s *scanner) add(quoted []byte, plain bool, first int, index *nameIndex) bool {
	name := quoted[1 : len(quoted)-1]
	if !plain {
		name, _ = jsontext.AppendUnquote(nil, quoted) // text has checked it
	}
	if len(s.names)-first < namesInList {
		for _, other := range s.names[first:] {
			if len(other) == len(name) && string(other) == string(name) {
				return false
			}
		}
	} else if !index.add(s.names[first:], name) {
		return false
	}
	s.names = append(s.names, name)
	return true
}

// leadingPlain returns the number of leading bytes of s that need no escape in a JSON string. It
// stops at bytes that are not ASCII.
func leadingPlain(s []byte) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		if special := specialBytes(binary.LittleEndian.Uint64(s[n:])); special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	for n < len(s) && plain[s[n]] {
		n++
	}
	return n
}

// specialBytes sets the highest bit of each byte of a word that is not plain. The last terms of the
// result stand for quotes and backslashes. Above the first special byte, a carry or borrow may also set
// the bits of plain bytes, so only the lowest bit is exact.
func specialBytes(w uint64) uint64 {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	return notPrintable(w) | (((w^ones*'"')-ones)|((w^ones*'\\')-ones))&highest
}

// notPrintable sets the highest bit of each byte of a word that is not ASCII, DEL or a control
// character. Only the lowest bit is exact, as in specialBytes.
func notPrintable(w uint64) uint64 {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	return (w | (w + ones) | (w - ones*' ')) & highest
}

// equalBytes sets the highest bit of each byte of w that equals that byte of other. All bits are exact.
func equalBytes(w, other uint64) uint64 {
	const lower = 0x7f7f7f7f7f7f7f7f
	differing := w ^ other
	return ^((differing&lower + lower) | differing | lower)
}

// plain has true for the bytes that need no escape inside a JSON string.
var plain = func() (table [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// Check returns an error if data is not exactly one strict JSON value, or nests deeper than
// MaxDepth. A Walk can iterate over data that passes.
func Check(data []byte) error {
	if isStrict(data, MaxDepth, true) {
		return nil
	}
	// The reader is slower, and says what is wrong.
	if err := CheckDepth(data, MaxDepth); err != nil {
		return err
	}
	r := newReader(data)
	defer r.free()
	if _, err := r.ReadValue(); err != nil {
		return err
	}
	return r.expectEnd()
}

// Valid reports whether data is one JSON value in valid UTF-8. Objects may have a name twice:
// use Valid for responses that are only passed on, not for messages that decisions depend on.
func Valid(data []byte) bool {
	return isStrict(data, maxPassedDepth, false)
}

// appendEscape appends the JSON escape of one byte.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}
