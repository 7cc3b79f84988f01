package mcpadapter

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxLives is how many sessions a server remembers something of at once. One
	// of those that have nothing going on is forgotten for the one that is too
	// many; if all have, it is served and cannot be canceled or asked.
	maxLives = 100_000

	// maxForgettable is how many of them are looked at for one to forget.
	maxForgettable = 64

	// maxEnded is how many ended sessions are remembered until they expire. The
	// oldest is forgotten for the one that is too many.
	maxEnded = 100_000

	// maxRunning and maxAsked bound what one client has going on at once.
	maxRunning = 256 // requests
	maxAsked   = 64  // requests to the client
)

// errCanceled is the cause that ends a request which the client gave up.
var errCanceled = errors.New("the client canceled the request")

// A live is what this server remembers of one client while something is going on:
// the requests being served, which the client may cancel, those that it is asked,
// and what it wants to be told.
type live struct {
	mu       sync.Mutex
	running  map[string]*runningRequest // by the request's id
	asked    map[string]chan response   // by the id of the server's request
	level    logLevel
	watching map[string]bool // resources, by URI
	watchers []*watcher      // of its streams; the last one tells of changes
	seen     stamps          // of the resources that are watched
	told     *listDigests    // of the lists that the client was told of; nil for those when its session began
	uses     int             // of this life; guarded by lives.mu
}

// A runningRequest is a request of the client that is being served or, if it was
// registered, is about to be.
type runningRequest struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	begun  bool // it is being served
}

// A response is a client's answer to a request of the server.
type response struct {
	result, failure jsontext.Value
}

// register makes a request known before it is served, so that the client can cancel
// it from now on. It reports false if the request cannot be registered, which does
// not keep it from being served.
func (l *live) register(ctx context.Context, id jsontext.Value) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(ctx, string(id)) != nil
}

// unregister forgets a registered request that was not served.
func (l *live) unregister(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil && !r.begun {
		r.cancel(nil)
		delete(l.running, string(id))
	}
}

// add returns nil if the id is taken or too many requests are running.
func (l *live) add(ctx context.Context, id string) *runningRequest {
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

// run begins to serve a request of the client, which may have been registered. The
// returned context ends when the client cancels the request. The caller must call
// done afterwards.
func (l *live) run(ctx context.Context, id jsontext.Value) (running context.Context, done func()) {
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

// cancel ends the request of that id, if it is being served.
func (l *live) cancel(id jsontext.Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[string(id)]; r != nil {
		r.cancel(errCanceled)
	}
}

// expect returns a new id for a request to the client and where its answer comes.
// forget must be called after it.
func (l *live) expect() (id string, answer <-chan response, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) >= maxAsked {
		return "", nil, nil, false
	}
	if l.asked == nil {
		l.asked = make(map[string]chan response)
	}
	id = "fairway-" + rand.Text()
	channel := make(chan response, 1)
	l.asked[id] = channel
	return id, channel, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.asked, id)
	}, true
}

// deliver hands over the client's answer to the request of that id. An answer to
// what was not asked, or has been answered, is dropped.
func (l *live) deliver(id string, answer response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if channel := l.asked[id]; channel != nil {
		delete(l.asked, id)
		channel <- response{answer.result.Clone(), answer.failure.Clone()}
	}
}

// idle reports whether there is nothing left to remember.
func (l *live) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) == 0 && len(l.asked) == 0 && len(l.watching) == 0 && len(l.watchers) == 0 && l.level == 0 && l.told == nil
}

// knownLists returns the lists that the client of a session knows: those that it was
// told of, or else those when the session began.
func (l *live) knownLists(begun listDigests) listDigests {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told != nil {
		return *l.told
	}
	return begun
}

// tellLists notes that the client was told of the lists.
func (l *live) tellLists(begun, now listDigests) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told = &now; now == begun {
		l.told = nil
	}
}

// lives are those of all sessions.
type lives struct {
	mu       sync.Mutex
	sessions map[sessionKey]*live
	over     map[sessionKey]time.Time // when the ended ones expire
	order    []sessionKey             // of over, oldest first
}

// enter returns the session's life; leave must be called after the use of it. It
// is nil, with nothing to leave, if there are too many.
func (ls *lives) enter(s *session) (l *live, leave func()) {
	if s == nil {
		return nil, func() {}
	}
	key := s.key
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l = ls.sessions[key]
	if l == nil {
		if _, ended := ls.over[key]; ended || len(ls.sessions) >= maxLives && !ls.forget() {
			return nil, func() {}
		}
		if ls.sessions == nil {
			ls.sessions = make(map[sessionKey]*live)
		}
		l = &live{}
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

// forget forgets a session that nobody uses at the moment: the log level that it
// has set, and what it has subscribed to without a stream to be told on.
func (ls *lives) forget() bool {
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

// end ends a session for good: what it has going on is canceled, its streams
// close.
func (ls *lives) end(s session) {
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

func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.running {
		r.cancel(errCanceled)
	}
	for _, w := range l.watchers {
		w.close()
	}
}

func (ls *lives) ended(key sessionKey) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, ended := ls.over[key]
	return ended
}
