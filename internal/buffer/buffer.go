// Package buffer is the one pool of byte buffers: request bodies, recorded
// answers and encoded results are built in buffers from here.
package buffer

import (
	"errors"
	"io"
	"sync"
)

// maxKept is the capacity, in bytes, above which a buffer is left to the
// garbage collector, so that one big answer does not stay in memory for ever.
const maxKept = 256 << 10

// Buffer is a byte slice that can go back to the pool. Append to B freely.
type Buffer struct {
	B []byte
}

var pool = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 4<<10)} }}

// Get returns an empty buffer.
func Get() *Buffer {
	return pool.Get().(*Buffer)
}

// Put gives the buffer back. The caller must not keep a reference to its bytes.
func Put(b *Buffer) {
	if b == nil || cap(b.B) > maxKept {
		return
	}
	b.B = b.B[:0]
	pool.Put(b)
}

// Release is Put for types that do not know of buffers.
func (b *Buffer) Release() {
	Put(b)
}

// Write appends p, so that a Buffer is an io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.B = append(b.B, p...)
	return len(p), nil
}

// ErrTooLarge reports a source that has more bytes than may be read of it.
var ErrTooLarge = errors.New("more bytes than the limit")

// ReadAll appends what source has until EOF. ErrTooLarge reports that the buffer
// would hold more than limit bytes then; what it holds is no more than that.
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
