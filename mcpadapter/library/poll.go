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
	next    time.Time // earliest start of the next poll
	ticking bool      // whether a timer will give the next turn
	waiting []waiter  // in the order of their turns
}

// A waiter is a poll that waits for its turn.
type waiter struct {
	client string
	turn   chan struct{} // closed when it is the poll's turn
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
		t.leave(turn)
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
	turn = make(chan struct{})
	t.waiting = append(t.waiting, waiter{client, turn})
	if !t.ticking {
		t.ticking = true
		time.AfterFunc(t.next.Sub(now), func() { t.give(interval) })
	}
	return turn
}

// leave cancels the turn of a stream that has ended.
func (t *turns) leave(turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(w waiter) bool { return w.turn == turn })
}

// give gives the next poll its turn. The others of its client then wait behind those of all other clients.
func (t *turns) give(interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ticking = len(t.waiting) > 0; !t.ticking {
		return
	}
	first := t.waiting[0]
	close(first.turn)
	var own, others []waiter
	for _, w := range t.waiting[1:] {
		if w.client == first.client {
			own = append(own, w)
		} else {
			others = append(others, w)
		}
	}
	t.waiting = append(others, own...)
	t.next = time.Now().Add(interval)
	time.AfterFunc(interval, func() { t.give(interval) })
}
