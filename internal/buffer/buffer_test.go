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

func TestPutDropsLargeBuffers(t *testing.T) {
	Put(nil)
	Put(&Buffer{B: make([]byte, 0, maxKept+1)})
	for range 100 {
		if b := Get(); cap(b.B) > maxKept || len(b.B) != 0 {
			t.Fatalf("got a buffer of capacity %d and length %d", cap(b.B), len(b.B))
		}
	}
}
