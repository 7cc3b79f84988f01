package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	// A group commit of fifty changes costs about the same as a commit of one: the sync, and
	// the work of the Go scheduler around a blocking system call. Therefore a commit starts when
	// all expected callers wait for it (see writeBuffer.expected). It starts at the latest
	// this long after the start of the last commit: syncShare times the average duration of a
	// commit, but at least commitInterval and at most maxCommitInterval. When the processors
	// are busy, commits take long and become rare, which leaves more time to the calls.
	commitInterval    = time.Millisecond
	maxCommitInterval = 10 * time.Millisecond
	syncShare         = 4
	// syncSamples is the number of syncs over which their duration is averaged.
	syncSamples = 8
	// commitDelay is how long a batch of asynchronous changes waits before it is committed.
	commitDelay = 10 * time.Millisecond
)

// committer commits batches to the write-ahead log. It runs in one goroutine.
type committer struct {
	options *Options
	buffer  *writeBuffer
	wal     *writeAheadLog
	waiters *store.Waiters
	sealed  chan<- *memtable // immutable memtables for the flusher; capacity 1
	closing <-chan struct{}

	timer      *time.Timer   // used by sleep
	lastStart  time.Time     // start of the last group commit
	syncTime   time.Duration // average duration of a group commit
	flushTimer *time.Timer   // started by the first group commit of a memtable
	flushArmed bool          // flushTimer is running or has fired
	flushDue   bool          // flushTimer has fired
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// run commits batch after batch until the store is closed and everything is durable.
func (c *committer) run() {
	for !c.awaitBatch() {
		c.commitBatch()
	}
	c.commitBatch() // the last batch: the buffer accepts no further changes
}

// awaitBatch blocks until there is a batch to commit or a memtable to flush. It returns
// true when the store is being closed.
func (c *committer) awaitBatch() (closing bool) {
	select {
	case <-c.buffer.wake:
	case <-c.flushTimer.C:
		c.flushDue = true
		return false
	case <-c.closing:
		return true
	}
	if !c.buffer.isUrgent() && c.sleep(commitDelay, c.buffer.expedite) {
		return true
	}
	if c.buffer.isComplete() {
		return false
	}
	interval := max(c.options.commitInterval, min(syncShare*c.syncTime, maxCommitInterval))
	if early := interval - time.Since(c.lastStart); early > 0 {
		return c.sleep(early, c.buffer.complete)
	}
	return false
}

// sleep blocks for the duration d, or until wake can be received. It returns true when the
// store is being closed.
func (c *committer) sleep(d time.Duration, wake <-chan struct{}) (closing bool) {
	c.timer.Reset(d)
	defer c.timer.Stop()
	select {
	case <-c.timer.C:
	case <-wake:
	case <-c.closing:
		return true
	}
	return false
}

// commitBatch commits the next batch to the write-ahead log. If the active memtable is due,
// it becomes immutable and goes to the flusher.
func (c *committer) commitBatch() {
	b, m, sealed := c.buffer.take(c.flushDue)
	if b != nil {
		c.lastStart = time.Now()
		frame, err := c.wal.append(b.writes)
		if err != nil {
			c.fail(b, m, fmt.Errorf("the change was not made, because appending to the write-ahead log failed: %w", err))
			return
		}
		c.syncTime += (time.Since(c.lastStart) - c.syncTime) / syncSamples
		c.buffer.commit(b, m, frame)
	}
	switch {
	case sealed:
		if err := c.wal.rotate(); err != nil { // b is nil, because an append erases failed frames too
			c.fail(newBatch(0), m, fmt.Errorf("the change was not made, because the write-ahead log has a damaged end: %w", err))
			return
		}
		c.sealed <- m // does not block: no other memtable is being flushed
		c.flushTimer.Stop()
		c.flushArmed, c.flushDue = false, false
	case b != nil && !c.flushArmed:
		c.flushTimer.Reset(c.options.flushInterval)
		c.flushArmed = true
	}
}

// fail rolls back the batch and all changes after it, which may depend on it.
func (c *committer) fail(b *batch, m *memtable, err error) {
	failed := []*batch{b, c.buffer.rollBack(b, m, err)}
	for _, b := range failed {
		for _, w := range b.writes {
			if w.async { // no caller waits to get the error
				c.options.Failed(fmt.Errorf("record %q: %w", w.key, err))
			}
		}
	}
	for _, b := range failed {
		b.err = err
		close(b.done)
		for _, w := range b.writes {
			c.waiters.Wake(w.key)
		}
	}
}

// The write-ahead log consists of two files that are used in turns:
// one for each memtable. A file is reused when its memtable has been flushed to the store
// file. Each file has a header, followed by frames, one for each batch. Frame numbers
// continue from one file to the other. All numbers are little-endian; the layout gives
// each field with its size in bytes.
//
//	header  magic and version 8, salt 8, CRC 4, zeros up to 32 bytes
//	frame   length of the body 4, CRC of the body 4, number 8, CRC of the salt and these 4,
//	        zeros 4, body, zeros up to a multiple of 8
//	body    changes, one after the other
//	change  kind 1, length of the key 2, key; unless the kind is delete:
//	        length 4, record.appendTo; number of entries 4; for each entry: length 4, entry
//
// A frame is written only after the previous one is on disk. Therefore:
//
//   - If the last frame is incomplete, a crash cut it. Recovery ignores it.
//   - If a frame is missing or damaged and a later one exists, the log is damaged.
//
// The salt is random, secret and specific to the store. It ensures that neither a stored
// value nor the log of another store is mistaken for a frame of this log.
const (
	walMagic    = "fwwalog1"
	walHeader   = 32 // bytes
	frameHeader = 24 // bytes
	frameAlign  = 8  // bytes

	walGrowth      = 1 << 20  // bytes by which a file is extended in advance
	zerosAtOnce    = 16 << 10 // bytes of one write of them: Linux caches what is written at once as a unit, and a sync of a small unit takes less CPU
	maxFrameBuffer = 4 << 20  // maximum size in bytes of the buffer kept for the next frame

	changePut    = 1
	changeDelete = 2
)

// castagnoli is computed in hardware on common CPUs. The table is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeAheadLog is the open write-ahead log. Only one goroutine uses it.
type writeAheadLog struct {
	files   [2]*walFile
	current int    // index of the current file
	next    uint64 // number of the next frame
	salt    uint64
	options *Options
	frame   []byte // reused buffer
	failed  bool   // after the last frame there may be one whose append has failed
}

type walFile struct {
	diskFile
	end    int64 // offset after the last frame
	size   int64 // allocated size of the file
	growth int64 // bytes by which the file is extended in advance; a multiple of zerosAtOnce
}

func walPaths(path string) [2]string {
	return [2]string{path + ".wal.1", path + ".wal.2"}
}

// createWAL creates both files, replacing existing ones. The caller must have
// replayed all their frames. next is the number of the first frame.
func createWAL(path string, salt, next uint64, options *Options) (l *writeAheadLog, err error) {
	l = &writeAheadLog{next: next, salt: salt, options: options}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("creating the write-ahead log: %w", err), l.close())
		}
	}()
	for i, name := range walPaths(path) {
		file, err := options.disk.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return l, err
		}
		l.files[i] = &walFile{diskFile: file, end: walHeader, growth: options.walGrowth}
		if err := l.files[i].writeHeader(salt); err != nil {
			return l, err
		}
	}
	return l, options.disk.syncFolder(path)
}

// writeHeader writes the header to a new file.
func (f *walFile) writeHeader(salt uint64) error {
	if err := f.grow(f.growth); err != nil {
		return err
	}
	if _, err := f.WriteAt(encodeHeader([]byte(walMagic), salt), 0); err != nil {
		return err
	}
	return f.Sync()
}

func encodeHeader(magic []byte, salt uint64) []byte {
	b := make([]byte, 0, walHeader)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, salt)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:walHeader]
}

// grow extends the file to the size with zeros. Later writes then change neither the
// size nor the disk blocks of the file, so a sync only has to write the frame.
func (f *walFile) grow(size int64) error {
	if f.size >= size {
		return nil
	}
	zeros := make([]byte, zerosAtOnce)
	for target := (size + f.growth - 1) / f.growth * f.growth; f.size < target; f.size += zerosAtOnce {
		if _, err := f.WriteAt(zeros, f.size); err != nil {
			return err
		}
	}
	return nil
}

// append makes the changes durable with one write and one sync, and returns the number
// of their frame. After an error it erases the frame. If that fails too, it is unknown what is on disk; the
// next frame has the same number and overwrites the same place.
func (l *writeAheadLog) append(writes []write) (number uint64, err error) {
	f := l.files[l.current]
	l.frame = appendFrame(l.frame[:0], l.salt, l.next, writes)
	end := f.end + int64(len(l.frame))
	if err = f.grow(end); err == nil {
		err = l.write(l.frame)
	}
	if l.failed = err != nil; l.failed {
		_ = l.eraseFailed() // else the next append overwrites it, or rotate erases it
		return 0, err
	}
	if cap(l.frame) > maxFrameBuffer {
		l.frame = nil
	}
	f.end = end
	number = l.next
	l.next++
	return number, nil
}

// write writes to the place after the last frame, and makes that durable.
func (l *writeAheadLog) write(b []byte) error {
	f := l.files[l.current]
	if _, err := f.WriteAt(b, f.end); err != nil {
		return err
	}
	return l.options.syncWAL(f.diskFile)
}

// eraseFailed removes the remains of a frame whose append has failed.
func (l *writeAheadLog) eraseFailed() error {
	if !l.failed {
		return nil
	}
	err := l.write(make([]byte, frameHeader))
	l.failed = err != nil
	return err
}

// rotate switches to the other file and overwrites its frames, which are all flushed. It fails if a failed
// frame cannot be erased, because the other file will have a frame with the same number.
func (l *writeAheadLog) rotate() error {
	if err := l.eraseFailed(); err != nil {
		return err
	}
	l.current = 1 - l.current
	l.files[l.current].end = walHeader
	return nil
}

// close closes the files.
func (l *writeAheadLog) close() error {
	var errs []error
	for _, f := range l.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// removeWAL removes both files.
func removeWAL(d disk, path string) error {
	paths := walPaths(path)
	return errors.Join(d.remove(paths[0]), d.remove(paths[1]))
}

func appendFrame(b []byte, salt, number uint64, writes []write) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHeader)...)
	for i := range writes {
		b = writes[i].appendTo(b)
	}
	header, body := b[start:start+frameHeader], b[start+frameHeader:]
	binary.LittleEndian.PutUint32(header, uint32(len(body)))
	binary.LittleEndian.PutUint32(header[4:], crc32.Checksum(body, castagnoli))
	binary.LittleEndian.PutUint64(header[8:], number)
	binary.LittleEndian.PutUint32(header[16:], sumHeader(salt, header))
	for (len(b)-start)%frameAlign != 0 {
		b = append(b, 0)
	}
	return b
}

// sumHeader returns the CRC of a frame's header.
func sumHeader(salt uint64, header []byte) uint32 {
	var salted [24]byte
	binary.LittleEndian.PutUint64(salted[:], salt)
	copy(salted[8:], header[:16])
	return crc32.Checksum(salted[:], castagnoli)
}

func (w *write) appendTo(b []byte) []byte {
	kind := byte(changePut)
	if w.new == nil {
		kind = changeDelete
	}
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(w.key)))
	b = append(b, w.key...)
	if w.new == nil {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(w.new.encodedSize()))
	b = w.new.appendTo(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.entries)))
	for _, entry := range w.entries {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(entry)))
		b = append(b, entry...)
	}
	return b
}
