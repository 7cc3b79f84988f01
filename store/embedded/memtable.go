package embedded

import "slices"

// memtable holds the latest version of each record that changed since the last flush.
// Writes go to the active memtable; a full one becomes immutable, is flushed to the file
// and then dropped. Each memtable has its own file of the write-ahead log, except for
// batches that are not committed yet.
type memtable struct {
	number    uint64 // counts from 1
	records   map[string]*memEntry
	batches   []*batch // those in the write-ahead log
	changes   int      // number of changes, committed or not
	bytes     int      // approximate memory use of the changes
	totals    totals   // totals after the last batch
	lastFrame uint64   // number of its last frame in the write-ahead log; 0 if none

	// absent has the keys for which Get found no record. Often the next change creates that record, and
	// then it need not read the file. A key in absent whose record was created since is also in records,
	// here or in the next memtable.
	absent map[string]struct{}
}

// memEntry is the state of one record in a memtable.
type memEntry struct {
	old     *record  // version before this memtable; nil if none
	new     *record  // latest version; nil if the record was deleted
	entries [][]byte // log entries that only this memtable has
}

// newMemtable returns a memtable with capacity for the given number of records.
func newMemtable(number uint64, records int) *memtable {
	return &memtable{number: number, records: make(map[string]*memEntry, records)}
}

// add makes the write visible and returns its approximate size in bytes. It copies the
// list of entries.
func (m *memtable) add(w *write) int {
	e := m.records[w.key]
	switch {
	case e == nil:
		e = &memEntry{old: w.old}
		m.records[w.key] = e
	case w.new == nil || e.new == nil || e.new.id != w.new.id:
		e.entries = nil // they belong to the log of the deleted record
	}
	e.new = w.new
	n := len(e.entries)
	e.entries = append(e.entries, w.entries...)
	w.entries = slices.Clip(e.entries[n:])
	size := w.memory()
	m.changes++
	m.bytes += size
	return size
}

// committed returns a copy of the memtable with only the changes that are in the
// write-ahead log.
func (m *memtable) committed() *memtable {
	c := newMemtable(m.number, len(m.records))
	c.batches, c.totals, c.lastFrame = m.batches, m.totals, m.lastFrame
	for _, b := range m.batches {
		for i := range b.writes {
			c.add(&b.writes[i])
		}
	}
	return c
}

// id returns the id of the latest version, or of the deleted record.
func (e *memEntry) id() uint64 {
	if e.new != nil {
		return e.new.id
	}
	return e.old.id
}
