package wire

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"unicode/utf8"

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
	s.flush()
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
// content of a JSON string.
type scanner struct {
	data   []byte
	at     int // the position in data
	limit  int // of the nesting
	unique bool

	escape bool
	out    []byte
	copied int // the part of data that is in out

	names [][]byte // of the objects that are open, without quotes and escapes; filled if unique is set
}

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
	if *s = (scanner{}); len(names) <= maxKeptNames {
		s.names = names[:0]
	}
	scanners.Put(s)
}

// scan checks that data is one JSON value.
func (s *scanner) scan() bool {
	return s.value(0) && s.next() == 0 && s.at == len(s.data)
}

// next moves over white space and returns the byte after it. At the end it returns 0, which no
// JSON has outside of strings.
func (s *scanner) next() byte {
	if c := s.peek(); c > ' ' {
		return c
	}
	return s.nextAfterSpace()
}

// nextAfterSpace is next for a position that may have white space.
func (s *scanner) nextAfterSpace() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ':
			s.at++
		case '\n', '\t', '\r':
			s.pass(c)
		default:
			return c
		}
	}
	return 0
}

// peek returns the byte at the position, or 0 at the end, which no JSON has there.
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

// flush appends what was scanned since the last flush.
func (s *scanner) flush() {
	s.out = append(s.out, s.data[s.copied:s.at]...)
	s.copied = s.at
}

// pass moves over one byte that needs an escape.
func (s *scanner) pass(c byte) {
	if s.escape {
		s.flush()
		s.out = appendEscape(s.out, c)
		s.copied++
	}
	s.at++
}

// passQuote is pass for a quotation mark, the byte that JSON most often has. Between two of them
// there are usually few bytes, and copying 16 at once is faster than copying the exact number.
func (s *scanner) passQuote() {
	const most = 16
	from, n, end := s.copied, s.at-s.copied, len(s.out)
	if !s.escape || n > most || len(s.data)-from < most || cap(s.out)-end < most+2 {
		s.pass('"')
		return
	}
	s.out = s.out[:end+most+2]
	*(*[most]byte)(s.out[end:]) = [most]byte(s.data[from:])
	s.out[end+n], s.out[end+n+1] = '\\', '"'
	s.out = s.out[:end+n+2]
	s.at++
	s.copied = s.at
}

// value scans a value at the given level of nesting.
func (s *scanner) value(depth int) bool {
	switch c := s.next(); c {
	case '"':
		_, _, ok := s.text()
		return ok
	case '{':
		return depth < s.limit && s.object(depth+1)
	case '[':
		return depth < s.limit && s.array(depth+1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// object scans an object.
func (s *scanner) object(depth int) bool {
	s.at++
	if s.next() == '}' {
		s.at++
		return true
	}
	first := len(s.names) // the names before belong to the objects around this one
	var index nameIndex
	for {
		if s.next() != '"' {
			return false
		}
		name, plain, ok := s.text()
		if !ok || s.unique && !s.add(name, plain, first, &index) {
			return false
		}
		if s.next() != ':' {
			return false
		}
		s.at++
		if !s.value(depth) {
			return false
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			s.names = s.names[:first]
			return true
		default:
			return false
		}
	}
}

// array scans an array.
func (s *scanner) array(depth int) bool {
	s.at++
	if s.next() == ']' {
		s.at++
		return true
	}
	for {
		if !s.value(depth) {
			return false
		}
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return true
		default:
			return false
		}
	}
}

// literal scans the given word.
func (s *scanner) literal(word string) bool {
	if len(s.data)-s.at < len(word) || string(s.data[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// number scans a number (RFC 8259, section 6).
func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		return s.digits()
	}
	return true
}

// digits scans one digit or more.
func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.data) && s.data[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > start
}

// text scans a string. The returned content is without quotes, and still escaped; plain says that
// it has no escapes.
func (s *scanner) text() (content []byte, plain, ok bool) {
	s.passQuote()
	start := s.at
	plain = true
	for {
		// This is leadingPlain, without a call for strings that end in the first word.
		if len(s.data)-s.at >= 8 {
			special := specialBytes(binary.LittleEndian.Uint64(s.data[s.at:]))
			if special == 0 {
				s.at += 8
				continue
			}
			s.at += bits.TrailingZeros64(special) / 8
		} else {
			s.at += leadingPlain(s.data[s.at:])
		}
		switch c := s.peek(); {
		case c == '"':
			content = s.data[start:s.at]
			s.passQuote()
			return content, plain, true
		case c == '\\':
			plain = false
			if !s.escaped() {
				return nil, false, false
			}
		case c == 0x7f:
			s.pass(c)
		case c < utf8.RuneSelf:
			return nil, false, false // a control character, or the end
		default:
			if !s.rune() {
				return nil, false, false
			}
		}
	}
}

// rune scans a character that is not ASCII.
func (s *scanner) rune() bool {
	r, size := utf8.DecodeRune(s.data[s.at:])
	if r == utf8.RuneError && size == 1 {
		return false
	}
	if s.escape && isLineEnd(r) {
		s.flush()
		s.out = appendLineEnd(s.out, r)
		s.copied += size
	}
	s.at += size
	return true
}

// escaped scans an escape sequence of a string.
func (s *scanner) escaped() bool {
	s.pass('\\')
	switch c := s.peek(); c {
	case '"', '\\':
		s.pass(c)
		return true
	case '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return true
	case 'u':
	default:
		return false
	}
	s.at++
	r, ok := s.hex4()
	switch {
	case !ok || 0xdc00 <= r && r <= 0xdfff:
		return false
	case r < 0xd800 || r > 0xdbff:
		return true
	}
	// The first half of a surrogate pair. The second half must follow.
	if s.peek() != '\\' {
		return false
	}
	s.pass('\\')
	if s.peek() != 'u' {
		return false
	}
	s.at++
	r, ok = s.hex4()
	return ok && 0xdc00 <= r && r <= 0xdfff
}

// hex4 scans four hexadecimal digits.
func (s *scanner) hex4() (r rune, ok bool) {
	if len(s.data)-s.at < 4 {
		return 0, false
	}
	for _, c := range s.data[s.at : s.at+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.at += 4
	return r, true
}

// add adds a name to the names of the current object, which begin at first. It returns false if
// the object has the name already.
func (s *scanner) add(name []byte, plain bool, first int, index *nameIndex) bool {
	if !plain {
		quoted := s.data[s.at-len(name)-2 : s.at]
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

// A nameIndex finds the names of a large object by their hashes. The seed is random, so that a
// sender cannot choose names with equal hashes.
type nameIndex struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

// add adds a name that follows the given names. It returns false if it is one of them.
func (x *nameIndex) add(names [][]byte, name []byte) bool {
	if x.hashes == nil {
		x.seed = maphash.MakeSeed()
		x.hashes = make(map[uint64]struct{}, 2*namesInList)
		for _, earlier := range names {
			x.hashes[maphash.Bytes(x.seed, earlier)] = struct{}{}
		}
	}
	hash := maphash.Bytes(x.seed, name)
	if _, found := x.hashes[hash]; found {
		for _, earlier := range names {
			if string(earlier) == string(name) {
				return false
			}
		}
	}
	x.hashes[hash] = struct{}{}
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

// specialBytes sets the highest bit of each byte of a word that is not plain. Each term of the
// result stands for one kind of such bytes. Above the first one, a borrow may also set the bits of
// plain bytes, so only the lowest bit is exact.
func specialBytes(w uint64) uint64 {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash, del := w^(ones*'"'), w^(ones*'\\'), w^(ones*0x7f)
	return (w | (w-ones*' ')&^w |
		(quote-ones)&^quote | (backslash-ones)&^backslash | (del-ones)&^del) & highest
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
