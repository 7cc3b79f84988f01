// Package calllog keeps the recent tool calls of a node in memory, for the pages and commands that show
// them.
//
// A Log records only while it is in use: until Lifetime after the latest call of Look, or while a reader
// has Options.Always. Otherwise a call costs two atomic loads (Log.Active). The number of recorded calls
// and the size of each are limited.
//
// Nodes that share a store exchange their newest calls while the Log of one of them is in use
// (shared.go).
package calllog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of a Log.
const (
	MaxCalls     = 2000             // ended calls that a node keeps
	MaxRunning   = 500              // calls in progress that a node records; further ones are recorded when they end
	MaxArguments = 1 << 10          // bytes of recorded arguments of one call
	maxText      = 128              // bytes of each text that a client chooses
	Lifetime     = 15 * time.Minute // how long a Log records after the latest call of Look
)

// Call is one tool call. A call in progress has no Number, Ended, Outcome, Status and Size.
type Call struct {
	Number    int64          `json:"number,omitzero"` // of the ended call on its node, from 1
	Node      string         `json:"node"`
	Site      string         `json:"site"`     // the site of the endpoint, see route.Endpoint.SiteName
	Endpoint  string         `json:"endpoint"` // path of the endpoint
	Began     time.Time      `json:"began"`
	Ended     time.Time      `json:"ended,omitzero"`
	User      string         `json:"user,omitzero"`  // "" if the caller is not authenticated
	Agent     string         `json:"agent,omitzero"` // name of the hosted agent that makes the call; "" if a client does
	Protocol  string         `json:"protocol"`
	Toolset   string         `json:"toolset"`       // "" for an agent as a capability
	Tool      string         `json:"tool,omitzero"` // "" if no tool has the name that the client sent; for an agent, its reference
	Outcome   string         `json:"outcome,omitzero"`
	Status    int            `json:"status,omitzero"`    // of the API's response; 0 if there is none
	Size      int            `json:"size,omitzero"`      // bytes of the response
	Took      float64        `json:"duration_ms"`        // milliseconds; of a call in progress, until it was read
	Trace     string         `json:"trace,omitzero"`     // trace id
	Arguments jsontext.Value `json:"arguments,omitzero"` // those that the operator allows

	slot int // in Recorder.running, from 1; 0 if it has none
}

// compare orders calls by their end, or those in progress by their begin. Calls with the same time are
// ordered by node and number.
func (c *Call) compare(other *Call) int {
	return cmp.Or(c.Ended.Compare(other.Ended), c.Began.Compare(other.Began), cmp.Compare(c.Node, other.Node), cmp.Compare(c.Number, other.Number))
}

// Options are the options of one reader of a Log.
type Options struct {
	Always    bool     // record regardless of Look
	Arguments []string // arguments whose values may be recorded
	Site      string   // whose calls the reader shows; "" for all
}

// Log keeps the recent calls of one node. The zero value is ready to use. A nil Log records nothing.
type Log struct {
	recorder atomic.Pointer[Recorder] // nil while the Log is not in use
	all      Recorder

	mu      sync.Mutex
	readers map[*Options]bool
	until   time.Time   // end of recording, unless a reader has Options.Always
	timer   *time.Timer // ends the recording; nil if there is none
	share   *sharing    // nil unless the node shares its calls
}

// New returns the Log of a node.
func New(node string) *Log {
	l := new(Log)
	l.all.node = node
	return l
}

// Active holds the Recorder of calls, or nil while the Log is not in use. A nil Log always has nil.
func (l *Log) Active() *atomic.Pointer[Recorder] {
	if l == nil {
		return new(atomic.Pointer[Recorder])
	}
	return &l.recorder
}

// Open adds a reader. The reader calls close when it no longer needs the Log.
func (l *Log) Open(options Options) (close func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers == nil {
		l.readers = make(map[*Options]bool)
	}
	reader := &options
	l.readers[reader] = true
	l.changed()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.readers, reader)
		l.changed()
	}
}

// changed applies the options of the readers.
func (l *Log) changed() {
	arguments, always := make(map[string]bool), false
	for reader := range l.readers {
		always = always || reader.Always
		for _, name := range reader.Arguments {
			arguments[name] = true
		}
	}
	l.all.arguments.Store(&arguments)
	l.share.run(len(l.readers) > 0)
	switch {
	case always || len(l.readers) > 0 && time.Now().Before(l.until):
		l.recorder.Store(&l.all)
	default:
		l.recorder.Store(nil)
	}
}

// Look starts recording, or extends it until Lifetime from now. A page calls it for each request.
func (l *Log) Look() {
	l.share.look()
	l.recordFor(Lifetime)
}

// recordFor records for at least this time from now.
func (l *Log) recordFor(lifetime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := time.Now().Add(lifetime)
	if until.Before(l.until) {
		return
	}
	l.until = until
	if l.timer == nil {
		l.timer = time.AfterFunc(lifetime, l.expire)
	} else {
		l.timer.Reset(lifetime)
	}
	l.changed()
}

// expire ends the recording, unless a reader has Options.Always.
func (l *Log) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed()
}

// Close ends all work of the Log.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.readers)
	l.changed()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Recent returns the ended calls of all nodes that keep returns true for, newest first, and at most
// limit.
func (l *Log) Recent(ctx context.Context, limit int, keep func(*Call) bool) []Call {
	calls := l.all.recent(limit, keep)
	for _, other := range l.share.others(ctx) {
		calls = appendKept(calls, other.Calls, keep)
	}
	return newest(calls, limit)
}

// Running returns the calls in progress of all nodes that keep returns true for, newest first, and at
// most limit.
func (l *Log) Running(ctx context.Context, limit int, keep func(*Call) bool) []Call {
	calls := l.all.inProgress(keep)
	for _, other := range l.share.others(ctx) {
		calls = appendKept(calls, other.Running, keep)
	}
	now := time.Now()
	for i := range calls {
		calls[i].Took = float64(max(now.Sub(calls[i].Began), 0)) / float64(time.Millisecond)
	}
	return newest(calls, limit)
}

// appendKept appends the calls that keep returns true for.
func appendKept(calls, others []Call, keep func(*Call) bool) []Call {
	for i := range others {
		if keep(&others[i]) {
			calls = append(calls, others[i])
		}
	}
	return calls
}

// newest returns the newest calls, newest first, and at most limit.
func newest(calls []Call, limit int) []Call {
	slices.SortFunc(calls, func(a, b Call) int { return b.compare(&a) })
	return calls[:min(len(calls), limit)]
}

// Allowed returns the arguments that readers of a site allow.
func (l *Log) Allowed(site string) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for reader := range l.readers {
		if reader.Site == site {
			names = append(names, reader.Arguments...)
		}
	}
	return names
}

// Recorder records the calls of a node: those that have ended in a ring, and those in progress.
type Recorder struct {
	node      string
	arguments atomic.Pointer[map[string]bool] // names of those that may be recorded

	mu      sync.Mutex
	ring    []Call
	number  int64  // of the latest call that has ended
	running []Call // in progress; unused places have no slot
	free    []int  // unused places of running
	changes int64  // counts calls that begin and end
}

// Begin records that a call begins. It sets Node, and Began if it is not set. It copies the allowed
// arguments; arguments is a JSON object. The caller passes the same Call to Record when the call ends, or
// to Forget.
func (r *Recorder) Begin(call *Call, arguments []byte) {
	r.prepare(call, arguments)
	if call.Began.IsZero() {
		call.Began = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) > 0 {
		call.slot = r.free[len(r.free)-1] + 1
		r.free = r.free[:len(r.free)-1]
	} else if len(r.running) < MaxRunning {
		r.running = append(r.running, Call{})
		call.slot = len(r.running)
	}
	if call.slot > 0 {
		r.running[call.slot-1] = *call
		r.changes++
	}
}

// Record records that a call has ended. It sets Number and Ended. If Begin was not called, it also sets
// the fields that Begin sets, including the arguments.
func (r *Recorder) Record(call *Call, arguments []byte) {
	call.Ended = time.Now()
	if call.Began.IsZero() {
		r.prepare(call, arguments)
		call.Began = call.Ended.Add(-time.Duration(call.Took * float64(time.Millisecond)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(call)
	r.changes++
	r.number++
	call.Number = r.number
	if len(r.ring) < MaxCalls {
		r.ring = append(r.ring, *call)
	} else {
		r.ring[(r.number-1)%MaxCalls] = *call
	}
}

// Forget removes a call in progress without recording it, because it will be continued later.
func (r *Recorder) Forget(call *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(call)
	r.changes++
}

// release frees the place of a call in progress. The mutex is held.
func (r *Recorder) release(call *Call) {
	if call.slot == 0 {
		return
	}
	r.running[call.slot-1] = Call{}
	r.free = append(r.free, call.slot-1)
	call.slot = 0
}

// prepare sets the fields that do not depend on the outcome of a call.
func (r *Recorder) prepare(call *Call, arguments []byte) {
	call.Node = r.node
	for _, chosen := range []*string{&call.User, &call.Trace} {
		*chosen = text.Cut(*chosen, maxText)
	}
	if allowed := r.arguments.Load(); allowed != nil && len(*allowed) > 0 && len(arguments) > 0 {
		call.Arguments = choose(arguments, *allowed)
	}
}

// inProgress returns the calls in progress that keep returns true for.
func (r *Recorder) inProgress(keep func(*Call) bool) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []Call
	for i := range r.running {
		if call := &r.running[i]; call.slot > 0 && keep(call) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// recent returns up to limit calls that keep returns true for, newest first.
func (r *Recorder) recent(limit int, keep func(*Call) bool) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []Call
	for i := range r.ring {
		call := &r.ring[(r.number-1-int64(i))%int64(len(r.ring))]
		if len(calls) == limit {
			break
		}
		if keep(call) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// changed returns how many calls have begun and ended.
func (r *Recorder) changed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}
