package embedded

import (
	"fmt"
	"time"
)

// flushRetry is the delay before a failed flush is repeated.
const flushRetry = time.Second

// flusher writes immutable memtables to the file. It runs in one goroutine.
type flusher struct {
	options   *Options
	buffer    *writeBuffer
	file      *file
	salt      uint64           // of the write-ahead log
	sealed    <-chan *memtable // immutable memtables of the committer
	committed <-chan struct{}  // closed when the committer has ended
}

// run flushes one memtable after the other until the committer has ended. It then flushes
// the rest. If that fails, it returns the error; the changes stay in the write-ahead log.
func (f *flusher) run() error {
	for {
		select {
		case m := <-f.sealed:
			f.flushUntilDone(m)
		case <-f.committed:
			return f.flushRest()
		}
	}
}

// flushUntilDone repeats the flush until it succeeds or the store is closed.
func (f *flusher) flushUntilDone(m *memtable) {
	for reported := false; ; reported = true {
		err := f.flush(m)
		if err == nil {
			return
		}
		if !reported {
			f.options.Failed(err)
		}
		select {
		case <-time.After(flushRetry):
		case <-f.committed:
			return
		}
	}
}

// flushRest flushes the remaining memtables.
func (f *flusher) flushRest() error {
	for _, m := range f.buffer.memtables() {
		if err := f.flush(m); err != nil {
			return err
		}
	}
	f.buffer.abandonFlushWaiters()
	return nil
}

// flush writes a memtable to the file in one transaction. If it fails, the store rejects
// changes until a retry succeeds.
func (f *flusher) flush(m *memtable) error {
	position := walPosition{salt: f.salt, flushed: m.lastFrame}
	if err := f.file.writeMemtable(m, position, f.options.beforeFlush); err != nil {
		err = fmt.Errorf("flushing the memtable to the store file failed; its changes are safe in the write-ahead log, and the flush is repeated: %w", err)
		f.buffer.flushFailed(err)
		return err
	}
	f.buffer.flushed(m)
	return nil
}
