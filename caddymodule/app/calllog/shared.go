package calllog

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/store"
)

// Keys of the records in a shared store.
const (
	watchKey = "calls/watch" // a watchRecord
	callsKey = "calls/node/" // and the name of a node: a nodeRecord
)

// Intervals and limits of sharing.
const (
	stepInterval = time.Second      // interval at which a node writes new calls, while a Log is in use
	pollInterval = 5 * time.Second  // interval at which a node checks whether the Log of another node is in use
	nodeLifetime = 30 * time.Second // time after which a node that writes nothing is dropped
	maxShared    = 250              // ended calls that a node writes
	maxLive      = 100              // calls in progress that a node writes
	maxNodes     = 64               // nodes whose calls are read
	storeTimeout = 3 * time.Second  // for the requests of one step
)

// watchRecord contains the end of the current use, and the nodes that write their calls.
type watchRecord struct {
	Until time.Time            `json:"until"`
	Nodes map[string]time.Time `json:"nodes"` // when each has last written
}

// nodeRecord has the newest calls of a node, newest first.
type nodeRecord struct {
	Calls   []Call `json:"calls"`   // that have ended
	Running []Call `json:"running"` // in progress
}

// sharing exchanges the calls of nodes through a store.
type sharing struct {
	log  *Log
	open func(context.Context) (store.Store, error)

	stop func() // ends the goroutine; nil if it does not run

	mu      sync.Mutex
	looked  bool      // Look was called on this node since the last step
	polled  time.Time // when the watch record was last read
	watched time.Time // end of the current use, on any node
	written int64     // Recorder.changes when the calls were last written
	wroteAt time.Time
	nodes   []string // the other nodes

	reading  sync.Mutex   // guards the fields below
	cached   []nodeRecord // of the other nodes
	cachedAt time.Time
}

// Share makes nodes that share a store exchange their calls. It must be called before Open.
func (l *Log) Share(open func(context.Context) (store.Store, error)) {
	l.share = &sharing{log: l, open: open}
}

// run starts or ends the exchange. The Log's mutex is held.
func (s *sharing) run(wanted bool) {
	if s == nil || wanted == (s.stop != nil) {
		return
	}
	if !wanted {
		s.stop()
		s.stop = nil
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

// look records that the Log of this node is in use.
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
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
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
			watch.Until = now.Add(Lifetime)
		}
		nodes := make(map[string]time.Time, len(watch.Nodes)+1)
		for node, at := range watch.Nodes {
			if now.Sub(at) < nodeLifetime && len(nodes) < maxNodes {
				nodes[node] = at
			}
		}
		nodes[s.log.all.node] = now
		watch.Nodes = nodes
		value, err := json.Marshal(watch)
		return store.Change{Value: value, TTL: Lifetime, Evictable: true}, err
	})
	if err != nil {
		return err
	}
	s.seen(now, watch)
	s.log.recordFor(min(watch.Until.Sub(now), Lifetime))
	return nil
}

// seen stores the content of the watch record.
func (s *sharing) seen(now time.Time, watch watchRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled, s.watched, s.looked, s.nodes = now, watch.Until, false, nil
	for node := range watch.Nodes {
		if node != s.log.all.node {
			s.nodes = append(s.nodes, node)
		}
	}
}

// write writes the newest calls of this node if a call has begun or ended while a Log is in use.
func (s *sharing) write(ctx context.Context, records store.Store, now time.Time) error {
	changes := s.log.all.changed()
	s.mu.Lock()
	due := now.Before(s.watched) && changes > 0 && (changes != s.written || now.Sub(s.wroteAt) > nodeLifetime/2)
	s.mu.Unlock()
	if !due {
		return nil
	}
	all := func(*Call) bool { return true }
	record := nodeRecord{Calls: s.log.all.recent(maxShared, all), Running: newest(s.log.all.inProgress(all), maxLive)}
	value, err := jsonv2.Marshal(record)
	for err == nil && len(value) > store.DefaultMaxValue {
		record.Calls, record.Running = record.Calls[:len(record.Calls)/2], record.Running[:len(record.Running)/2]
		value, err = jsonv2.Marshal(record)
	}
	if err != nil {
		return err
	}
	if err := records.Put(ctx, callsKey+s.log.all.node, store.Change{Value: value, TTL: 2 * nodeLifetime, Evictable: true}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.wroteAt = changes, now
	return nil
}

// others returns the calls of the other nodes. All readers share the result for a second.
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
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
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
		var calls nodeRecord
		if jsonv2.Unmarshal(record.Value, &calls) == nil {
			all = append(all, calls)
		}
	}
	s.cached, s.cachedAt = all, now
	return all
}
