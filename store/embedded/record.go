package embedded

import (
	"encoding/binary"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	recordHeader   = 41  // bytes of an encoded record before the value
	recordOverhead = 128 // bytes counted for a record besides its content
	entryOverhead  = 32  // bytes counted for an entry besides its content

	// Classes in the expiry index.
	classDurable   = 0 // removed only when expired
	classEvictable = 1 // may be evicted when the store is full
)

// record is the stored form of a record. It is immutable.
type record struct {
	id        uint64 // unique for each record, even if its key is reused; the log is stored by it
	expires   int64
	indexed   int64 // time in the expiry index; never after expires
	length    int64 // number of entries in the log
	logBytes  int64
	evictable bool
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
	return int64(len(key)+len(r.value)) + r.logBytes + r.length*entryOverhead + recordOverhead
}

// appendTo appends the encoded record.
func (r *record) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.id)
	b = binary.BigEndian.AppendUint64(b, uint64(r.expires))
	b = binary.BigEndian.AppendUint64(b, uint64(r.indexed))
	b = binary.BigEndian.AppendUint64(b, uint64(r.length))
	b = binary.BigEndian.AppendUint64(b, uint64(r.logBytes))
	b = append(b, r.class())
	return append(b, r.value...)
}

// decodeRecord returns a copy of an encoded record, or nil if b is too short.
func decodeRecord(b []byte) *record {
	if len(b) < recordHeader {
		return nil
	}
	return &record{
		id:        binary.BigEndian.Uint64(b),
		expires:   int64(binary.BigEndian.Uint64(b[8:])),
		indexed:   int64(binary.BigEndian.Uint64(b[16:])),
		length:    int64(binary.BigEndian.Uint64(b[24:])),
		logBytes:  int64(binary.BigEndian.Uint64(b[32:])),
		evictable: b[40] == classEvictable,
		value:     append([]byte{}, b[recordHeader:]...),
	}
}

// expiresAt returns record.expires of an encoded record.
func expiresAt(b []byte) int64 {
	if len(b) < recordHeader {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[8:]))
}

func (r *record) class() byte {
	if r.evictable {
		return classEvictable
	}
	return classDurable
}

// expiryKey returns the key of the record in the expiry index.
func (r *record) expiryKey() []byte {
	return r.appendExpiryKey(make([]byte, 0, 17))
}

func (r *record) appendExpiryKey(b []byte) []byte {
	b = append(b, r.class())
	b = binary.BigEndian.AppendUint64(b, uint64(r.indexed))
	return binary.BigEndian.AppendUint64(b, r.id)
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

// totals are sums over all records, and the last id given to one.
type totals struct {
	records int64
	bytes   int64
	lastID  uint64
}

// add counts the record if it is not nil. A negative sign subtracts it.
func (t *totals) add(key string, r *record, sign int64) {
	if r != nil {
		t.records += sign
		t.bytes += sign * r.size(key)
	}
}
