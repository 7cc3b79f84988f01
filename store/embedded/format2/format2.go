// Package format2 reads stores of format 2, which versions before 0.9 of Fairway wrote: a bbolt file and a write-ahead log of two files
// beside it. It only reads, for the command caddy agents store convert, and will be dropped with 1.0.
package format2

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Record is a record and its log.
type Record struct {
	Key              string
	Value, Tombstone []byte
	Owner            string
	Expires          int64 // milliseconds since 1970
	Evictable        bool
	Length           int64 // number of entries of the log
	LogBytes         int64

	id   uint64
	tail [][]byte // the last entries, which the file does not have
}

const (
	format       = 2
	recordHeader = 41 // bytes of an encoded record before the value
	flagOwned    = 0x80

	walMagic    = "fwwalog1"
	walHeader   = 32 // bytes
	frameHeader = 24 // bytes
	frameAlign  = 8  // bytes
	changePut   = 1

	lockTimeout = time.Second
)

var errDamaged = errors.New("the store of format 2 is damaged")

// Read calls visit with each record in the order of the keys, and with a function that reads its log. What they return is valid
// during the call. No process may have the store open for writing.
func Read(path string, visit func(r *Record, log func(add func(entry []byte) error) error) error) (err error) {
	defer func() {
		if value := recover(); value != nil { // a panic of bbolt, or because a bucket is missing
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		own := tx.Bucket([]byte("store"))
		if stored := own.Get([]byte("format")); !bytes.Equal(stored, []byte{format}) {
			return fmt.Errorf("the file has format %d, not %d", stored, format)
		}
		var salt, flushed uint64
		if p := own.Get([]byte("position")); len(p) == 16 {
			salt, flushed = binary.BigEndian.Uint64(p), binary.BigEndian.Uint64(p[8:])
		}
		s := snapshot{tx: tx, later: make(map[string]*Record)}
		if err := s.replay(path, salt, flushed); err != nil {
			return err
		}
		return s.visit(visit)
	})
}

// snapshot is the file and what the log adds to it.
type snapshot struct {
	tx    *bbolt.Tx
	later map[string]*Record // the records of the log; nil for a deleted one
}

// get returns the record in the file, or nil.
func (s *snapshot) get(key string) (*Record, error) {
	id := s.tx.Bucket([]byte("records")).Get([]byte(key))
	if id == nil {
		return nil, nil
	}
	r := decode(key, s.tx.Bucket([]byte("values")).Get(id))
	if r == nil {
		return nil, fmt.Errorf("%w: record %q", errDamaged, key)
	}
	return r, nil
}

func (s *snapshot) visit(visit func(*Record, func(func([]byte) error) error) error) error {
	keys := slices.Collect(maps.Keys(s.later))
	c := s.tx.Bucket([]byte("records")).Cursor()
	for key, _ := c.First(); key != nil; key, _ = c.Next() {
		if _, is := s.later[string(key)]; !is {
			keys = append(keys, string(key))
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		r, is := s.later[key]
		if !is {
			var err error
			if r, err = s.get(key); err != nil {
				return err
			}
		}
		if r == nil {
			continue
		}
		if err := visit(r, func(add func([]byte) error) error { return s.log(r, add) }); err != nil {
			return err
		}
	}
	return nil
}

// log calls add with the entries of the record.
func (s *snapshot) log(r *Record, add func([]byte) error) error {
	n := int64(0)
	c := s.tx.Bucket([]byte("log")).Cursor()
	id := binary.BigEndian.AppendUint64(nil, r.id)
	for key, entry := c.Seek(id); n < r.Length-int64(len(r.tail)) && bytes.HasPrefix(key, id); key, entry = c.Next() {
		if err := add(entry); err != nil {
			return err
		}
		n++
	}
	for _, entry := range r.tail {
		if err := add(entry); err != nil {
			return err
		}
		n++
	}
	if n != r.Length {
		return fmt.Errorf("%w: record %q has %d log entries instead of %d", errDamaged, r.Key, n, r.Length)
	}
	return nil
}

// decode returns an encoded record, or nil if b is too short.
func decode(key string, b []byte) *Record {
	if len(b) < recordHeader {
		return nil
	}
	r := &Record{
		Key:       key,
		id:        binary.BigEndian.Uint64(b),
		Expires:   int64(binary.BigEndian.Uint64(b[8:])),
		Length:    int64(binary.BigEndian.Uint64(b[24:])),
		LogBytes:  int64(binary.BigEndian.Uint64(b[32:])),
		Evictable: b[40]&^flagOwned != 0,
		Value:     b[recordHeader:],
	}
	if b[40]&flagOwned != 0 {
		fields := reader{rest: r.Value}
		r.Owner = string(fields.take(fields.number(1)))
		size := fields.take(2)
		if len(size) == 2 {
			r.Tombstone = fields.take(int(binary.BigEndian.Uint16(size)))
		}
		if r.Value = fields.rest; fields.err != nil {
			return nil
		}
	}
	return r
}

// frame is a group of changes in the log.
type frame struct {
	number uint64
	body   []byte
}

// replay reads the changes of the log that the file lacks.
func (s *snapshot) replay(path string, salt, flushed uint64) error {
	var frames []frame
	for _, name := range []string{path + ".wal.1", path + ".wal.2"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		some := scan(b, salt)
		if len(some) > 0 && string(b[:len(walMagic)]) != walMagic {
			return fmt.Errorf("%w: the header of %s, at byte 0", errDamaged, name)
		}
		frames = append(frames, some...)
	}
	slices.SortFunc(frames, func(a, b frame) int { return cmp.Compare(a.number, b.number) })
	for _, f := range frames {
		if f.number <= flushed {
			continue
		}
		if flushed++; f.number != flushed {
			return fmt.Errorf("%w: frame %d of the write-ahead log is missing, and later ones exist", errDamaged, flushed)
		}
		for changes := (reader{rest: f.body}); len(changes.rest) > 0; {
			if err := s.apply(&changes); err != nil {
				return fmt.Errorf("frame %d of the write-ahead log: %w", f.number, err)
			}
		}
	}
	return nil
}

// apply reads a change of a frame.
func (s *snapshot) apply(c *reader) error {
	kind := c.number(1)
	key := string(c.take(c.number(2)))
	if kind != changePut {
		s.later[key] = nil
		return c.err
	}
	r := decode(key, c.take(c.number(4)))
	if r == nil {
		return errDamaged
	}
	if before := s.later[key]; before != nil && before.id == r.id {
		r.tail = before.tail
	}
	for n := c.number(4); n > 0 && c.err == nil; n-- {
		r.tail = append(r.tail, c.take(c.number(4)))
	}
	s.later[key] = r
	return c.err
}

// scan finds the frames of a log file. After the frames of the current use of the file
// follow frames of an earlier use. After a crash, the last frame may be incomplete.
func scan(b []byte, salt uint64) (frames []frame) {
	for at := walHeader; at+frameHeader <= len(b); {
		header := b[at : at+frameHeader]
		length := int(binary.LittleEndian.Uint32(header))
		salted := append(binary.LittleEndian.AppendUint64(nil, salt), header[:16]...)
		if length == 0 || length > len(b)-at-frameHeader || binary.LittleEndian.Uint32(header[16:]) != sum(salted) {
			at += frameAlign
			continue
		}
		body := b[at+frameHeader : at+frameHeader+length]
		if binary.LittleEndian.Uint32(header[4:]) != sum(body) {
			at += frameAlign
			continue
		}
		frames = append(frames, frame{binary.LittleEndian.Uint64(header[8:]), body})
		at += (frameHeader + length + frameAlign - 1) / frameAlign * frameAlign
	}
	return frames
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// reader decodes fields. After the first one that is incomplete it has an error and returns nothing more.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.err, r.rest = errDamaged, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number(size int) int {
	var b [4]byte
	copy(b[:], r.take(size))
	return int(binary.LittleEndian.Uint32(b[:]))
}
