package oagent

import (
	"container/list"
	"sync"
)

// A cache has the records that were used last, as many as its limit lets it.
type cache struct {
	limit int // bytes

	mu      sync.Mutex
	records map[string]*list.Element
	order   *list.List // of *cached, the latest first
	bytes   int
}

type cached struct {
	record *record
	bytes  int
}

// recordOverhead is about what a record holds besides inputs and outputs, in bytes.
const recordOverhead = 4096

func newCache(limit int) *cache {
	return &cache{limit: limit, records: make(map[string]*list.Element), order: list.New()}
}

// get returns the record of the Engagement of that key.
func (c *cache) get(key string) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.records[key]; found != nil {
		c.order.MoveToFront(found)
		return found.Value.(*cached).record
	}
	r := newRecord(key)
	c.records[key] = c.order.PushFront(&cached{record: r})
	return r
}

// weigh notes how much the record holds now, and lets go of others if that is too
// much. It keeps the one that was used last, however large it is.
func (c *cache) weigh(r *record) {
	r.mu.Lock()
	size := r.size + len(r.value) + recordOverhead
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.records[r.engagement()]
	if found == nil || found.Value.(*cached).record != r {
		return
	}
	entry := found.Value.(*cached)
	c.bytes += size - entry.bytes
	entry.bytes = size
	for c.bytes > c.limit && c.order.Len() > 1 {
		last := c.order.Back()
		evicted := last.Value.(*cached)
		c.bytes -= evicted.bytes
		c.order.Remove(last)
		delete(c.records, evicted.record.engagement())
	}
}
