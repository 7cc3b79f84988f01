package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

const (
	sumSize        = 4            // bytes of a checksum, at the beginning of a record and of an entry
	recordHeader   = sumSize + 38 // bytes of an encoded record before the owner
	recordOverhead = 128          // bytes counted for a record besides its content
	entryOverhead  = 32           // bytes counted for an entry besides its content

	// Classes in the expiry index.
	classDurable    = 0 // removed only when expired
	classEvictable  = 1 // may be evicted to make room
	classShrinkable = 2 // the same, but a tombstone remains, so that only bytes are freed
)

// castagnoli is computed in hardware on common CPUs. The table is read-only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
func (r *record) size(key int) int64 {
	return int64(key+len(r.value)+len(r.owner)+len(r.tombstone)) + r.logBytes + r.length*entryOverhead + recordOverhead
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

// encode returns the record as it is stored:
//
//	checksum 4, expires 8, indexed 8, length 8, logBytes 8, length of the key 2, evictable 1, length of the owner 1,
//	length of the tombstone 2, owner, tombstone, value
func (r *record) encode(key string) []byte {
	b := make([]byte, sumSize, recordHeader+len(r.owner)+len(r.tombstone)+len(r.value))
	for _, n := range []int64{r.expires, r.indexed, r.length, r.logBytes} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	evictable := byte(0)
	if r.evictable {
		evictable = 1
	}
	b = append(b, evictable, byte(len(r.owner)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.tombstone)))
	b = append(append(append(b, r.owner...), r.tombstone...), r.value...)
	binary.BigEndian.PutUint32(b, recordSum(key, r.id, b))
	return b
}

// recordSum returns the checksum of an encoded record, which also covers where it is stored.
func recordSum(key string, id uint64, encoded []byte) uint32 {
	var at [8 + store.MaxKey]byte
	binary.BigEndian.PutUint64(at[:], id)
	n := copy(at[8:], key)
	return crc32.Update(crc32.Checksum(at[:8+n], castagnoli), castagnoli, encoded[sumSize:])
}

// decodeRecord returns an encoded record, or nil if it is damaged. Tombstone and value are parts of b.
func decodeRecord(key string, id uint64, b []byte) *record {
	if len(b) < recordHeader || len(key) > store.MaxKey || binary.BigEndian.Uint32(b) != recordSum(key, id, b) {
		return nil
	}
	r, _ := parseRecord(b)
	if r != nil {
		r.id = id
	}
	return r
}

// parseRecord is decodeRecord without the checksum. It returns nil if b is too short, and the length of the key.
func parseRecord(b []byte) (r *record, key int) {
	if len(b) < recordHeader {
		return nil, 0
	}
	owner := recordHeader + int(b[39])
	tombstone := owner + int(binary.BigEndian.Uint16(b[40:]))
	if len(b) < tombstone {
		return nil, 0
	}
	r = &record{
		expires:   int64(binary.BigEndian.Uint64(b[4:])),
		indexed:   int64(binary.BigEndian.Uint64(b[12:])),
		length:    int64(binary.BigEndian.Uint64(b[20:])),
		logBytes:  int64(binary.BigEndian.Uint64(b[28:])),
		evictable: b[38] != 0,
		owner:     share.Owner(b[recordHeader:owner]),
		tombstone: b[owner:tombstone:tombstone],
		value:     b[tombstone:],
	}
	return r, int(binary.BigEndian.Uint16(b[36:]))
}

// encodeEntry returns the entry as it is stored: with a checksum that covers the key, too.
func encodeEntry(key, entry []byte) []byte {
	b := make([]byte, sumSize, sumSize+len(entry))
	binary.BigEndian.PutUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, entry))
	return append(b, entry...)
}

// decodeEntry returns the entry as a part of b. ok is false if it is damaged.
func decodeEntry(key, b []byte) (entry []byte, ok bool) {
	if len(b) < sumSize {
		return nil, false
	}
	entry = b[sumSize:]
	return entry, binary.BigEndian.Uint32(b) == crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, entry)
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

// expiryKey returns the key of the record in the expiry index.
func (r *record) expiryKey() []byte {
	b := make([]byte, 0, 64)
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
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), id)
	return binary.BigEndian.AppendUint64(b, uint64(number))
}

// sums are sums over the records of an owner.
type sums struct {
	records, bytes        int64
	evictable, shrinkable int64 // records of these classes
}

// add adds a record with a key of that length if it is not nil. A negative sign subtracts it.
func (s *sums) add(key int, r *record, sign int64) {
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

func (o ownerSums) add(key int, r *record, sign int64) {
	if r == nil {
		return
	}
	s := o[r.owner]
	s.add(key, r, sign)
	o[r.owner] = s
}

// use counts what all records take of the limits. Only the committer changes it.
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
	u.add(all, +1)
	return u
}

// add adds the sums without a check. A negative sign subtracts them.
func (u *use) add(all ownerSums, sign int64) {
	for owner, s := range all {
		u.records.Give(owner, -sign*s.records)
		u.bytes.Give(owner, -sign*s.bytes)
		addTo(u.evictable, owner, sign*s.evictable)
		addTo(u.shrinkable, owner, sign*s.shrinkable)
	}
}

func addTo(m map[share.Owner]int64, owner share.Owner, n int64) {
	if n == 0 {
		return
	}
	if m[owner] += n; m[owner] == 0 {
		delete(m, owner)
	}
}

// A victim says which records must be evicted next: some of a class and an owner.
type victim struct {
	owner  share.Owner
	class  byte
	number int64 // 0 if there is room
}

// yields returns which records must be evicted next to make room for the record next in place of old. If no record can be
// evicted, the error is store.ErrShare or store.ErrFull.
func (u *use) yields(key string, old, next *record) (v victim, err error) {
	var s sums
	if old != nil && old.owner == next.owner {
		s.add(len(key), old, -1)
	}
	s.add(len(key), next, +1)
	onlyBytes := false
	bound, err := u.records, u.records.Check(next.owner, s.records)
	if err == nil {
		bound, err, onlyBytes = u.bytes, u.bytes.Check(next.owner, s.bytes), true
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
