package mcpadapter

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
)

const (
	// maxClientStates is the maximum number of sessions whose state a server keeps. At the limit, the
	// server drops the state of a session that is not in use. If all are in use, it serves the new
	// session without state: its requests cannot be canceled, and the server cannot send it
	// requests.
	maxClientStates = 100_000

	// maxForgettable is how many sessions are examined to find one that is not in use.
	maxForgettable = 64

	// maxEnded is the maximum number of ended sessions that are kept until they expire. At the
	// limit, the oldest is dropped.
	maxEnded = 100_000

	// maxRunning and maxPendingRequests limit what one client has in progress at once.
	maxRunning         = 256 // requests of the client
	maxPendingRequests = 64  // requests of the server
)

// errCanceled is the context cause of a request that the client has canceled.
var errCanceled = errors.New("the client canceled the request")

// A clientState holds the state of one session while it is in use: requests in progress, which the client
// can cancel; requests of the server that wait for a response; and subscriptions.
type clientState struct {
	mu               sync.Mutex
	running          map[string]*runningRequest // by request id
	pendingRequests  map[string]chan response   // by the id of the server's request
	level            stream.Level
	watching         map[string]bool         // subscribed resources, by URI
	watchers         []*subscription.Watcher // of the session's streams; only the last one sends notifications
	seen             subscription.Stamps     // versions of the watched resources
	knownListDigests *subscription.Digests   // lists as of the last notification; nil if unchanged since the session began
	uses             int                     // number of exchanges that use this state; guarded by clientStates.mu
}

// A runningRequest is a request of the client that is in progress, or that is registered and about
// to be served.
type runningRequest struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	begun  bool // whether serving has begun
}

// A response is a client's response to a request of the server.
type response struct {
	result, failure jsontext.Value
}

// register registers a request before it is served, so that the client can already cancel it. It
// returns false if the id is taken or too many requests are in progress; the request can still be
// served.
func (l *clientState) register(ctx context.Context, id jsontext.Value) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(ctx, string(id)) != nil
}

// unregister removes a registered request that was not served.
func (l *clientState) unregister(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil && !r.begun {
		r.cancel(nil)
		delete(l.running, string(id))
	}
}

// add returns nil if the id is taken or too many requests are in progress.
func (l *clientState) add(ctx context.Context, id string) *runningRequest {
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

// run starts serving a request of the client, which may have been registered before. The returned
// context ends when the client cancels the request. The caller must call done afterwards.
func (l *clientState) run(ctx context.Context, id jsontext.Value) (running context.Context, done func()) {
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

// cancel cancels the request with that id, if it is in progress.
func (l *clientState) cancel(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil {
		r.cancel(errCanceled)
	}
}

// expect returns a new id for a request to the client, and the channel for its response. The caller
// must call forget when it no longer waits.
func (l *clientState) expect() (id string, answer <-chan response, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pendingRequests) >= maxPendingRequests {
		return "", nil, nil, false
	}
	if l.pendingRequests == nil {
		l.pendingRequests = make(map[string]chan response)
	}
	id = "fairway-" + rand.Text()
	channel := make(chan response, 1)
	l.pendingRequests[id] = channel
	return id, channel, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pendingRequests, id)
	}, true
}

// deliver passes a client's response to the request that waits for it. It drops responses with an
// unknown id and repeated responses.
func (l *clientState) deliver(id string, answer response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if channel := l.pendingRequests[id]; channel != nil {
		delete(l.pendingRequests, id)
		channel <- response{answer.result.Clone(), answer.failure.Clone()}
	}
}

// idle reports whether there is no state left to keep.
func (l *clientState) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) == 0 && len(l.pendingRequests) == 0 && len(l.watching) == 0 && len(l.watchers) == 0 && l.level == 0 && l.knownListDigests == nil
}

// knownLists returns the lists that the client knows: those of the last notification, or else those
// at the beginning of the session.
func (l *clientState) knownLists(begun subscription.Digests) subscription.Digests {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.knownListDigests != nil {
		return *l.knownListDigests
	}
	return begun
}

// setKnownLists records the lists as of a notification.
func (l *clientState) setKnownLists(begun, now subscription.Digests) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.knownListDigests = &now; now == begun {
		l.knownListDigests = nil
	}
}

// logLevel returns the level that the client has set, 0 if it has set none.
func (l *clientState) logLevel() stream.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.level
}

// setLogLevel sets the level of the log messages that the client wants.
func (l *clientState) setLogLevel(level stream.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level = level
}

// clientStates holds the state of all sessions.
type clientStates struct {
	mu       sync.Mutex
	sessions map[sessionKey]*clientState
	over     map[sessionKey]time.Time // expiry of ended sessions
	order    []sessionKey             // keys of over, oldest first
}

// enter returns the state of a session; the caller must call leave when it is done with it. l is nil
// for a nil or ended session, and if there are too many sessions.
func (ls *clientStates) enter(s *session) (l *clientState, leave func()) {
	if s == nil {
		return nil, func() {}
	}
	return ls.use(s.key)
}

// use is enter for the session with that key.
func (ls *clientStates) use(key sessionKey) (l *clientState, leave func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l = ls.sessions[key]
	if l == nil {
		if _, ended := ls.over[key]; ended || len(ls.sessions) >= maxClientStates && !ls.forget() {
			return nil, func() {}
		}
		if ls.sessions == nil {
			ls.sessions = make(map[sessionKey]*clientState)
		}
		l = &clientState{}
		ls.sessions[key] = l
	}
	l.uses++
	return l, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if l.uses--; l.uses == 0 && l.idle() && ls.sessions[key] == l {
			delete(ls.sessions, key)
		}
	}
}

// forget drops the state of a session that is not in use: its log level, and its subscriptions
// without an open stream. It returns false if it finds none.
func (ls *clientStates) forget() bool {
	looked := 0
	for key, l := range ls.sessions {
		if l.uses == 0 {
			delete(ls.sessions, key)
			return true
		}
		if looked++; looked == maxForgettable {
			break
		}
	}
	return false
}

// end ends a session (HTTP DELETE): it cancels the requests in progress and closes the streams.
func (ls *clientStates) end(s session) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.over == nil {
		ls.over = make(map[sessionKey]time.Time)
	}
	if _, again := ls.over[s.key]; !again {
		ls.order = append(ls.order, s.key)
	}
	ls.over[s.key] = s.expires
	now := time.Now()
	for len(ls.order) > 0 && (len(ls.order) > maxEnded || now.After(ls.over[ls.order[0]])) {
		delete(ls.over, ls.order[0])
		ls.order = ls.order[1:]
	}
	if l := ls.sessions[s.key]; l != nil {
		delete(ls.sessions, s.key)
		l.end()
	}
}

// end cancels the requests in progress and closes the streams.
func (l *clientState) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.running {
		r.cancel(errCanceled)
	}
	for _, w := range l.watchers {
		w.Close()
	}
}

func (ls *clientStates) ended(key sessionKey) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, ended := ls.over[key]
	return ended
}
