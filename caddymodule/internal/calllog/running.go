package calllog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store"
)

// Keys of the records in a shared store.
const (
	watchKey = "calls/watch"    // a watchRecord
	callsKey = "calls/running/" // and the name of a node: a nodeRecord
)

// Intervals and limits of sharing.
const (
	stepInterval = time.Second      // interval at which a node writes new calls, while a Log is in use
	pollInterval = 5 * time.Second  // interval at which a node checks whether the Log of another node is in use
	nodeLifetime = 30 * time.Second // time after which a node that writes nothing is dropped
	maxShared    = 100              // calls in progress that a node writes
	maxNodes     = 64               // nodes whose calls are read
	shareTimeout = 3 * time.Second  // for the requests of one step
	lookLifetime = 15 * time.Minute // how long nodes exchange calls after someone has looked at them
)

// watchRecord contains the end of the current use, and the nodes that write their calls.
type watchRecord struct {
	Until time.Time            `json:"until"`
	Nodes map[string]time.Time `json:"nodes"` // when each has last written
}

// Node describes a process that records calls.
type Node struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitzero"` // of the program
	Started time.Time `json:"started"`
	Loaded  time.Time `json:"loaded"`           // when the configuration was loaded
	Dropped int64     `json:"dropped,omitzero"` // calls that were not kept, because the store was too slow or failed
}

// nodeRecord is what a node tells the others while someone looks.
type nodeRecord struct {
	Node    Node   `json:"node"`
	Running []Call `json:"running"` // calls in progress, newest first
}

// sharing exchanges the calls in progress of nodes through a store. A nil sharing does nothing.
type sharing struct {
	recorder *Recorder
	open     func(context.Context) (store.Store, error)
	describe func() Node

	mu      sync.Mutex
	stop    func()    // ends the goroutine; nil if it does not run
	looked  bool      // look was called on this node since the last step
	polled  time.Time // when the watch record was last read
	watched time.Time // end of the current use, on any node
	written int64     // Recorder.changes when the calls were last written
	wroteAt time.Time
	nodes   []string // the other nodes

	reading  sync.Mutex   // guards the fields below
	cached   []nodeRecord // of the other nodes
	cachedAt time.Time
}

// start begins the exchange, unless it has begun.
func (s *sharing) start() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		ticker := time.NewTicker(stepInterval)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				_ = s.step(ctx, now) // the next step tries again; the page shows the other nodes then
			case <-ctx.Done():
				return
			}
		}
	}()
}

// close ends the exchange.
func (s *sharing) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// look records that someone looks at the calls on this node.
func (s *sharing) look() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = true
}

// step polls the watch record and writes the calls, if either is due.
func (s *sharing) step(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	looked, watched := s.looked, now.Before(s.watched)
	due := now.Sub(s.polled) >= pollInterval
	s.mu.Unlock()
	if !looked && !due && !watched {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	records, err := s.open(ctx)
	if err != nil {
		return err
	}
	if due || looked && !watched {
		if err := s.poll(ctx, records, now, looked); err != nil {
			return err
		}
	}
	return s.write(ctx, records, now)
}

// poll reads the end of the current use, and registers this node while a Log is in use.
func (s *sharing) poll(ctx context.Context, records store.Store, now time.Time, looked bool) error {
	var watch watchRecord
	if !looked {
		record, err := records.Get(ctx, watchKey)
		if err == nil {
			err = json.Unmarshal(record.Value, &watch)
		}
		if err != nil || !now.Before(watch.Until) {
			s.seen(now, watch)
			return nil //nolint:nilerr // no record: no Log is in use
		}
	}
	err := records.Update(ctx, watchKey, func(old store.Record) (store.Change, error) {
		watch = watchRecord{}
		_ = json.Unmarshal(old.Value, &watch) // a record that cannot be read is replaced
		if looked {
			watch.Until = now.Add(lookLifetime)
		}
		nodes := make(map[string]time.Time, len(watch.Nodes)+1)
		for node, at := range watch.Nodes {
			if now.Sub(at) < nodeLifetime && len(nodes) < maxNodes {
				nodes[node] = at
			}
		}
		nodes[s.recorder.node] = now
		watch.Nodes = nodes
		value, err := json.Marshal(watch)
		return store.Change{Value: value, TTL: lookLifetime, Evictable: true}, err
	})
	if err != nil {
		return err
	}
	s.seen(now, watch)
	return nil
}

// seen stores the content of the watch record.
func (s *sharing) seen(now time.Time, watch watchRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled, s.watched, s.looked, s.nodes = now, watch.Until, false, nil
	for node := range watch.Nodes {
		if node != s.recorder.node {
			s.nodes = append(s.nodes, node)
		}
	}
}

// write writes what this node tells the others while someone looks, if it has changed or becomes old.
func (s *sharing) write(ctx context.Context, records store.Store, now time.Time) error {
	changes := s.recorder.changed()
	s.mu.Lock()
	due := now.Before(s.watched) && (changes != s.written || now.Sub(s.wroteAt) > nodeLifetime/2)
	s.mu.Unlock()
	if !due {
		return nil
	}
	record := nodeRecord{s.describe(), s.recorder.inProgress(func(*Call) bool { return true })}
	slices.SortFunc(record.Running, newestFirst)
	record.Running = record.Running[:min(len(record.Running), maxShared)]
	value, err := json.Marshal(record, jsontext.AllowInvalidUTF8(true))
	for err == nil && len(value) > store.DefaultMaxValue {
		record.Running = record.Running[:len(record.Running)/2]
		value, err = json.Marshal(record, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return err
	}
	if err := records.Put(ctx, callsKey+s.recorder.node, store.Change{Value: value, TTL: 2 * nodeLifetime, Evictable: true}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.wroteAt = changes, now
	return nil
}

// others returns what the other nodes tell. All readers share the result for a second.
func (s *sharing) others(ctx context.Context) []nodeRecord {
	if s == nil {
		return nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	now := time.Now()
	if now.Sub(s.cachedAt) < stepInterval {
		return s.cached
	}
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	records, err := s.open(ctx)
	if err != nil {
		return s.cached
	}
	var all []nodeRecord
	for _, node := range nodes {
		record, err := records.Get(ctx, callsKey+node)
		if err != nil {
			continue // the node has written nothing, or the store failed: show the other nodes
		}
		var other nodeRecord
		if json.Unmarshal(record.Value, &other, jsontext.AllowInvalidUTF8(true)) == nil {
			all = append(all, other)
		}
	}
	s.cached, s.cachedAt = all, now
	return all
}
