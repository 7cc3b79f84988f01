package embedded

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// maxWALFile is the maximum size in bytes of a log file that recovery reads. It is
// larger than any file that this package writes.
const maxWALFile = 1 << 30

// errWAL reports that the write-ahead log lacks durable changes, or belongs to
// another store.
var errWAL = errors.New("the write-ahead log cannot be used")

// frame is a frame of the write-ahead log.
type frame struct {
	number  uint64
	body    []byte
	file    int   // index of its file
	at, end int64 // offsets in the file
}

// replayWAL recovers the store: it writes the frames of the write-ahead log that the store
// file does not contain to the file, and creates a new log. p is the position in the store
// file.
func replayWAL(f *file, p walPosition, options *Options) (*writeAheadLog, error) {
	var frames []frame
	paths := walPaths(f.path)
	for i, path := range paths {
		some, err := readWALFile(f.disk, path, p)
		if err != nil {
			return nil, err
		}
		for _, fr := range some {
			fr.file = i
			frames = append(frames, fr)
		}
	}
	todo, err := unflushedFrames(frames, paths, p.flushed)
	if err != nil {
		return nil, err
	}
	for len(todo) > 0 {
		n, size := 0, 0
		for n < len(todo) && size < memtableBytes {
			size += len(todo[n].body)
			n++
		}
		p.flushed = todo[n-1].number
		if err := f.replay(p, todo[:n]); err != nil {
			return nil, fmt.Errorf("replaying the write-ahead log: %w", err)
		}
		todo = todo[n:]
	}
	return createWAL(f.path, p.salt, p.flushed+1, options)
}

// unflushedFrames returns the frames to replay, sorted by number. It returns an error if a frame
// is missing and a later one exists.
func unflushedFrames(frames []frame, paths [2]string, flushed uint64) ([]frame, error) {
	var todo []frame
	for _, f := range frames {
		if f.number > flushed {
			todo = append(todo, f)
		}
	}
	slices.SortFunc(todo, func(a, b frame) int { return cmp.Compare(a.number, b.number) })
	for i, f := range todo {
		if f.number != flushed+1+uint64(i) {
			file, at := missingAt(frames, f)
			return nil, fmt.Errorf("%w: %s is damaged at byte %d, and acknowledged changes come after it; "+
				"restore it together with the store file, or move %s and %s away to continue without their changes",
				errWAL, paths[file], at, paths[0], paths[1])
		}
	}
	return todo, nil
}

// missingAt returns the file and the offset of the missing frame before next. frames are
// in the order of the files.
func missingAt(frames []frame, next frame) (file int, at int64) {
	ends := [2]int64{walHeader, walHeader} // ends of the frames before next
	for _, f := range frames {
		if f.number < next.number && (f.file != next.file || f.end <= next.at) {
			ends[f.file] = max(ends[f.file], f.end)
		}
	}
	if ends[next.file] < next.at {
		return next.file, ends[next.file]
	}
	return 1 - next.file, ends[1-next.file]
}

// replay writes the changes of the frames to the file, and the new sums and position.
func (f *file) replay(p walPosition, frames []frame) error {
	return f.update(func(tx *bbolt.Tx) error {
		into := newTransaction(tx)
		for _, frame := range frames {
			changes := changeReader{rest: frame.body}
			for len(changes.rest) > 0 {
				w, err := changes.next()
				if err != nil {
					return fmt.Errorf("frame %d: %w", frame.number, err)
				}
				if w.old, err = readRecord(tx, w.key); err != nil {
					return err
				}
				if w.old == nil && w.new == nil {
					continue
				}
				if err := errors.Join(into.putKey(w.key, w.old, w.new), into.putRecord(w.key, w.old, w.new, w.entries)); err != nil {
					return err
				}
			}
		}
		return errors.Join(into.putSums(), into.putPosition(p))
	})
}

// readWALFile returns the frames of a log file in the order of the file. The file may be
// missing or truncated.
func readWALFile(d disk, path string, p walPosition) ([]frame, error) {
	file, err := d.open(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := buffer.ReadLimited(file, maxWALFile)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, fmt.Errorf("%w: %s has more than %d bytes", errWAL, path, maxWALFile)
	case err != nil:
		return nil, err
	case len(b) < walHeader:
		return nil, nil // a crash interrupted its creation: it has no frames
	}
	frames := scanFrames(b, p.salt)
	header := [walHeader]byte(b)
	stored := binary.LittleEndian.Uint64(header[8:])
	if header != [walHeader]byte(encodeHeader(header[:8], stored)) {
		if !slices.ContainsFunc(frames, func(f frame) bool { return f.number > p.flushed }) {
			return nil, nil // a crash interrupted the writing of the header
		}
		return nil, fmt.Errorf("%w: the header of %s, at byte 0, is damaged; move the two files of the log away to continue without their changes",
			errWAL, path)
	}
	switch {
	case len(frames) > 0 && string(header[:8]) != walMagic:
		return nil, fmt.Errorf("%w: another version of Fairway created %s; use that version, or move the two files of the log away to continue without their changes",
			errWAL, path)
	case stored != p.salt && len(scanFrames(b, stored)) > 0:
		return nil, fmt.Errorf("%w: %s belongs to another store file; restore that file, or move the two files of the log away", errWAL, path)
	}
	return frames, nil
}

// scanFrames finds all frames in b. After the frames of the current use of the file
// follow frames of an earlier use. After a crash, the last frame may be incomplete.
func scanFrames(b []byte, salt uint64) []frame {
	var frames []frame
	for at := walHeader; at+frameHeader <= len(b); {
		f, size := parseFrame(b[at:], salt)
		if size == 0 {
			at += frameAlign
			continue
		}
		f.at, f.end = int64(at), int64(at+size)
		frames = append(frames, f)
		at += size
	}
	return frames
}

// parseFrame returns the frame at the start of b and its size in bytes, or 0 if there is
// none. It checks the CRC of the header first, which cannot be forged without the salt,
// so data that only looks like a frame is rejected cheaply.
func parseFrame(b []byte, salt uint64) (frame, int) {
	length := int64(binary.LittleEndian.Uint32(b))
	if length == 0 || length > int64(len(b)-frameHeader) || binary.LittleEndian.Uint32(b[16:]) != sumHeader(salt, b[:frameHeader]) {
		return frame{}, 0
	}
	body := b[frameHeader : frameHeader+length]
	if binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(body, castagnoli) {
		return frame{}, 0
	}
	size := (frameHeader + int(length) + frameAlign - 1) / frameAlign * frameAlign
	return frame{number: binary.LittleEndian.Uint64(b[8:]), body: body}, size
}

// changeReader decodes changes of a frame. After the first missing or invalid field it has an error
// and returns nothing more.
type changeReader struct {
	rest []byte
	err  error
}

func (r *changeReader) take(n int) []byte {
	if n > len(r.rest) {
		r.err = errDamaged
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *changeReader) number(size int) int {
	var b [4]byte
	copy(b[:], r.take(size))
	return int(binary.LittleEndian.Uint32(b[:]))
}

func (r *changeReader) next() (*write, error) {
	kind := r.number(1)
	w := &write{key: string(r.take(r.number(2)))}
	if kind == changePut {
		w.new = decodeRecord(r.take(r.number(4)))
		for n := r.number(4); n > 0 && r.err == nil; n-- {
			w.entries = append(w.entries, r.take(r.number(4)))
		}
	}
	if r.err != nil || w.key == "" || (kind == changePut) != (w.new != nil) || kind != changePut && kind != changeDelete {
		return nil, errDamaged
	}
	return w, nil
}
