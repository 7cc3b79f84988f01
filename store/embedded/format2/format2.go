// Package format2 reads stores of format 2, which earlier versions wrote: a bbolt file and a write-ahead log of two files
// beside it. It only reads, for the command caddy agents store convert, and will be dropped with 1.0.
package format2

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store/embedded"
)

const (
	format       = 2
	recordHeader = 41 // bytes of an encoded record before the value
	flagOwned    = 0x80

	walMagic    = "fwwalog1"
	walHeader   = 32 // bytes
	frameHeader = 24 // bytes
	frameAlign  = 8  // bytes
	changePut   = 1
)

var errDamaged = errors.New("the store of format 2 is damaged")

// Read calls visit with each record. Its bytes are valid during the call. No process may have the store open for writing.
func Read(path string, visit func(key string, r *embedded.Old) error) (err error) {
	defer func() {
		if value := recover(); value != nil { // a panic of bbolt, or because a bucket is missing
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		own := tx.Bucket([]byte("store"))
		if stored := own.Get([]byte("format")); !bytes.Equal(stored, []byte{format}) {
			return fmt.Errorf("the file has format %d, not %d", stored, format)
		}
		position := append(own.Get([]byte("position")), make([]byte, 16)...)
		later, err := replay(path, binary.BigEndian.Uint64(position), binary.BigEndian.Uint64(position[8:]))
		if err != nil {
			return err
		}
		values, log := tx.Bucket([]byte("values")), tx.Bucket([]byte("log")).Cursor()
		err = tx.Bucket([]byte("records")).ForEach(func(key, id []byte) error {
			if _, is := later[string(key)]; is {
				return nil
			}
			r := decode(values.Get(id))
			return complete(string(key), r, log, visit)
		})
		for key, r := range later {
			if err == nil && r != nil {
				err = complete(key, r, log, visit)
			}
		}
		return err
	})
}

// complete adds the entries that are in the file, and calls visit.
func complete(key string, r *embedded.Old, log *bbolt.Cursor, visit func(key string, r *embedded.Old) error) error {
	if r == nil {
		return fmt.Errorf("%w: record %q", errDamaged, key)
	}
	var entries [][]byte
	id := binary.BigEndian.AppendUint64(nil, r.ID)
	for at, entry := log.Seek(id); int64(len(entries)) < r.Length-int64(len(r.Log)) && bytes.HasPrefix(at, id); at, entry = log.Next() {
		entries = append(entries, entry)
	}
	if r.Log = append(entries, r.Log...); int64(len(r.Log)) != r.Length {
		return fmt.Errorf("%w: record %q has %d log entries instead of %d", errDamaged, key, len(r.Log), r.Length)
	}
	return visit(key, r)
}

// decode returns an encoded record, or nil if b is too short.
func decode(b []byte) *embedded.Old {
	if len(b) < recordHeader {
		return nil
	}
	r := &embedded.Old{
		ID:        binary.BigEndian.Uint64(b),
		Expires:   int64(binary.BigEndian.Uint64(b[8:])),
		Length:    int64(binary.BigEndian.Uint64(b[24:])),
		LogBytes:  int64(binary.BigEndian.Uint64(b[32:])),
		Evictable: b[40]&^flagOwned != 0,
		Value:     b[recordHeader:],
	}
	if b[40]&flagOwned != 0 {
		fields := reader{rest: r.Value}
		r.Owner = string(fields.take(fields.number(1)))
		size := append(fields.take(2), 0, 0)
		r.Tombstone = fields.take(int(binary.BigEndian.Uint16(size)))
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

// replay returns the records that the log changes after a frame; nil for a deleted one.
func replay(path string, salt, flushed uint64) (map[string]*embedded.Old, error) {
	var frames []frame
	for _, name := range []string{path + ".wal.1", path + ".wal.2"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		some := scan(b, salt)
		if len(some) > 0 && string(b[:len(walMagic)]) != walMagic {
			return nil, fmt.Errorf("%w: the header of %s, at byte 0", errDamaged, name)
		}
		frames = append(frames, some...)
	}
	slices.SortFunc(frames, func(a, b frame) int { return cmp.Compare(a.number, b.number) })
	later := make(map[string]*embedded.Old)
	for _, f := range frames {
		if f.number <= flushed {
			continue
		}
		if flushed++; f.number != flushed {
			return nil, fmt.Errorf("%w: frame %d of the write-ahead log is missing, and later ones exist", errDamaged, flushed)
		}
		for changes := (reader{rest: f.body}); len(changes.rest) > 0; {
			if err := changes.apply(later); err != nil {
				return nil, fmt.Errorf("frame %d of the write-ahead log: %w", f.number, err)
			}
		}
	}
	return later, nil
}

// apply reads a change of a frame.
func (c *reader) apply(later map[string]*embedded.Old) error {
	kind := c.number(1)
	key := string(c.take(c.number(2)))
	if kind != changePut {
		later[key] = nil
		return c.err
	}
	r := decode(c.take(c.number(4)))
	if r == nil {
		return errDamaged
	}
	if before := later[key]; before != nil && before.ID == r.ID {
		r.Log = before.Log
	}
	for n := c.number(4); n > 0 && c.err == nil; n-- {
		r.Log = append(r.Log, c.take(c.number(4)))
	}
	later[key] = r
	return c.err
}

// scan finds the frames of a log file. After the frames of the current use of the file
// follow frames of an earlier use. After a crash, the last frame may be incomplete.
func scan(b []byte, salt uint64) (frames []frame) {
	for at := walHeader; at+frameHeader <= len(b); {
		header := b[at : at+frameHeader]
		length := int(binary.LittleEndian.Uint32(header))
		salted := append(binary.LittleEndian.AppendUint64(nil, salt), header[:16]...)
		body := b[at+frameHeader:]
		body = body[:min(length, len(body))]
		if length == 0 || length > len(body) || binary.LittleEndian.Uint32(header[16:]) != sum(salted) || binary.LittleEndian.Uint32(header[4:]) != sum(body) {
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
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number(size int) int {
	var b [4]byte
	copy(b[:], r.take(size))
	return int(binary.LittleEndian.Uint32(b[:]))
}
