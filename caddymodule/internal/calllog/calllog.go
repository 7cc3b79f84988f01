// Package calllog keeps the tool calls of all nodes: those in progress in memory, and those that have ended in
// the store.
//
//   - A Recorder takes each call that ends (calllog.go). It never waits for the store.
//   - A keeper writes them in blocks of up to 1000 calls, every second or when 1000 have ended (keep.go).
//   - A block is a record of the store. Its log has the calls as compressed JSON lines (block.go).
//   - Find scans the lines of all nodes, newest first, and pages by cursor (find.go). Filters look at the bytes of a
//     line before it is decoded (query.go).
//   - Nodes that share a store exchange their calls in progress while someone looks at them (running.go).
package calllog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
)

// Limits of a Log.
const (
	maxRunning = 500 // calls in progress that a node records; further ones are recorded when they end

	// Ended calls that wait for the store, and their bytes. Further calls are dropped and counted.
	maxPending      = 20_000
	maxPendingBytes = 32 << 20
)

// Options are the options of a Log.
type Options struct {
	Config
	Version   string                    // of the program, for Node
	Succeeded func(outcome string) bool // reports whether a call with that outcome is no failure
	Failed    func(error)               // is called when writing fails after it has succeeded; may be nil
	Dropped   func(int64)               // is called with the number of calls that were dropped; may be nil
}

// Defaults of Config.
const (
	defaultKeep    = 7 * 24 * time.Hour
	defaultMaxSize = 256 << 20
)

// Log keeps the calls of one node, and reads those of all nodes.
type Log struct {
	recorder atomic.Pointer[Recorder] // nil while Config.Off is set
	all      Recorder
	keeper   *keeper
	stats    statsCache
	started  time.Time
	loaded   atomic.Pointer[time.Time] // when the configuration was loaded
	share    *sharing                  // nil unless the node shares its store
}

// New returns the Log of a node. Open returns the store. Shared says whether other nodes use it, too.
func New(node string, open func(context.Context) (store.Store, error), shared bool) *Log {
	l := &Log{started: time.Now()}
	l.all.node, l.all.wake = node, make(chan struct{}, 1)
	l.keeper = newKeeper(&l.all, open)
	if shared {
		l.share = &sharing{recorder: &l.all, open: open, describe: l.describe}
	}
	return l
}

// Active implements keptcall.Source.
func (l *Log) Active() keptcall.Recorder {
	if r := l.recorder.Load(); r != nil {
		return r
	}
	return nil
}

// Start applies the options of the configuration that was started last.
func (l *Log) Start(options Options) {
	if options.Keep <= 0 {
		options.Keep = caddy.Duration(defaultKeep)
	}
	if options.MaxSize <= 0 {
		options.MaxSize = defaultMaxSize
	}
	l.all.options.Store(&options)
	now := time.Now()
	l.loaded.Store(&now)
	if options.Off {
		l.recorder.Store(nil)
		return
	}
	l.recorder.Store(&l.all)
	l.keeper.start()
	l.share.start()
}

// Options returns the options in use.
func (l *Log) Options() Options { return *l.all.options.Load() }

// Shown returns the members of an object that calls would have, if they were arguments. It returns nil if there are none.
func (l *Log) Shown(object []byte) jsontext.Value { return choose(object, l.Options().Arguments) }

// Look is called for each request of a page. While someone looks, nodes exchange their calls in progress.
func (l *Log) Look() { l.share.look() }

// Close writes the calls that wait for the store, and ends all work of the Log.
func (l *Log) Close() {
	l.recorder.Store(nil)
	l.share.close()
	l.keeper.close()
}

// Dropped returns how many calls of this node were not kept, because the store was too slow or failed.
func (l *Log) Dropped() int64 { return l.all.dropped.Load() }

// describe describes this node.
func (l *Log) describe() Node {
	n := Node{Name: l.all.node, Version: l.Options().Version, Started: l.started, Dropped: l.Dropped()}
	if loaded := l.loaded.Load(); loaded != nil {
		n.Loaded = *loaded
	}
	return n
}

// Nodes describes this node and the others, ordered by name. The others are known a few seconds after the first Look.
func (l *Log) Nodes(ctx context.Context) []Node {
	others := l.share.others(ctx)
	nodes := append(make([]Node, 0, 1+len(others)), l.describe())
	for _, other := range others {
		nodes = append(nodes, other.Node)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// Running returns the calls in progress of all nodes that keep returns true for, newest first, and at
// most limit.
func (l *Log) Running(ctx context.Context, limit int, keep func(*Call) bool) []Call {
	calls := l.all.inProgress(keep)
	for _, other := range l.share.others(ctx) {
		for i := range other.Running {
			if keep(&other.Running[i]) {
				calls = append(calls, other.Running[i])
			}
		}
	}
	now := time.Now()
	for i := range calls {
		calls[i].Took = float64(max(now.Sub(calls[i].Began), 0)) / float64(time.Millisecond)
	}
	slices.SortFunc(calls, newestFirst)
	return calls[:min(len(calls), limit)]
}

// Recorder records the calls of a node: those in progress, and those that have ended until the keeper has
// written them.
type Recorder struct {
	node    string
	options atomic.Pointer[Options]
	wake    chan struct{} // tells the keeper that a block is full
	dropped atomic.Int64

	mu      sync.Mutex
	number  int64     // of the latest call that has ended
	latest  time.Time // when it has ended
	pending []Call    // ended calls that wait for the keeper
	bytes   int       // of the texts of pending
	writing []Call    // those that the keeper is writing
	taken   []Call    // writing, with the calls that the keeper has written
	spare   []Call    // memory for the next pending
	running []Call    // in progress; unused places have no slot
	free    []int     // unused places of running
	changes int64     // counts calls that begin and end
}

// Begin implements keptcall.Recorder.
func (r *Recorder) Begin(call *Call, arguments []byte) {
	r.prepare(call, arguments)
	if call.Began.IsZero() {
		call.Began = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) > 0 {
		call.Slot = r.free[len(r.free)-1] + 1
		r.free = r.free[:len(r.free)-1]
	} else if len(r.running) < maxRunning {
		r.running = append(r.running, Call{})
		call.Slot = len(r.running)
	}
	if call.Slot > 0 {
		r.running[call.Slot-1] = *call
		r.changes++
	}
}

// Record implements keptcall.Recorder.
func (r *Recorder) Record(call *Call, arguments, result []byte) {
	if call.Began.IsZero() {
		r.prepare(call, arguments)
		call.Began = time.Now().Add(-time.Duration(call.Took * float64(time.Millisecond)))
	}
	if r.options.Load().Results && len(result) > 0 {
		call.Result = string(result[:min(len(result), keptcall.MaxResult+len("…"))])
	}
	call.Limit()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(call)
	r.changes++
	r.number++
	if now := time.Now().Truncate(time.Microsecond); now.After(r.latest) { // calls of a node end in the order of their numbers
		r.latest = now
	}
	call.Number, call.Ended = r.number, r.latest
	size := len(call.Reason) + len(call.Arguments) + len(call.Result)
	if len(r.pending) >= maxPending || r.bytes+size > maxPendingBytes {
		r.dropped.Add(1)
		return
	}
	r.bytes += size
	r.pending = append(r.pending, *call)
	if len(r.pending) == blockCalls {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Forget implements keptcall.Recorder.
func (r *Recorder) Forget(call *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(call)
	r.changes++
}

// release frees the place of a call in progress. The mutex is held.
func (r *Recorder) release(call *Call) {
	if call.Slot == 0 {
		return
	}
	r.running[call.Slot-1] = Call{}
	r.free = append(r.free, call.Slot-1)
	call.Slot = 0
}

// prepare sets the fields that do not depend on the outcome of a call.
func (r *Recorder) prepare(call *Call, arguments []byte) {
	call.Node, call.Sent = r.node, len(arguments)
	call.User, call.Trace = text.Cut(call.User, keptcall.MaxText), text.Cut(call.Trace, keptcall.MaxText)
	if allowed := r.options.Load().Arguments; len(allowed) > 0 && len(arguments) > 0 {
		call.Arguments = choose(arguments, allowed)
	}
}

// inProgress returns the calls in progress that keep returns true for.
func (r *Recorder) inProgress(keep func(*Call) bool) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []Call
	for i := range r.running {
		if call := &r.running[i]; call.Slot > 0 && keep(call) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// ended returns the calls that the keeper has not written.
func (r *Recorder) ended() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.writing, r.pending)
}

// take moves the calls that have ended to those that the keeper writes, and returns these.
func (r *Recorder) take() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.writing) == 0 {
		r.taken, r.writing, r.pending, r.bytes, r.spare = r.pending, r.pending, r.spare, 0, nil
	}
	return r.writing
}

// written removes the first n calls that the keeper has written.
func (r *Recorder) written(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writing = r.writing[n:]; len(r.writing) > 0 {
		return
	}
	clear(r.taken) // so that the texts of the calls can be collected
	if cap(r.taken) <= 2*blockCalls {
		r.spare = r.taken[:0]
	}
	r.taken, r.writing = nil, nil
}

// changed returns how many calls have begun and ended.
func (r *Recorder) changed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}
