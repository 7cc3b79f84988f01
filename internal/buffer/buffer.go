// Package buffer is the pool of byte buffers that the whole program shares.
//
// Request bodies, recorded responses and encoded results are built in buffers from Get. The
// owner of a buffer calls Put when its bytes are no longer used. Put leaves large buffers to
// the garbage collector, so that one large response does not occupy memory permanently.
// Ownership may move: a result that holds a buffer releases it with Release.
package buffer

import (
	"errors"
	"io"
	"sync"
)

// maxKept is the largest capacity, in bytes, of a buffer that returns to the pool.
const maxKept = 256 << 10

// Buffer is a byte slice from the pool. Callers may append to B directly.
type Buffer struct {
	B []byte
}

var pool = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 4<<10)} }}

// Get returns an empty buffer.
func Get() *Buffer {
	return pool.Get().(*Buffer)
}

// Put returns the buffer to the pool. The caller must not keep a reference to its bytes.
func Put(b *Buffer) {
	if b == nil || cap(b.B) > maxKept {
		return
	}
	b.B = b.B[:0]
	pool.Put(b)
}

// Release calls Put. Types that hold a buffer use it through an interface.
func (b *Buffer) Release() {
	Put(b)
}

// Write appends p. It makes Buffer an io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.B = append(b.B, p...)
	return len(p), nil
}

// ErrTooLarge reports a source with more bytes than the limit.
var ErrTooLarge = errors.New("more bytes than the limit")

// ReadAll appends all bytes of source until EOF. If the buffer would exceed limit bytes, it
// returns ErrTooLarge. The buffer never has more than limit bytes then.
func (b *Buffer) ReadAll(source io.Reader, limit int64) error {
	for {
		if len(b.B) == cap(b.B) {
			b.B = append(b.B, 0)[:len(b.B)]
		}
		n, err := source.Read(b.B[len(b.B):cap(b.B)])
		if int64(len(b.B)+n) > limit {
			return ErrTooLarge
		}
		b.B = b.B[:len(b.B)+n]
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
