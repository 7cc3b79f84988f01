package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// The journal is two files beside the store's, used in turns: one layer of changes
// has one, and it is used again when they are in the store's file. Each begins with
// a header and has frames after it, one for each batch, that are numbered on from
// one file to the other. All numbers are little-endian.
//
//	header  magic and version 8, salt 8, CRC 4, zeros up to 32 bytes
//	frame   length of the body 4, its CRC 4, number 8, CRC of the salt and these 4, zeros 4,
//	        body, zeros up to a multiple of 8
//	body    changes, one after the other
//	change  what 1, length of the key 2, key; unless it deletes the record:
//	        length 4, kept.appendTo; entries 4, and of each: length 4, entry
//
// A frame is written when the one before is on disk. So where one is missing or
// damaged that has others after it the journal is damaged; the last one may merely
// have been cut by a crash. The salt is the store's own and secret, so that no
// value that somebody stores can pass for a frame, nor the journal of another store
// for this one's.
const (
	journalMagic  = "fwjourn1"
	journalHeader = 32 // bytes
	frameHeader   = 24 // bytes
	frameAlign    = 8  // bytes

	journalStep  = 1 << 20 // bytes by which a file grows, before they are used
	journalSpare = 4 << 20 // bytes of memory that are kept for the next frame, at most

	changePut    = 1
	changeDelete = 2
)

// castagnoli has hardware that computes it. It is not changed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is open for the one goroutine that writes it.
type journal struct {
	files [2]*journalFile
	used  int    // which of them is written
	next  uint64 // number of the next frame
	salt  uint64
	sync  func(*os.File) error
	frame []byte // its memory is used again
}

type journalFile struct {
	*os.File
	end  int64 // of its frames
	size int64 // of the file, which was written up to there
}

func journalPaths(path string) [2]string {
	return [2]string{path + ".journal.1", path + ".journal.2"}
}

// newJournal makes both files anew: nothing in them is needed any more. next is
// the number of the first frame.
func newJournal(path string, salt, next uint64, sync func(*os.File) error) (j *journal, err error) {
	j = &journal{next: next, salt: salt, sync: sync}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the store's journal: %w", err), j.close())
		}
	}()
	for i, name := range journalPaths(path) {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return j, err
		}
		j.files[i] = &journalFile{File: file, end: journalHeader}
		if err := j.files[i].make(salt); err != nil {
			return j, err
		}
	}
	return j, syncFolder(path)
}

// make writes the header.
func (f *journalFile) make(salt uint64) error {
	if err := f.grow(journalStep); err != nil {
		return err
	}
	if _, err := f.WriteAt(encodeHeader([]byte(journalMagic), salt), 0); err != nil {
		return err
	}
	return f.Sync()
}

func encodeHeader(magic []byte, salt uint64) []byte {
	b := make([]byte, 0, journalHeader)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, salt)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:journalHeader]
}

// grow writes zeros to where the file ends until it has that size, so that what
// is written there later changes neither its size nor its place on the disk, and a
// sync has only the frame to write.
func (f *journalFile) grow(size int64) error {
	if f.size >= size {
		return nil
	}
	zeros := make([]byte, journalStep)
	for f.size < size {
		if _, err := f.WriteAt(zeros, f.size); err != nil {
			return err
		}
		f.size += journalStep
	}
	return nil
}

// write makes the changes durable with one write and one sync, and returns the
// number of their frame. After an error what the disk has of them is unknown; the
// next frame has the same number and is written to the same place.
func (j *journal) write(writes []write) (number uint64, err error) {
	f := j.files[j.used]
	j.frame = appendFrame(j.frame[:0], j.salt, j.next, writes)
	end := f.end + int64(len(j.frame))
	if err := f.grow(end); err != nil {
		return 0, err
	}
	if _, err := f.WriteAt(j.frame, f.end); err != nil {
		return 0, err
	}
	if err := j.sync(f.File); err != nil {
		return 0, err
	}
	if cap(j.frame) > journalSpare {
		j.frame = nil
	}
	f.end = end
	number = j.next
	j.next++
	return number, nil
}

// turn goes over to the other file, of which nothing is needed any more.
func (j *journal) turn() {
	j.used = 1 - j.used
	j.files[j.used].end = journalHeader
}

// close closes the files.
func (j *journal) close() error {
	var errs []error
	for _, f := range j.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// removeJournal removes both files.
func removeJournal(path string) error {
	paths := journalPaths(path)
	return errors.Join(os.Remove(paths[0]), os.Remove(paths[1]))
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

// sumHeader is the CRC of the header of a frame.
func sumHeader(salt uint64, header []byte) uint32 {
	var salted [24]byte
	binary.LittleEndian.PutUint64(salted[:], salt)
	copy(salted[8:], header[:16])
	return crc32.Checksum(salted[:], castagnoli)
}

func (w *write) appendTo(b []byte) []byte {
	what := byte(changePut)
	if w.new == nil {
		what = changeDelete
	}
	b = append(b, what)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(w.key)))
	b = append(b, w.key...)
	if w.new == nil {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(keptHeader+len(w.new.value)))
	b = w.new.appendTo(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.entries)))
	for _, entry := range w.entries {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(entry)))
		b = append(b, entry...)
	}
	return b
}
