package pages

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools/result"
)

// memory keeps pages in memory. All sets have the same lifetime, so that their order of age is that of
// their expiry.
type memory struct {
	mu     sync.Mutex
	bound  *share.Bound             // counts their bytes
	sets   map[string]*list.Element // of *set, by id
	owners map[share.Owner][]*set   // oldest first
	all    list.List                // of *set, oldest first
	sweep  *time.Timer              // drops the oldest set when it expires; nil if there is no set
	closed bool
}

// A set has the pages of one response.
type set struct {
	id      string
	owner   Owner
	by      share.Owner
	pages   []result.Page
	size    int
	expires time.Time
}

// keep adds a set. It drops older sets until there is room: the oldest of the owner that uses most.
func (m *memory) keep(s *set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.dropExpired()
	for {
		full, _ := errors.AsType[*share.FullError](m.bound.Take(s.by, int64(s.size)))
		if full == nil {
			break
		}
		owner, found := m.bound.Yields(full, func(share.Owner) bool { return true })
		if !found {
			return
		}
		m.drop(m.owners[owner][0])
	}
	m.sets[s.id] = m.all.PushBack(s)
	m.owners[s.by] = append(m.owners[s.by], s)
	if m.sweep == nil {
		m.sweep = time.AfterFunc(Lifetime, m.sweepExpired)
	}
}

// page returns a page and the number of pages in its set.
func (m *memory) page(owner Owner, id string, number int) (page result.Page, total int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element := m.sets[id]
	if element == nil {
		return page, 0, ErrUnknown
	}
	s := element.Value.(*set)
	if s.owner != owner || number >= len(s.pages) || !time.Now().Before(s.expires) {
		return page, 0, ErrUnknown
	}
	return s.pages[number], len(s.pages), nil
}

// drop removes a set.
func (m *memory) drop(s *set) {
	m.all.Remove(m.sets[s.id])
	delete(m.sets, s.id)
	m.bound.Give(s.by, int64(s.size))
	if left := slices.DeleteFunc(m.owners[s.by], func(other *set) bool { return other == s }); len(left) > 0 {
		m.owners[s.by] = left
	} else {
		delete(m.owners, s.by)
	}
}

// dropExpired removes the sets that have expired.
func (m *memory) dropExpired() {
	now := time.Now()
	for front := m.all.Front(); front != nil; front = m.all.Front() {
		s := front.Value.(*set)
		if now.Before(s.expires) {
			return
		}
		m.drop(s)
	}
}

// sweepExpired removes the sets that have expired, and waits for the next one.
func (m *memory) sweepExpired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.dropExpired()
	m.sweep = nil
	if front := m.all.Front(); front != nil {
		m.sweep = time.AfterFunc(time.Until(front.Value.(*set).expires), m.sweepExpired)
	}
}

// close removes all sets. Later ones are not kept.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.sweep != nil {
		m.sweep.Stop()
	}
	for m.all.Len() > 0 {
		m.drop(m.all.Front().Value.(*set))
	}
}
