package engagement

import (
	"container/list"
	"sync"
)

// cache is an LRU cache of records, limited by size.
type cache struct {
	limit int // bytes

	mu      sync.Mutex
	records map[string]*list.Element
	order   *list.List // of *cached, most recently used first
	bytes   int
}

type cached struct {
	record *record
	bytes  int
}

// recordOverhead is the approximate memory use of a record without inputs and outputs, in bytes.
const recordOverhead = 4096

func newCache(limit int) *cache {
	return &cache{limit: limit, records: make(map[string]*list.Element), order: list.New()}
}

// get returns the record of the Engagement with that key.
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

// resize updates the size of the record and evicts others if the cache is too large. It never evicts
// the most recently used record.
func (c *cache) resize(r *record) {
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
