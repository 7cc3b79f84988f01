package library

import (
	"context"
	"slices"
	"sync"
	"time"
)

// DefaultWatchRate is the default for Options.WatchRate, in requests per second.
const DefaultWatchRate = 20

// Polls are the inner requests that check watched resources of the API for changes. Streams of the
// same identity share one poll of a resource, and a rate limit applies to all polls together. If the
// rate is too low to poll everything once per interval, each resource is polled less often: clients
// take turns, and so do the resources of one client.
type Polls struct {
	Interval time.Duration // maximum age of a stamp
	Rate     int           // Polls per second

	mu       sync.Mutex
	byKey    map[PollKey]*poll
	byClient map[string]int // number of polled resources per client
	swept    time.Time      // when sweep last ran
	turns    turns
}

// A PollKey identifies one resource as one identity sees it.
type PollKey struct {
	Client   string // Client whose turn the poll takes: a user or, without users, an address
	Identity string // identifies the caller to the API
	URI      string
}

// A poll is one request for a resource. Its fields are set when done is closed.
type poll struct {
	done chan struct{}

	begun     time.Time
	stamp     string
	ok        bool
	abandoned bool // the polling stream ended before there was a result
}

// Version returns the version of the resource, from request or from a poll of another stream within the
// interval. ok is false if the version is unknown.
func (p *Polls) Version(ctx context.Context, key PollKey, request func() (string, bool)) (stamp string, ok bool) {
	for {
		latest, mine := p.join(key)
		if mine {
			p.run(ctx, key, latest, request)
			return latest.stamp, latest.ok
		}
		select {
		case <-latest.done:
		case <-ctx.Done():
			return "", false
		}
		if !latest.abandoned {
			return latest.stamp, latest.ok
		}
	}
}

// join returns the current or recent poll of the resource. If there is none, it returns a new poll
// with mine = true, which the caller must run.
func (p *Polls) join(key PollKey) (latest *poll, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.sweep(now)
	if latest = p.byKey[key]; latest != nil {
		select {
		case <-latest.done:
			if now.Sub(latest.begun) < p.fresh(key.Client) {
				return latest, false
			}
		default:
			return latest, false
		}
	}
	if p.byKey == nil {
		p.byKey, p.byClient = make(map[PollKey]*poll), make(map[string]int)
	}
	if latest == nil {
		p.byClient[key.Client]++
	}
	latest = &poll{done: make(chan struct{})}
	p.byKey[key] = latest
	return latest, true
}

// fresh returns how long the result of a poll is used. Normally this is slightly less than the
// interval, so that a stream which polls once per interval gets a new result each time. If the rate
// is too low, it is the time that all resources of the client need.
func (p *Polls) fresh(client string) time.Duration {
	const nearly = 0.9
	turns := p.byClient[client] * len(p.byClient)
	return max(time.Duration(nearly*float64(p.Interval)), time.Duration(turns)*time.Second/time.Duration(p.Rate))
}

// sweep removes the polls of resources that are no longer watched.
func (p *Polls) sweep(now time.Time) {
	if now.Sub(p.swept) < p.Interval {
		return
	}
	p.swept = now
	for key, known := range p.byKey {
		select {
		case <-known.done:
			if now.Sub(known.begun) > 2*p.fresh(key.Client) {
				p.remove(key)
			}
		default:
		}
	}
}

func (p *Polls) remove(key PollKey) {
	delete(p.byKey, key)
	if p.byClient[key.Client]--; p.byClient[key.Client] == 0 {
		delete(p.byClient, key.Client)
	}
}

// abandon removes a poll that has no result.
func (p *Polls) abandon(key PollKey, latest *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey[key] == latest {
		p.remove(key)
	}
}

// run polls the resource when it is the client's turn.
func (p *Polls) run(ctx context.Context, key PollKey, to *poll, request func() (string, bool)) {
	to.abandoned = true // remains true if request panics
	defer func() {
		if to.abandoned {
			p.abandon(key, to)
		}
		close(to.done)
	}()
	if !p.turns.wait(ctx, key.Client, time.Second/time.Duration(p.Rate)) {
		return
	}
	to.begun = time.Now()
	to.stamp, to.ok = request()
	to.abandoned = ctx.Err() != nil
}

// turns starts polls one after the other, an interval apart. Clients that wait take turns, so a
// client with many resources does not delay the others.
type turns struct {
	mu      sync.Mutex
	next    time.Time                  // earliest start of the next poll
	ticking bool                       // whether a timer will give the next turn
	waiting map[string][]chan struct{} // by client, in order of arrival
	order   []string                   // waiting clients, in the order of their turns
}

// wait blocks until it is the client's turn. It returns false if ctx ends first.
func (t *turns) wait(ctx context.Context, client string, interval time.Duration) bool {
	turn := t.join(client, interval)
	if turn == nil {
		return true
	}
	select {
	case <-turn:
		return ctx.Err() == nil
	case <-ctx.Done():
		t.leave(client, turn)
		return false
	}
}

// join returns a channel that is closed when it is the client's turn, or nil if it is the client's
// turn now.
func (t *turns) join(client string, interval time.Duration) (turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.ticking && !now.Before(t.next) {
		t.next = now.Add(interval)
		return nil
	}
	if t.waiting == nil {
		t.waiting = make(map[string][]chan struct{})
	}
	turn = make(chan struct{})
	if len(t.waiting[client]) == 0 {
		t.order = append(t.order, client)
	}
	t.waiting[client] = append(t.waiting[client], turn)
	if !t.ticking {
		t.ticking = true
		time.AfterFunc(t.next.Sub(now), func() { t.give(interval) })
	}
	return turn
}

// leave cancels the turn of a stream that has ended.
func (t *turns) leave(client string, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting[client], turn)
	if at < 0 {
		return // the turn has just been given
	}
	if t.waiting[client] = slices.Delete(t.waiting[client], at, at+1); len(t.waiting[client]) == 0 {
		delete(t.waiting, client)
		t.order = slices.Delete(t.order, slices.Index(t.order, client), slices.Index(t.order, client)+1)
	}
}

// give gives the next client its turn.
func (t *turns) give(interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ticking = len(t.order) > 0; !t.ticking {
		return
	}
	client := t.order[0]
	t.order = t.order[1:]
	first := t.waiting[client]
	close(first[0])
	t.waiting[client] = first[1:]
	if len(first) > 1 {
		t.order = append(t.order, client)
	} else {
		delete(t.waiting, client)
	}
	t.next = time.Now().Add(interval)
	time.AfterFunc(interval, func() { t.give(interval) })
}
