package strictjson

import (
	"bytes"
	"hash/maphash"
	"slices"
	"unicode/utf8"
)

// rune scans a character that is not ASCII.
func (s *scanner) rune(i int) int {
	r, size := utf8.DecodeRune(s.data[i:])
	if r == utf8.RuneError && size == 1 {
		return invalid
	}
	if s.escape && isLineEnd(r) {
		s.flush(i)
		s.out = appendLineEnd(s.out, r)
		s.copied += size
	}
	return i + size
}

// escaped scans the escape sequence at i.
func (s *scanner) escaped(i int) int {
	i = s.pass(i, '\\')
	if i >= len(s.data) {
		return invalid
	}
	switch c := s.data[i]; c {
	case '"', '\\':
		return s.pass(i, c)
	case '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
	default:
		return invalid
	}
	r, i := s.hex4(i + 1)
	switch {
	case i == invalid || 0xdc00 <= r && r <= 0xdfff:
		return invalid
	case r < 0xd800 || r > 0xdbff:
		return i
	}
	// The first half of a surrogate pair. The second half must follow.
	if len(s.data)-i < 2 || s.data[i] != '\\' || s.data[i+1] != 'u' {
		return invalid
	}
	s.pass(i, '\\')
	if r, i = s.hex4(i + 2); r < 0xdc00 || r > 0xdfff {
		return invalid
	}
	return i
}

// hex4 reads four hexadecimal digits.
func (s *scanner) hex4(i int) (r rune, end int) {
	if len(s.data)-i < 4 {
		return 0, invalid
	}
	for _, c := range s.data[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, invalid
		}
		r = r<<4 | rune(c)
	}
	return r, i + 4
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
	if _, found := x.hashes[hash]; found && slices.ContainsFunc(names, func(earlier []byte) bool { return bytes.Equal(earlier, name) }) {
		return false
	}
	x.hashes[hash] = struct{}{}
	return true
}
