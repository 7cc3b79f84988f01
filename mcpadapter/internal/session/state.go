package session

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
)

// Limits of what one client has in progress at once.
const (
	maxRunning         = 256 // requests of the client
	maxPendingRequests = 64  // requests of the server
)

// ErrCanceled is the context cause of a request that the client has canceled.
var ErrCanceled = errors.New("the client canceled the request")

// A State holds the state of one session while it is in use: requests in progress, which the client
// can cancel; requests of the server that wait for a response; and subscriptions.
type State struct {
	mu               sync.Mutex
	running          map[string]*runningRequest // by request id
	pendingRequests  map[string]chan Response   // by the id of the server's request
	LogLevel         atomic.Uint32              // protocol.Level that the client has set; 0 if it has set none
	watching         map[string]version         // subscribed resources, by URI
	watchers         []*Watcher                 // of the session's streams; only the last one sends notifications
	knownListDigests *Digests                   // lists as of the last notification; nil if unchanged since the session began
	owner            share.Owner
	uses             int // number of exchanges that use this state; guarded by States.mu
}

// A runningRequest is a request of the client that is in progress, or that is registered and about
// to be served.
type runningRequest struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	begun  bool // whether serving has begun
}

// A version is the last known version of a watched resource.
type version struct {
	stamp string
	known bool
}

// A Response is a client's response to a request of the server. One of its fields is nil.
type Response struct {
	Result, Failure jsontext.Value
}

// Register registers a request before it is served, so that the client can already cancel it. It
// returns false if the id is taken or too many requests are in progress; the request can still be
// served.
func (l *State) Register(ctx context.Context, id jsontext.Value) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(ctx, string(id)) != nil
}

// Unregister removes a registered request that was not served.
func (l *State) Unregister(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil && !r.begun {
		r.cancel(nil)
		delete(l.running, string(id))
	}
}

// add returns nil if the id is taken or too many requests are in progress.
func (l *State) add(ctx context.Context, id string) *runningRequest {
	if _, taken := l.running[id]; taken || len(l.running) >= maxRunning {
		return nil
	}
	if l.running == nil {
		l.running = make(map[string]*runningRequest)
	}
	r := new(runningRequest)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	l.running[id] = r
	return r
}

// Run starts serving a request of the client, which may have been registered before. The returned
// context ends when the client cancels the request. The caller must call done afterwards.
func (l *State) Run(ctx context.Context, id jsontext.Value) (running context.Context, done func()) {
	key := string(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.running[key]
	if r == nil || r.begun {
		r = l.add(ctx, key)
	}
	if r == nil {
		ctx, cancel := context.WithCancelCause(ctx)
		return ctx, func() { cancel(nil) }
	}
	r.begun = true
	return r.ctx, func() {
		r.cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, key)
	}
}

// Cancel cancels the request with that id, if it is in progress.
func (l *State) Cancel(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil {
		r.cancel(ErrCanceled)
	}
}

// Expect returns a new id for a request to the client, and the channel for its response. The caller
// must call forget when it no longer waits.
func (l *State) Expect() (id string, answer <-chan Response, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pendingRequests) >= maxPendingRequests {
		return "", nil, nil, false
	}
	if l.pendingRequests == nil {
		l.pendingRequests = make(map[string]chan Response)
	}
	id = "fairway-" + rand.Text()
	channel := make(chan Response, 1)
	l.pendingRequests[id] = channel
	return id, channel, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pendingRequests, id)
	}, true
}

// Deliver passes a client's response to the request that waits for it. It drops responses with an
// unknown id and repeated responses.
func (l *State) Deliver(id string, answer Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if channel := l.pendingRequests[id]; channel != nil {
		delete(l.pendingRequests, id)
		channel <- Response{answer.Result.Clone(), answer.Failure.Clone()}
	}
}

// idle reports whether there is no state left to keep.
func (l *State) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) == 0 && len(l.pendingRequests) == 0 && len(l.watching) == 0 && len(l.watchers) == 0 && l.LogLevel.Load() == 0 && l.knownListDigests == nil
}

// KnownLists returns the lists that the client knows: those of the last notification, or else those
// at the beginning of the session.
func (l *State) KnownLists(begun Digests) Digests {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.knownListDigests != nil {
		return *l.knownListDigests
	}
	return begun
}

// SetKnownLists records the lists as of a notification.
func (l *State) SetKnownLists(begun, now Digests) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.knownListDigests = &now
	if now == begun {
		l.knownListDigests = nil
	}
}

// Watch registers a stream of the client. Notifications go to the latest stream only: a message must
// not be sent on two streams (MCP 2025-11-25, Streamable HTTP, Multiple Connections), and the older
// ones may be broken.
func (l *State) Watch(w *Watcher) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) > 0 {
		l.watchers[len(l.watchers)-1].HandOver(w)
	}
	l.watchers = append(l.watchers, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		at := slices.Index(l.watchers, w)
		if at < 0 {
			return
		}
		last := at == len(l.watchers)-1
		l.watchers = slices.Delete(l.watchers, at, at+1)
		if last && at > 0 {
			w.HandOver(l.watchers[at-1])
		}
	}
}

// WatchedBy returns the subscribed resources if w is the stream that sends notifications, otherwise
// nil.
func (l *State) WatchedBy(w *Watcher) []string {
	l.mu.Lock()
	sends := len(l.watchers) > 0 && l.watchers[len(l.watchers)-1] == w
	l.mu.Unlock()
	if !sends {
		return nil
	}
	return l.Watched()
}

// Watched returns the URIs of the resources that the client has subscribed to.
func (l *State) Watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	uris := make([]string, 0, len(l.watching))
	for uri := range l.watching {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}

// Subscribe adds a resource to those that the client watches. It returns false if the client already
// watches session.MaxWatched others.
func (l *State) Subscribe(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, watched := l.watching[uri]
	if !watched && len(l.watching) >= MaxWatched {
		return false
	}
	if l.watching == nil {
		l.watching = make(map[string]version)
	}
	l.watching[uri] = known
	return true
}

// Saw records the version of a watched resource, and reports whether it differs from the last known one, before.
func (l *State) Saw(uri, stamp string) (before string, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, watched := l.watching[uri]
	if watched {
		l.watching[uri] = version{stamp, true}
	}
	return last.stamp, last.known && last.stamp != stamp
}

// Unsubscribe removes a resource from those that the client watches.
func (l *State) Unsubscribe(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watching, uri)
}
