package buffer

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, test := range []struct {
		name   string
		source io.Reader
		limit  int64
		want   error
	}{
		{"all at once", strings.NewReader(text), 1 << 20, nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(text)), 1 << 20, nil},
		{"data with EOF", iotest.DataErrReader(strings.NewReader(text)), 1 << 20, nil},
		{"just the limit", strings.NewReader(text), int64(len(text)), nil},
		{"one byte over", strings.NewReader(text), int64(len(text)) - 1, ErrTooLarge},
		{"broken off", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(text))), 1 << 20, iotest.ErrTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := Get()
			defer Put(b)
			err := b.ReadAll(test.source, test.limit)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err == nil && string(b.B) != text {
				t.Errorf("read %d bytes, want %d", len(b.B), len(text))
			}
			if int64(len(b.B)) > test.limit {
				t.Errorf("holds %d bytes, more than %d", len(b.B), test.limit)
			}
		})
	}
}

func TestPut_drops_large_buffers(t *testing.T) {
	Put(nil)
	Put(&Buffer{B: make([]byte, 0, maxKept+1)})
	for range 100 {
		if b := Get(); cap(b.B) > maxKept || len(b.B) != 0 {
			t.Fatalf("got a buffer of capacity %d and length %d", cap(b.B), len(b.B))
		}
	}
}

func TestGrow(t *testing.T) {
	for _, size := range []int{0, 1, smallSize, largeSize - 5, largeSize, maxKept, maxKept + 1} {
		for range 3 { // new memory, and memory of the pools
			b := Get()
			b.B = append(b.B, "start"...)
			b.Grow(size)
			if string(b.B) != "start" || cap(b.B)-len(b.B) < size {
				t.Errorf("Grow(%d): %q with room for %d bytes", size, b.B, cap(b.B)-len(b.B))
			}
			b.B = append(b.B, make([]byte, size)...)
			Put(b)
		}
	}
}

// TestGrow_shares_nothing checks that buffers in use never have memory in common.
func TestGrow_shares_nothing(t *testing.T) {
	var inUse []*Buffer
	for i := range 8 {
		b := Get()
		b.B = append(b.B, byte(i))
		b.Grow(largeSize)
		if i%2 == 0 {
			Put(b)
			continue
		}
		inUse = append(inUse, b, Get())
	}
	for i, b := range inUse {
		b.B = append(b.B[:0], make([]byte, smallSize)...)
		for at := range b.B {
			b.B[at] = byte(i)
		}
	}
	for i, b := range inUse {
		if b.B[0] != byte(i) || b.B[smallSize-1] != byte(i) {
			t.Errorf("buffer %d was changed through another one", i)
		}
	}
}

func TestReadLimited(t *testing.T) {
	for limit, want := range map[int64]error{4: ErrTooLarge, 5: nil} {
		if got, err := ReadLimited(strings.NewReader("12345"), limit); err != want || err == nil && string(got) != "12345" {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
}
