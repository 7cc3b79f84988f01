package calllog

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
)

// Call is one tool call.
type Call = keptcall.Call

// parseID returns the node and the number of a call that was kept without an id.
func parseID(id string) (node string, number int64, ok bool) {
	dot := strings.LastIndexByte(id, '.')
	if dot < 1 {
		return "", 0, false
	}
	number, err := strconv.ParseInt(id[dot+1:], 10, 64)
	return id[:dot], number, err == nil && number > 0
}

// newestFirst orders calls in progress by their begin.
func newestFirst(a, b Call) int {
	return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Node, a.Node))
}

// appendLower appends data to dst, with ASCII letters in lower case.
func appendLower(dst, data []byte) []byte {
	const each = 0x0101010101010101 // eight bytes at a time: a search does this with all lines
	for ; len(data) >= 8; data = data[8:] {
		word := binary.LittleEndian.Uint64(data)
		low := word & (0x7f * each)
		upper := (low + (0x80-'A')*each) &^ (low + (0x7f-'Z')*each) &^ word & (0x80 * each) // the high bit of each byte from A to Z
		dst = binary.LittleEndian.AppendUint64(dst, word|upper>>2)
	}
	for _, c := range data {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
