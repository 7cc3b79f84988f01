// Package buffer is the pool of byte buffers that the whole program shares.
//
// Request bodies, recorded responses and encoded results are built in buffers from Get. The
// owner of a buffer calls Put when its bytes are no longer used. Put leaves large buffers to
// the garbage collector, so that one large response does not occupy memory permanently.
// Ownership may move: a result that holds a buffer releases it with Release.
package buffer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	// smallSize is the capacity of a new buffer, in bytes.
	smallSize = 4 << 10

	// mediumSize is the largest size that a buffer grows to without becoming a large one.
	mediumSize = 16 << 10

	// largeSize separates two pools. Most contents are small, so that a large buffer would
	// usually be wasted on them, and a small one would have to grow for a large content.
	largeSize = 64 << 10

	// maxKept is the largest capacity, in bytes, of a buffer that returns to the pool.
	maxKept = 512 << 10
)

// Buffer is a byte slice from the pool. Callers may append to B directly.
type Buffer struct {
	B []byte
}

var (
	pool  = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, smallSize)} }}
	large sync.Pool // of capacities from largeSize
)

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
	if cap(b.B) >= largeSize {
		large.Put(b)
		return
	}
	pool.Put(b)
}

// Grow makes room for n more bytes. Call it before a content whose size is known, so that the
// buffer does not grow step by step.
func (b *Buffer) Grow(n int) {
	size := len(b.B) + n
	if size <= cap(b.B) {
		return
	}
	if size > mediumSize {
		size = max(size, largeSize)
	}
	if size >= largeSize && size <= maxKept {
		if other, ok := large.Get().(*Buffer); ok && cap(other.B) >= size {
			// The two exchange their memory. The small one returns to its pool.
			content := append(other.B[:0], b.B...)
			other.B, b.B = b.B, content
			Put(other)
			return
		}
		// One that is too small is dropped: the new one takes its place in the pool.
	}
	content := make([]byte, len(b.B), size)
	copy(content, b.B)
	b.B = content
}

// Release calls Put. Types that hold a buffer use it through an interface.
func (b *Buffer) Release() {
	Put(b)
}

// Write appends p. It makes Buffer an io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	if len(p) > cap(b.B)-len(b.B) {
		b.Grow(max(len(p), len(b.B)))
	}
	b.B = append(b.B, p...)
	return len(p), nil
}

// minRead is the room that ReadAll makes for a read, in bytes.
const minRead = 512

// ErrTooLarge reports a source with more bytes than the limit.
var ErrTooLarge = errors.New("more bytes than the limit")

// ReadAll appends all bytes of source until EOF. If the buffer would exceed limit bytes, it
// returns ErrTooLarge. The buffer never has more than limit bytes then.
func (b *Buffer) ReadAll(source io.Reader, limit int64) error {
	for {
		if len(b.B) == cap(b.B) {
			b.Grow(max(len(b.B), minRead))
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

// ReadFile returns the content of a file, which may be a pipe. If it has more than limit bytes, it returns ErrTooLarge.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := ReadLimited(file, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, nil
}

// ReadLimited returns all bytes of source. If there are more than limit, it returns ErrTooLarge.
func ReadLimited(source io.Reader, limit int64) ([]byte, error) {
	var b Buffer
	if err := b.ReadAll(source, limit); err != nil {
		return nil, err
	}
	return b.B, nil
}
