package result

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
)

// pageMemory keeps pages in memory. All sets have the same lifetime, so that their order of age is that of
// their expiry.
type pageMemory struct {
	mu     sync.Mutex
	bound  *share.Bound               // counts their bytes
	sets   map[string]*list.Element   // of *pageSet, by id
	owners map[share.Owner][]*pageSet // oldest first
	all    list.List                  // of *pageSet, oldest first
	sweep  *time.Timer                // drops the oldest set when it expires; nil if there is no set
	closed bool
}

// A pageSet has the pages of one response.
type pageSet struct {
	id      string
	owner   PageOwner
	by      share.Owner
	pages   []Page
	size    int
	expires time.Time
}

// keep adds a set. It drops older sets until there is room: the oldest of the owner that uses most.
func (m *pageMemory) keep(s *pageSet) {
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
		m.sweep = time.AfterFunc(PageLifetime, m.sweepExpired)
	}
}

// page returns a page and the number of pages in its set.
func (m *pageMemory) page(owner PageOwner, id string, number int) (page Page, total int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element := m.sets[id]
	if element == nil {
		return page, 0, ErrUnknownPage
	}
	s := element.Value.(*pageSet)
	if s.owner != owner || number >= len(s.pages) || !time.Now().Before(s.expires) {
		return page, 0, ErrUnknownPage
	}
	return s.pages[number], len(s.pages), nil
}

// drop removes a set.
func (m *pageMemory) drop(s *pageSet) {
	m.all.Remove(m.sets[s.id])
	delete(m.sets, s.id)
	m.bound.Give(s.by, int64(s.size))
	if left := slices.DeleteFunc(m.owners[s.by], func(other *pageSet) bool { return other == s }); len(left) > 0 {
		m.owners[s.by] = left
	} else {
		delete(m.owners, s.by)
	}
}

// dropExpired removes the sets that have expired.
func (m *pageMemory) dropExpired() {
	now := time.Now()
	for front := m.all.Front(); front != nil; front = m.all.Front() {
		s := front.Value.(*pageSet)
		if now.Before(s.expires) {
			return
		}
		m.drop(s)
	}
}

// sweepExpired removes the sets that have expired, and waits for the next one.
func (m *pageMemory) sweepExpired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.dropExpired()
	m.sweep = nil
	if front := m.all.Front(); front != nil {
		m.sweep = time.AfterFunc(time.Until(front.Value.(*pageSet).expires), m.sweepExpired)
	}
}

// close removes all sets. Later ones are not kept.
func (m *pageMemory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.sweep != nil {
		m.sweep.Stop()
	}
	for m.all.Len() > 0 {
		m.drop(m.all.Front().Value.(*pageSet))
	}
}
