package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

const (
	recordHeader   = 41  // bytes of an encoded record before the value
	recordOverhead = 128 // bytes counted for a record besides its content
	entryOverhead  = 32  // bytes counted for an entry besides its content

	// Classes in the expiry index.
	classDurable    = 0 // removed only when expired
	classEvictable  = 1 // may be evicted to make room
	classShrinkable = 2 // the same, but a tombstone remains, so that only bytes are freed

	// flagOwned in the byte of the class marks a record with an owner or a tombstone.
	flagOwned = 0x80
)

// record is the stored form of a record. It is immutable.
type record struct {
	id        uint64 // unique for each record, even if its key is reused; the log is stored by it
	expires   int64
	indexed   int64 // time in the expiry index; never after expires
	length    int64 // number of entries in the log
	logBytes  int64
	evictable bool
	owner     share.Owner
	tombstone []byte // see store.Change.Tombstone
	value     []byte
}

// live returns the record, or nil if it has expired.
func (r *record) live() *record {
	if r == nil || r.expired() {
		return nil
	}
	return r
}

func (r *record) expired() bool { return r.expires <= time.Now().UnixMilli() }

// public returns the record as callers see it.
func (r *record) public() store.Record {
	if r == nil {
		return store.Record{}
	}
	return store.Record{Value: r.value, Length: r.length}
}

// size returns the bytes that count towards MaxBytes.
func (r *record) size(key string) int64 {
	return int64(len(key)+len(r.value)+len(r.owner)+len(r.tombstone)) + r.logBytes + r.length*entryOverhead + recordOverhead
}

// evicted returns what remains of the record when it is evicted, or nil.
func (r *record) evicted() *record {
	if len(r.tombstone) == 0 || r.expired() {
		return nil
	}
	t := *r
	t.value, t.tombstone, t.evictable = r.tombstone, nil, false
	return &t
}

// encodedSize returns the number of bytes that appendTo appends.
func (r *record) encodedSize() int {
	n := recordHeader + len(r.value)
	if r.flag() != 0 {
		n += 1 + len(r.owner) + 2 + len(r.tombstone)
	}
	return n
}

// appendTo appends the encoded record.
func (r *record) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.id)
	b = binary.BigEndian.AppendUint64(b, uint64(r.expires))
	b = binary.BigEndian.AppendUint64(b, uint64(r.indexed))
	b = binary.BigEndian.AppendUint64(b, uint64(r.length))
	b = binary.BigEndian.AppendUint64(b, uint64(r.logBytes))
	b = append(b, r.class()|r.flag())
	if r.flag() != 0 {
		b = append(b, byte(len(r.owner)))
		b = append(b, r.owner...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.tombstone)))
		b = append(b, r.tombstone...)
	}
	return append(b, r.value...)
}

// decodeRecord returns a copy of an encoded record, or nil if b is too short.
func decodeRecord(b []byte) *record {
	if len(b) < recordHeader {
		return nil
	}
	r := &record{
		id:        binary.BigEndian.Uint64(b),
		expires:   int64(binary.BigEndian.Uint64(b[8:])),
		indexed:   int64(binary.BigEndian.Uint64(b[16:])),
		length:    int64(binary.BigEndian.Uint64(b[24:])),
		logBytes:  int64(binary.BigEndian.Uint64(b[32:])),
		evictable: b[40]&^flagOwned != classDurable,
	}
	rest := append([]byte{}, b[recordHeader:]...)
	if b[40]&flagOwned != 0 {
		if len(rest) < 1 || len(rest) < 3+int(rest[0]) {
			return nil
		}
		n := 1 + int(rest[0])
		size := int(binary.BigEndian.Uint16(rest[n:]))
		r.owner = share.Owner(rest[1:n])
		if rest = rest[n+2:]; len(rest) < size {
			return nil
		}
		if size > 0 {
			r.tombstone = rest[:size:size]
		}
		rest = rest[size:]
	}
	r.value = rest
	return r
}

// expiresAt returns record.expires of an encoded record.
func expiresAt(b []byte) int64 {
	if len(b) < recordHeader {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[8:]))
}

func (r *record) class() byte {
	switch {
	case !r.evictable:
		return classDurable
	case len(r.tombstone) > 0:
		return classShrinkable
	}
	return classEvictable
}

// flag returns the flag for the byte of the class.
func (r *record) flag() byte {
	if r.owner != share.Gateway || len(r.tombstone) > 0 {
		return flagOwned
	}
	return 0
}

// expiryKey returns the key of the record in the expiry index.
func (r *record) expiryKey() []byte {
	return r.appendExpiryKey(make([]byte, 0, 64))
}

func (r *record) appendExpiryKey(b []byte) []byte {
	if r.evictable {
		b = appendEvictableGroup(b, r.class(), r.owner)
	} else {
		b = append(b, classDurable)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(r.indexed))
	return binary.BigEndian.AppendUint64(b, r.id)
}

// appendEvictableGroup appends what the keys of an owner's records of a class begin with in the expiry index.
// The time that follows begins with a byte 0, so no key of the gateway's records looks like one of an owner.
func appendEvictableGroup(b []byte, class byte, owner share.Owner) []byte {
	b = append(b, class)
	if owner != share.Gateway {
		b = append(b, byte(len(owner)))
		b = append(b, owner...)
	}
	return b
}

func idKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, id)
}

func logKey(id uint64, number int64) []byte {
	return appendLogKey(make([]byte, 0, 16), id, number)
}

func appendLogKey(b []byte, id uint64, number int64) []byte {
	b = binary.BigEndian.AppendUint64(b, id)
	return binary.BigEndian.AppendUint64(b, uint64(number))
}

// sums are sums over the records of an owner.
type sums struct {
	records, bytes        int64
	evictable, shrinkable int64 // records of these classes
}

// add adds the record if it is not nil. A negative sign subtracts it.
func (s *sums) add(key string, r *record, sign int64) {
	if r == nil {
		return
	}
	s.records += sign
	s.bytes += sign * r.size(key)
	switch r.class() {
	case classEvictable:
		s.evictable += sign
	case classShrinkable:
		s.shrinkable += sign
	}
}

// ownerSums are the sums by owner, or their differences.
type ownerSums map[share.Owner]sums

// replace counts a change of a record.
func (o ownerSums) replace(key string, old, next *record) {
	o.add(key, old, -1)
	o.add(key, next, +1)
}

func (o ownerSums) add(key string, r *record, sign int64) {
	if r == nil {
		return
	}
	s := o[r.owner]
	s.add(key, r, sign)
	o[r.owner] = s
}

const sumsSize = 32 // bytes of encoded sums

func (s sums) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.records))
	b = binary.BigEndian.AppendUint64(b, uint64(s.bytes))
	b = binary.BigEndian.AppendUint64(b, uint64(s.evictable))
	return binary.BigEndian.AppendUint64(b, uint64(s.shrinkable))
}

func decodeSums(b []byte) (s sums) {
	if len(b) != sumsSize {
		return s
	}
	for i, n := range []*int64{&s.records, &s.bytes, &s.evictable, &s.shrinkable} {
		*n = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return s
}

// use counts what all records, durable or not, take of the limits. Changes need writeBuffer.mu.
type use struct {
	records, bytes        *share.Bound
	evictable, shrinkable map[share.Owner]int64 // number of records of these classes
}

func newUse(options *Options, all ownerSums) use {
	u := use{
		records: share.NewBound(share.Options{Name: "store records", Limit: options.MaxRecords, Warn: options.Warn}),
		bytes:   share.NewBound(share.Options{Name: "store bytes", Limit: options.MaxBytes, Warn: options.Warn}),

		evictable: make(map[share.Owner]int64), shrinkable: make(map[share.Owner]int64),
	}
	for owner, s := range all {
		u.add(owner, s)
	}
	return u
}

// add adds the sums without a check.
func (u *use) add(owner share.Owner, s sums) {
	u.records.Give(owner, -s.records)
	u.bytes.Give(owner, -s.bytes)
	u.addClasses(owner, s)
}

func (u *use) addClasses(owner share.Owner, s sums) {
	addTo(u.evictable, owner, s.evictable)
	addTo(u.shrinkable, owner, s.shrinkable)
}

func addTo(m map[share.Owner]int64, owner share.Owner, n int64) {
	if n == 0 {
		return
	}
	if m[owner] += n; m[owner] == 0 {
		delete(m, owner)
	}
}

// growth returns what the write adds to the sums of the new record's owner.
func (w *write) growth() (s sums) {
	if w.old != nil && w.old.owner == w.new.owner {
		s.add(w.key, w.old, -1)
	}
	s.add(w.key, w.new, +1)
	return s
}

// take counts the write, unless there is no room for it. The error is then a *share.FullError.
func (u *use) take(w *write) error {
	if w.new != nil {
		s := w.growth()
		if err := u.records.Take(w.new.owner, s.records); err != nil {
			return err
		}
		if err := u.bytes.Take(w.new.owner, s.bytes); err != nil {
			u.records.Give(w.new.owner, s.records)
			return err
		}
		u.addClasses(w.new.owner, s)
		if w.old == nil || w.old.owner == w.new.owner {
			return nil
		}
	}
	if w.old != nil {
		var s sums
		s.add(w.key, w.old, -1)
		u.add(w.old.owner, s)
	}
	return nil
}

// undo reverses take.
func (u *use) undo(w *write) {
	differences := make(ownerSums, 1)
	differences.replace(w.key, w.new, w.old)
	for owner, s := range differences {
		u.add(owner, s)
	}
}

// A victim says which records must be evicted next: some of a class and an owner.
type victim struct {
	owner  share.Owner
	class  byte
	number int64 // 0 if there is room
}

// yields returns which records must be evicted next to make room for the write. If no record can be evicted, the
// error is store.ErrShare or store.ErrFull.
func (u *use) yields(w *write) (v victim, err error) {
	s := w.growth()
	onlyBytes := false
	bound, err := u.records, u.records.Check(w.new.owner, s.records)
	if err == nil {
		bound, err, onlyBytes = u.bytes, u.bytes.Check(w.new.owner, s.bytes), true
	}
	full, _ := errors.AsType[*share.FullError](err)
	if full == nil {
		return v, nil
	}
	owner, found := bound.Yields(full, func(o share.Owner) bool { return u.evictable[o] > 0 || onlyBytes && u.shrinkable[o] > 0 })
	switch {
	case found && u.evictable[owner] > 0:
		return victim{owner, classEvictable, partOf(u.evictable[owner])}, nil
	case found:
		return victim{owner, classShrinkable, partOf(u.shrinkable[owner])}, nil
	case full.Share:
		return v, fmt.Errorf("%w: %w", store.ErrShare, full)
	}
	return v, fmt.Errorf("%w: %w", store.ErrFull, full)
}

// partOf returns how many of n records to evict at a time.
func partOf(n int64) int64 { return min(max(1, n/evictFraction), maxDueRecords) }
