package engagement

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func tailOf(ids []int) []byte {
	var tail []byte
	for _, id := range ids {
		tail = appendTail(tail, id)
	}
	return tail
}

// naive is the rule as it is written.
func naive(ids []int, n int) bool {
	for length := 1; n > 1 && length*n <= len(ids); length++ {
		block := ids[len(ids)-length:]
		same := true
		for i := 1; i < n && same; i++ {
			end := len(ids) - i*length
			same = slices.Equal(ids[end-length:end], block)
		}
		if same {
			return true
		}
	}
	return false
}

func TestRepeats(t *testing.T) {
	for _, test := range []struct {
		calls string
		n     int
		want  bool
	}{
		{"", 2, false},
		{"a", 2, false},
		{"aa", 3, false},
		{"aaa", 3, true}, // the text's first example
		{"ababa", 3, false},
		{"ababab", 3, true}, // the text's second example
		{"xababab", 3, true},
		{"abababx", 3, false},
		{"aab", 2, false},
		{"aabaab", 2, true},
		{"abcabcabcabc", 4, true},
		{"abcabcabcabc", 5, false},
		{"abcdabce", 2, false},
		{strings.Repeat("abcdefghij", 3), 3, true},
	} {
		var ids []int
		for _, c := range test.calls {
			ids = append(ids, int(c-'a'))
		}
		if got := repeats(tailOf(ids), test.n); got != test.want || naive(ids, test.n) != test.want {
			t.Errorf("%q, %d: got %v", test.calls, test.n, got)
		}
	}
}

// TestRepeats_like_rule compares with the rule as it is written, for names that are
// one byte of a tail, and for others whose bytes are alike.
func TestRepeats_like_rule(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sets := [][]int{{0, 1}, {0, 1, 2}, {0, 92, 200}, {0x2000 - 0x24, 0x2001 - 0x24, 0x1000 - 0x24}, {56, 57, 91, 92}, {0x100, 0x140, 0x180, 0x101}}
	for range 20000 {
		set := sets[random.IntN(len(sets))]
		var ids []int
		for range random.IntN(24) {
			ids = append(ids, set[random.IntN(len(set))])
		}
		n := 2 + random.IntN(3)
		if got := repeats(tailOf(ids), n); got != naive(ids, n) {
			t.Fatalf("%v, %d: got %v", ids, n, got)
		}
	}
}

func TestTail_is_bounded(t *testing.T) {
	for _, id := range []int{5, 500, maxNames - 1} {
		var tail []byte
		for i := range 3 * maxTail {
			tail = appendTail(tail, id+i%2*(1-i%3))
			if len(tail) > maxTail {
				t.Fatalf("a tail of %d bytes", len(tail))
			}
		}
		if len(tail) < maxTail-3 {
			t.Errorf("a tail of %d bytes", len(tail))
		}
	}
}

func BenchmarkRepeats(b *testing.B) {
	// Without a repetition, and many beginnings of one.
	var ids []int
	for i := range maxTail {
		ids = append(ids, int(uint(i)*2654435761>>7)%3+i%2)
	}
	tail := tailOf(ids)
	for b.Loop() {
		repeats(tail, 3)
	}
}
