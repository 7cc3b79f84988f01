package embedded

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// write is one change of one record on its way to the file.
type write struct {
	key     string
	old     *record // version after all earlier changes; nil if there is no record
	next    *record // new version; nil deletes the record
	entries [][]byte
	batch   *batch
}

// pending is what callers see of the changes that are not durable yet. Only the committer changes writes and stale.
type pending struct {
	sync.Mutex
	writes map[string]*write // the last write of each record in the next batch and in the one that is being written
	turns  map[string]*turn  // of the callers that change a record
}

// turn is that of a caller that changes a record. Callers take turns at a record, so that none computes a change in vain.
type turn struct {
	stale   bool            // the record has changed since the caller has read it
	waiting []chan struct{} // of the next callers; each is closed when it is the caller's turn
}

// enter waits until it is the caller's turn at the record, or until the context or the store ends.
func (p *pending) enter(ctx context.Context, key string, closing <-chan struct{}) (*turn, error) {
	p.Lock()
	t := p.turns[key]
	if t == nil {
		t = &turn{}
		p.turns[key] = t
		p.Unlock()
		return t, nil
	}
	come := make(chan struct{})
	t.waiting = append(t.waiting, come)
	p.Unlock()
	var err error
	select {
	case <-come:
		return t, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closing:
		err = store.ErrClosed
	}
	p.Lock()
	i := slices.Index(t.waiting, come)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	p.Unlock()
	if i < 0 { // it has come meanwhile
		p.leave(key, t)
	}
	return nil, err
}

// leave ends a turn. A nil turn is none.
func (p *pending) leave(key string, t *turn) {
	if t == nil {
		return
	}
	p.Lock()
	defer p.Unlock()
	if len(t.waiting) == 0 {
		delete(p.turns, key)
		return
	}
	close(t.waiting[0])
	t.waiting = t.waiting[1:]
}

// set makes w the last write of its record.
func (p *pending) set(w *write) {
	p.Lock()
	defer p.Unlock()
	p.writes[w.key] = w
	p.outdate(w.key)
}

// extend adds a later change to the last write of a record.
func (p *pending) extend(w *write, next *record, entries [][]byte) {
	p.Lock()
	defer p.Unlock()
	w.next, w.entries = next, append(w.entries, entries...)
	p.outdate(w.key)
}

func (p *pending) outdate(key string) {
	if t := p.turns[key]; t != nil {
		t.stale = true
	}
}

// remove removes writes that are durable.
func (p *pending) remove(writes []*write) {
	p.Lock()
	defer p.Unlock()
	for _, w := range writes {
		if p.writes[w.key] == w {
			delete(p.writes, w.key)
		}
	}
}

// clear removes all writes, because they have failed.
func (p *pending) clear() {
	p.Lock()
	defer p.Unlock()
	clear(p.writes)
	for _, t := range p.turns {
		t.stale = true
	}
}

// errStale reports that the record has changed since the caller has read it.
var errStale = errors.New("the record has changed")

// update calls change with the current record and hands over the change that it returns. The error is errStale if the committer
// has changed the record meanwhile, for example because it has expired.
func (s *Store) update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	t, err := s.pending.enter(ctx, key, s.closing)
	if err != nil {
		return err
	}
	handed := false
	defer func() {
		if !handed {
			s.pending.leave(key, t)
		}
	}()
	s.pending.Lock()
	t.stale = false
	w := s.pending.writes[key]
	var old *record
	if w != nil {
		old = w.next
	}
	s.pending.Unlock()
	if w == nil {
		if old, err = s.file.get(key); err != nil {
			return err
		}
	}
	to, err := change(old.live().public())
	var next *record
	if err == nil && !to.Delete {
		next, err = s.options.next(old.live(), &to)
	}
	if err != nil && w == nil {
		return err // it depends on durable changes only
	}
	handed = true
	return s.do(ctx, key, t, func(c *committer) (async bool, _ error) {
		if t.stale {
			return false, errStale
		}
		if err != nil {
			return false, err
		}
		if next != nil {
			err := c.makeRoom(key, old, next)
			if tombstone := next.evicted(); err != nil && tombstone != nil {
				next, err = tombstone, c.makeRoom(key, old, tombstone)
			}
			if err != nil {
				return false, err
			}
		}
		c.put(key, old, next, to.Entries)
		return to.Async, nil
	})
}

// next returns the record after the change. old is nil if there is none.
func (o *Options) next(old *record, c *store.Change) (*record, error) {
	if err := o.CheckChange(c); err != nil {
		return nil, err
	}
	next := &record{value: []byte{}}
	if old != nil {
		*next = *old
	}
	if err := store.CheckLength(next.length, len(c.Entries)); err != nil {
		return nil, err
	}
	if c.Value != nil {
		next.value = c.Value
	}
	next.length += int64(len(c.Entries))
	next.logBytes += int64(store.EntriesSize(c.Entries))
	if c.Owner != share.Gateway {
		next.owner = c.Owner
	}
	next.evictable, next.tombstone = c.Evictable, nil
	if c.Evictable {
		next.tombstone = c.Tombstone
	}
	next.expires = time.Now().Add(c.TTL).UnixMilli()
	if old == nil || next.expires < old.indexed || next.class() != old.class() || next.owner != old.owner {
		next.indexed = next.expires
	}
	return next, nil
}

// latest returns the record after all changes so far, or nil if there is none.
func (c *committer) latest(key string) (*record, error) {
	if w := c.store.pending.writes[key]; w != nil {
		return w.next, nil
	}
	return c.store.file.get(key)
}

// put adds a write to the next batch. A record without an id gets one.
func (c *committer) put(key string, old, next *record, entries [][]byte) {
	if old == nil && next == nil {
		return
	}
	c.count(key, old, next)
	if next != nil && next.id == 0 {
		c.lastID++
		next.id = c.lastID
	}
	b := c.next
	b.bytes += len(key) + store.EntriesSize(entries) + recordOverhead
	if next != nil {
		b.bytes += len(next.value)
	}
	w := c.store.pending.writes[key]
	if w != nil && w.batch == b && w.next != nil && next != nil && w.next.id == next.id {
		c.store.pending.extend(w, next, entries) // one write instead of two
		return
	}
	w = &write{key: key, batch: b, old: old, next: next, entries: slices.Clip(entries)}
	c.store.pending.set(w)
	b.writes = append(b.writes, w)
}

// count adds a change of a record to use.
func (c *committer) count(key string, old, next *record) {
	differences := make(ownerSums, 1)
	differences.add(len(key), old, -1)
	differences.add(len(key), next, +1)
	c.store.use.add(differences, +1)
	for owner, s := range differences {
		sum := c.next.changed[owner]
		c.next.changed[owner] = sums{sum.records + s.records, sum.bytes + s.bytes, sum.evictable + s.evictable, sum.shrinkable + s.shrinkable}
	}
}

// makeRoom evicts records until there is room for next in place of old. It first removes expired records, then evictable
// ones of the owner that use.yields returns, in the order of their expiry. The error is store.ErrShare or
// store.ErrFull if that owner has none left.
func (c *committer) makeRoom(key string, old, next *record) error {
	u, options := &c.store.use, &c.store.options
	v, err := u.yields(key, old, next)
	if v.number == 0 && err == nil {
		return nil
	}
	if next.size(len(key)) > options.MaxBytes {
		return store.ErrFull
	}
	_, err = c.replaceAll(key, removeExpired, func(tx *bbolt.Tx) []string {
		due, _ := expired(tx, time.Now().UnixMilli(), []byte{classDurable})
		return due
	})
	for err == nil {
		if v, err = u.yields(key, old, next); v.number == 0 || err != nil {
			return err
		}
		// If the time in the index is too early, the record is indexed anew before it is evicted.
		evict := func(r *record) (*record, bool) { return r.evicted(), r.expired() || r.indexed == r.expires }
		var evicted int
		evicted, err = c.replaceAll(key, evict, func(tx *bbolt.Tx) []string {
			return oldest(tx, v.owner, v.class, v.number+1) // one more, because key may be among them
		})
		if err == nil && evicted == 0 {
			return store.ErrFull
		}
	}
	return err
}

// removeExpired is a function for replace.
func removeExpired(old *record) (next *record, change bool) { return nil, old.expired() }

// replaceAll replaces the records that find returns, except one. It commits earlier changes first, because find reads the file.
func (c *committer) replaceAll(except string, by func(*record) (next *record, change bool), find func(*bbolt.Tx) []string) (changed int, err error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	var keys []string
	err = c.store.file.view(func(tx *bbolt.Tx) error {
		keys = find(tx)
		return nil
	})
	for _, key := range keys {
		if key != except {
			c.replace(key, by)
		}
	}
	return len(c.next.writes), err
}

// replace replaces a record as the function by says; a nil next removes the record. If change is false,
// it corrects the time of the record in the expiry index. It reports and skips a damaged record.
func (c *committer) replace(key string, by func(*record) (next *record, change bool)) {
	old, err := c.latest(key)
	if err != nil {
		c.store.options.Failed(err)
	}
	if old == nil {
		return
	}
	next, change := by(old)
	if !change {
		if old.indexed == old.expires {
			return
		}
		indexed := *old
		indexed.indexed = indexed.expires
		next = &indexed
	}
	c.put(key, old, next, nil)
}

// sequentialFill is the fill percentage of pages in buckets with ascending keys. bbolt's default, 0.5,
// reserves space for keys that are inserted between others. The remaining space is for values that grow.
const sequentialFill = 0.9

// maxLogAtOnce is the maximum number of entries removed together with their record.
const maxLogAtOnce = 256

// transaction has the buckets of a write transaction of the file.
type transaction struct {
	records, values, log, expiry, deleted *bbolt.Bucket
}

// write makes the changes in one transaction.
func (f *file) write(writes []*write, lastID uint64, beforeCommit func() error) error {
	id := 0
	err := guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			id = tx.ID()
			t := transaction{
				records: tx.Bucket(bucketRecords),
				values:  tx.Bucket(bucketValues),
				log:     tx.Bucket(bucketLog),
				expiry:  tx.Bucket(bucketExpiry),
				deleted: tx.Bucket(bucketDeleted),
			}
			for _, b := range []*bbolt.Bucket{t.values, t.log, t.expiry} {
				b.FillPercent = sequentialFill
			}
			for _, w := range writes {
				if err := t.put(w.key, w.old, w.next, w.entries); err != nil {
					return err
				}
			}
			if err := errors.Join(t.removeDeletedLog(), t.values.SetSequence(lastID)); err != nil || beforeCommit == nil {
				return err
			}
			return beforeCommit()
		})
	})
	if err != nil && id > 0 && f.isVisible(id) {
		return f.rewriteMeta()
	}
	return err
}

// put writes the record and the last entries of its log, or removes it if next is nil.
func (t *transaction) put(key string, old, next *record, entries [][]byte) error {
	if old != nil && (next == nil || next.id != old.id) {
		if err := errors.Join(t.removeLog(old), t.values.Delete(idKey(old.id)), t.expiry.Delete(old.expiryKey())); err != nil {
			return err
		}
		if old = nil; next == nil {
			return t.records.Delete([]byte(key))
		}
	}
	if old == nil {
		if err := t.records.Put([]byte(key), idKey(next.id)); err != nil {
			return err
		}
	}
	if err := t.putExpiry(key, old, next); err != nil {
		return err
	}
	for i, entry := range entries {
		at := logKey(next.id, next.length-int64(len(entries)-i))
		if err := t.log.Put(at, encodeEntry(at, entry)); err != nil {
			return err
		}
	}
	return t.values.Put(idKey(next.id), next.encode(key))
}

// putExpiry updates the expiry index if the time in it has changed.
func (t *transaction) putExpiry(key string, old, next *record) error {
	at := next.expiryKey()
	if old != nil {
		before := old.expiryKey()
		if bytes.Equal(before, at) {
			return nil
		}
		if err := t.expiry.Delete(before); err != nil {
			return err
		}
	}
	return t.expiry.Put(at, []byte(key))
}

// removeLog removes a short log. It leaves a long one to the next transactions.
func (t *transaction) removeLog(r *record) error {
	if r.length > maxLogAtOnce {
		return t.deleted.Put(idKey(r.id), nil)
	}
	for i := range r.length {
		if err := t.log.Delete(logKey(r.id, i)); err != nil {
			return err
		}
	}
	return nil
}

// removeDeletedLog removes some log entries of a deleted record.
func (t *transaction) removeDeletedLog() error {
	id, _ := t.deleted.Cursor().First()
	if id == nil {
		return nil
	}
	id = bytes.Clone(id)
	var entries [][]byte
	c := t.log.Cursor()
	for key, _ := c.Seek(id); bytes.HasPrefix(key, id) && len(entries) < maxRemovedEntries; key, _ = c.Next() {
		entries = append(entries, bytes.Clone(key))
	}
	for _, key := range entries {
		if err := t.log.Delete(key); err != nil {
			return err
		}
	}
	if len(entries) == maxRemovedEntries {
		return nil
	}
	return t.deleted.Delete(id)
}
