package engagement

import (
	"bytes"
	"hash/fnv"
	"unicode/utf8"
)

// maxTail is the maximum size of a tail in bytes. It limits how many of the latest calls
// short_circuit can check: 4096 calls of the first 92 names of an Engagement, and a half or a third as
// many of other names, because their characters take 2 or 3 bytes. A block that repeats N times is
// found if it has at most maxTail/N bytes.
const maxTail = 4096

// A tail encodes the names of the latest calls, one UTF-8 character for each call. Because
// UTF-8 is self-synchronizing, equal runs of bytes that begin at a character are equal runs of
// names.

// appendTail appends the call of the name with that index, which counts from 0. Like append,
// it may write to the spare capacity of tail, but it does not change tail itself.
func appendTail(tail []byte, id int) []byte {
	r := rune('#' + id)
	if r >= '\\' {
		r++ // skip the backslash, which JSON escapes
	}
	return appendCharacter(tail, r)
}

// appendRefused appends a refused call. Its name may not be in State.Names, so the character is a hash of
// the name, in the private use area, which appendTail does not reach.
func appendRefused(tail []byte, name string) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return appendCharacter(tail, firstRefused+rune(h.Sum32()%refusedCharacters))
}

const firstRefused, refusedCharacters = 0xe000, 0x1900 // U+E000 to U+F8FF

// withoutRefused returns the tail without refused calls. It returns tail itself if there are none.
func withoutRefused(tail []byte) []byte {
	if !bytes.ContainsFunc(tail, isRefused) {
		return tail
	}
	return bytes.Map(func(r rune) rune {
		if isRefused(r) {
			return -1
		}
		return r
	}, tail)
}

func isRefused(r rune) bool { return r >= firstRefused }

func appendCharacter(tail []byte, r rune) []byte {
	tail = utf8.AppendRune(tail, r)
	if more := len(tail) - maxTail; more > 0 {
		tail = tail[more:]
		for !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return tail
}

// maxNames is the number of names that can be encoded as characters.
const maxNames = 0x8000

// repeats reports whether the tail ends with the same block n times in a row. The block may
// have any length. For n = 3, "ababab" repeats the block "ab" (OpenAgentSpec v1, lifespan,
// short_circuit).
func repeats(tail []byte, n int) bool {
	if n < 2 || len(tail) < n {
		return false
	}
	end := len(tail)
	last, before := tail[end-1], tail[:end-1]
	for {
		i := bytes.LastIndexByte(before, last) // where the previous block would end
		if i < 0 {
			return false
		}
		before = before[:i]
		length := end - 1 - i
		start := end - n*length
		if start < 0 {
			return false
		}
		if utf8.RuneStart(tail[start]) && bytes.Equal(tail[start:end-length], tail[start+length:]) {
			return true
		}
	}
}
