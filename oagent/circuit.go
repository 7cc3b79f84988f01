package oagent

import (
	"bytes"
	"unicode/utf8"
)

// maxTail is how much of the latest calls short_circuit looks at, in bytes of a
// tail: that many calls of the first 92 names of an Engagement, or half or a
// third as many of others. A block that repeats N times is found if it has at
// most maxTail/N calls.
const maxTail = 4096

// A tail is the names of the latest calls, one character for each. Characters
// are in UTF-8, so that equal runs of bytes that begin with a character are equal
// runs of names.

// appendTail appends the call of the name of that number, from 0. It may change
// what lies behind the tail, as append does, not the tail.
func appendTail(tail []byte, id int) []byte {
	r := rune('#' + id)
	if r >= '\\' {
		r++ // what JSON escapes is not used
	}
	tail = utf8.AppendRune(tail, r)
	if more := len(tail) - maxTail; more > 0 {
		tail = tail[more:]
		for !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return tail
}

// maxNames is how many names there are characters for.
const maxNames = 0x8000

// repeats reports whether the tail ends in one block, of any length, n times in a
// row.
func repeats(tail []byte, n int) bool {
	if n < 2 || len(tail) < n {
		return false
	}
	end := len(tail)
	last, before := tail[end-1], tail[:end-1]
	for {
		i := bytes.LastIndexByte(before, last) // where the block before would end
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
