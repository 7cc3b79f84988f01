package session

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// Lists is a set of lists.
type Lists uint32

// The lists.
const (
	Tools Lists = 1 << iota
	Prompts
	Resources
	Events

	All = Tools | Prompts | Resources | Events
)

// notifications maps changes to the methods of their notifications.
var notifications = []struct {
	list   Lists
	method string
}{
	{Tools, "notifications/tools/list_changed"},
	{Prompts, "notifications/prompts/list_changed"},
	{Resources, "notifications/resources/list_changed"},
	{Events, "notifications/events/list_changed"},
}

// A Watcher collects the pending changes for one open stream.
type Watcher struct {
	wanted  atomic.Uint32
	pending atomic.Uint32
	wake    chan struct{}
	end     chan struct{}
	once    sync.Once

	mu       sync.Mutex
	messages [][]byte // to send, at most maxMessages
}

// maxMessages is the maximum number of messages that wait for a stream.
const maxMessages = 64

// NewWatcher returns a Watcher that collects changes of the wanted lists.
func NewWatcher(wanted Lists) *Watcher {
	w := &Watcher{wake: make(chan struct{}, 1), end: make(chan struct{})}
	w.wanted.Store(uint32(wanted))
	return w
}

// notify adds a change to the pending ones and wakes the stream. It never blocks; several changes
// of a list become one notification.
func (w *Watcher) notify(c Lists) {
	if c &= Lists(w.wanted.Load()); c == 0 {
		return
	}
	w.pending.Or(uint32(c))
	w.wakeUp()
}

func (w *Watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// send adds messages to those that the stream sends. It never blocks. Messages over the limit are dropped.
func (w *Watcher) send(messages ...[]byte) {
	w.mu.Lock()
	w.messages = append(w.messages, messages[:min(len(messages), maxMessages-len(w.messages))]...)
	w.mu.Unlock()
	w.wakeUp()
}

// take removes and returns the messages.
func (w *Watcher) take() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	messages := w.messages
	w.messages = nil
	return messages
}

// HandOver moves the notifications, including the pending ones, to another stream of the client.
func (w *Watcher) HandOver(to *Watcher) {
	to.Want(All)
	w.wanted.Store(0)
	to.notify(Lists(w.pending.Swap(0)))
	to.send(w.take()...)
}

// Want sets the lists of which the watcher collects changes.
func (w *Watcher) Want(wanted Lists) { w.wanted.Store(uint32(wanted)) }

// CloseAt closes the watcher at the given time, when its session or its credentials expire. The zero
// time means never. The caller must call stop afterwards.
func (w *Watcher) CloseAt(end time.Time) (stop func()) {
	if end.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(end), w.Close)
	return func() { timer.Stop() }
}

// Close ends the stream of the watcher.
func (w *Watcher) Close() {
	w.once.Do(func() { close(w.end) })
}

// Streams are the open streams of a server.
type Streams struct {
	Bound *share.Bound // counts them by owner; must be set

	mu       sync.Mutex
	watchers map[*Watcher]struct{}
}

// Counts returns the number of open streams, and how many of them want notifications.
func (set *Streams) Counts() (open, notified int) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for w := range set.watchers {
		if w.wanted.Load() != 0 {
			notified++
		}
	}
	return len(set.watchers), notified
}

// Notify notifies all streams about a change.
func (set *Streams) Notify(c Lists) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for w := range set.watchers {
		w.notify(c)
	}
}

// Join registers a stream of a client. It returns a fault if the owner has used its share of the streams. The
// caller must call leave when the stream ends.
func (set *Streams) Join(w *Watcher, owner share.Owner) (leave func(), f *protocol.Fault) {
	if err := set.Bound.Take(owner, 1); err != nil {
		if full, ok := errors.AsType[*share.FullError](err); ok && full.Share {
			return nil, tooManyStreams(http.StatusTooManyRequests, "your share of the open streams is used: close one first")
		}
		return nil, tooManyStreams(http.StatusServiceUnavailable, "the server has reached its limit of open streams: try again later")
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.watchers == nil {
		set.watchers = make(map[*Watcher]struct{})
	}
	set.watchers[w] = struct{}{}
	return func() {
		set.mu.Lock()
		defer set.mu.Unlock()
		delete(set.watchers, w)
		set.Bound.Give(owner, 1)
	}, nil
}

// tooManyStreams returns the fault for a stream over the limit, with a Retry-After header.
func tooManyStreams(status int, message string) *protocol.Fault {
	f := protocol.Faultf(status, protocol.InvalidRequest, "%s", message)
	f.RetryAfter = 10 * time.Second
	return f
}
