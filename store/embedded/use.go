package embedded

import (
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

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
