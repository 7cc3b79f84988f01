package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Keys of the store.
const (
	StatePrefix = "archive/state/" // followed by the name of a host
	logPrefix   = "archive/log/"   // followed by a chain and the number of a segment
)

const (
	segmentSize = 1000 // entries of a segment of the log, about
	keepRecord  = store.MaxTTL - time.Hour
	leaseTime   = 30 * time.Second
	maxHosts    = 100 // processes of one host that share a store
)

// state is the record of a chain.
type state struct {
	Chain   string            `json:"chain"` // the name of the node in its lines
	Cursors map[string]cursor `json:"cursors"`
	Lease   lease.Lease       `json:"lease,omitzero"`
}

// cursor is the position of a Sink in the log of a chain.
type cursor struct {
	Segment int64 `json:"segment"`
	Index   int64 `json:"index"` // of the next entry
	link
}

// oldest returns the cursor of the Sink that has got least.
func (s *state) oldest() cursor {
	least := cursor{}
	for i, id := range slices.Sorted(maps.Keys(s.Cursors)) {
		if c := s.Cursors[id]; i == 0 || c.Seq < least.Seq {
			least = c
		}
	}
	return least
}

// Queue holds the entries of a node in the store until all sinks have got them. It outlives a reload.
type Queue struct {
	open func(context.Context) (store.Store, error)
	host string

	mu  sync.Mutex
	own *chain // nil until it is claimed

	worker sync.Mutex // guards the fields below
	user   *Archive   // the Archive that delivers
	stop   func()
}

// newQueue returns the queue of a node in the store.
func newQueue(host string, open func(context.Context) (store.Store, error)) *Queue {
	return &Queue{host: host, open: open}
}

// chain is a chain that this process has claimed.
type chain struct {
	store store.Store
	name  string
	claim *lease.Claim[*state]
	end   func() // stops to extend the lease

	appending sync.RWMutex // held while entries are appended to the segment
	segment   int64
	length    int64 // of the segment

	advancing sync.Mutex // held while the position of a sink is stored

	mu    sync.Mutex // guards the fields below, and length
	state state
	total int64 // number of the latest entry
	lost  bool
}

// transaction changes the state of a chain in the store.
func transaction(st store.Store, key, name string) lease.Transaction[*state] {
	return func(ctx context.Context, change func(*state, *lease.Lease) error) error {
		return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
			s := &state{Chain: name, Cursors: make(map[string]cursor)}
			if len(old.Value) > 0 {
				if err := stored.Decode("archive", key, old.Value, s); err != nil {
					return store.Change{}, err
				}
			}
			if err := change(s, &s.Lease); err != nil {
				return store.Change{}, err
			}
			value, err := json.Marshal(s)
			return store.Change{Value: value, TTL: keepRecord}, err
		})
	}
}

// claim claims the chain of a host. It returns nil if another process has it.
func claim(ctx context.Context, st store.Store, key, name string) (*chain, error) {
	c := &chain{store: st}
	terms := &lease.Terms{Duration: leaseTime, Node: lease.ProcessOf(st), Process: lease.ProcessOf(st)}
	taken, err := lease.Take(ctx, terms, transaction(st, key, name), func(s *state) bool {
		c.state = *s
		return true
	})
	if taken == nil {
		return nil, err
	}
	c.name, c.claim = c.state.Chain, taken
	if err := c.measure(ctx); err != nil {
		_ = taken.Release(ctx) // it expires otherwise
		return nil, err
	}
	c.end = taken.Keep(context.WithoutCancel(ctx), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = true
	})
	return c, nil
}

// measure counts the entries that wait, and finds the next segment.
func (c *chain) measure(ctx context.Context) error {
	least := c.state.oldest()
	c.segment, c.total = least.Segment, least.Seq-least.Index
	for {
		r, err := c.store.Get(ctx, c.logKey(c.segment))
		switch {
		case errors.Is(err, store.ErrNotFound):
			if c.segment == least.Segment { // nothing was written, or all of it has expired
				c.total = least.Seq
				for id, at := range c.state.Cursors {
					at.Index = 0
					c.state.Cursors[id] = at
				}
			}
			return nil
		case err != nil:
			return err
		}
		c.segment, c.total = c.segment+1, c.total+r.Length
	}
}

func (c *chain) logKey(segment int64) string {
	return logPrefix + c.name + "/" + strconv.FormatInt(segment, 10)
}

// release gives up the chain.
func (c *chain) release(ctx context.Context) {
	c.end()
	_ = c.claim.Release(ctx) // it expires otherwise
}

// waiting returns the number of entries that not all sinks have got.
func (c *chain) waiting() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total - c.state.oldest().Seq
}

func (c *chain) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// append appends entries. They are durable when it returns.
func (c *chain) append(ctx context.Context, entries [][]byte) error {
	segment, isFull, err := c.appendToSegment(ctx, entries)
	if err != nil {
		return err
	}
	if isFull {
		c.roll(segment)
	}
	return nil
}

func (c *chain) appendToSegment(ctx context.Context, entries [][]byte) (segment int64, isFull bool, err error) {
	c.appending.RLock()
	defer c.appending.RUnlock()
	segment = c.segment
	if err := c.store.Put(ctx, c.logKey(segment), store.Change{Entries: entries, TTL: keepRecord}); err != nil {
		return segment, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(entries))
	c.length += int64(len(entries))
	return segment, c.length >= segmentSize, nil
}

// roll begins the next segment. The sinks leave a segment when the next one exists, so nothing may be appended to it afterwards.
func (c *chain) roll(segment int64) {
	c.appending.Lock()
	defer c.appending.Unlock()
	if c.segment != segment {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.segment, c.length = segment+1, 0
}

// newChain returns the name of a new chain. It differs from that of a chain that the store has lost.
func newChain(host string) string {
	const random = 6
	return host + "-" + strings.ToLower(rand.Text()[:random])
}

// chain returns the chain of this process, which it claims at the first call.
func (q *Queue) chain(ctx context.Context) (*chain, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own != nil && !q.own.isLost() {
		return q.own, nil
	}
	st, err := q.open(ctx)
	if err != nil {
		return nil, err
	}
	for n := 1; n <= maxHosts; n++ {
		host := q.host
		if n > 1 {
			host += "-" + strconv.Itoa(n)
		}
		c, err := claim(ctx, st, StatePrefix+host, newChain(host))
		if err != nil {
			return nil, err
		}
		if c != nil {
			q.own = c
			return c, nil
		}
	}
	return nil, fmt.Errorf("%d processes of the host %s have an archive in the store", maxHosts, q.host)
}

// release gives up the chain of this process.
func (q *Queue) release(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.own != nil {
		q.own.release(ctx)
		q.own = nil
	}
}
