package mcpadapter

import (
	"context"
	"slices"
	"sync"
	"time"
)

// DefaultWatchRate is how many requests a second watching makes to the API at most.
const DefaultWatchRate = 20

// polls are the requests to the API by which streams learn of changed resources.
// Streams of the same user share one poll of a resource, and all polls together keep
// to a rate. Where that is too low for everything that is watched, each resource is
// polled less often: clients take turns, and so do the resources of a stream.
type polls struct {
	interval time.Duration // how old a stamp may become
	rate     int           // polls a second

	mu       sync.Mutex
	byKey    map[pollKey]*poll
	byClient map[string]int // how many of them each client has
	swept    time.Time      // when old polls were last removed
	turns    turns
}

// A pollKey is one resource as one caller sees it.
type pollKey struct {
	client   string // whose turn it takes: a user or, without users, an address
	identity string // what the API sees of the caller
	uri      string
}

// A poll is one look at a resource. Its fields are set when done is closed.
type poll struct {
	done chan struct{}

	begun     time.Time
	stamp     string
	ok        bool
	abandoned bool // the stream that polled ended before there was a result
}

// stamp returns what tells one state of the resource from another, as look does, or
// what another stream has learned within the interval.
func (p *polls) stamp(ctx context.Context, key pollKey, look func() (string, bool)) (stamp string, ok bool) {
	for {
		latest, mine := p.join(key)
		if mine {
			p.run(ctx, key, latest, look)
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

// join returns the poll of the resource that is under way or recent, or a new one that
// is the caller's to run.
func (p *polls) join(key pollKey) (latest *poll, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.sweep(now)
	if latest = p.byKey[key]; latest != nil {
		select {
		case <-latest.done:
			if now.Sub(latest.begun) < p.fresh(key.client) {
				return latest, false
			}
		default:
			return latest, false
		}
	}
	if p.byKey == nil {
		p.byKey, p.byClient = make(map[pollKey]*poll), make(map[string]int)
	}
	if latest == nil {
		p.byClient[key.client]++
	}
	latest = &poll{done: make(chan struct{})}
	p.byKey[key] = latest
	return latest, true
}

// fresh returns how long the stamp of a poll holds: nearly the interval, so that a
// stream which looks every interval polls each time; or, where the rate is too low
// for that, as long as it takes to poll everything that the client watches once.
func (p *polls) fresh(client string) time.Duration {
	const nearly = 0.9
	turns := p.byClient[client] * len(p.byClient)
	return max(time.Duration(nearly*float64(p.interval)), time.Duration(turns)*time.Second/time.Duration(p.rate))
}

// sweep removes the polls of resources that nobody watches any more.
func (p *polls) sweep(now time.Time) {
	if now.Sub(p.swept) < p.interval {
		return
	}
	p.swept = now
	for key, known := range p.byKey {
		select {
		case <-known.done:
			if now.Sub(known.begun) > 2*p.fresh(key.client) {
				p.remove(key)
			}
		default:
		}
	}
}

func (p *polls) remove(key pollKey) {
	delete(p.byKey, key)
	if p.byClient[key.client]--; p.byClient[key.client] == 0 {
		delete(p.byClient, key.client)
	}
}

// abandon forgets a poll that has no result.
func (p *polls) abandon(key pollKey, latest *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey[key] == latest {
		p.remove(key)
	}
}

// run looks at the resource when it is the client's turn.
func (p *polls) run(ctx context.Context, key pollKey, to *poll, look func() (string, bool)) {
	to.abandoned = true // also if look panics
	defer func() {
		if to.abandoned {
			p.abandon(key, to)
		}
		close(to.done)
	}()
	if !p.turns.wait(ctx, key.client, time.Second/time.Duration(p.rate)) {
		return
	}
	to.begun = time.Now()
	to.stamp, to.ok = look()
	to.abandoned = ctx.Err() != nil
}

// turns lets the polls of several clients begin one after the other, an interval apart.
// Of those that wait, each client has one turn after the other.
type turns struct {
	mu      sync.Mutex
	next    time.Time                  // when the next poll may begin
	ticking bool                       // a timer gives the next turn
	waiting map[string][]chan struct{} // by client, in their order
	order   []string                   // clients that wait, in the order of their turns
}

// wait returns when it is the client's turn; false means that ctx ended before.
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

// join returns a channel that is closed when it is the client's turn, nil if it is now.
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

// leave gives up a turn, so that nobody waits for a stream that ended.
func (t *turns) leave(client string, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting[client], turn)
	if at < 0 {
		return // it has just been given
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
	if t.waiting[client] = first[1:]; len(first) > 1 {
		t.order = append(t.order, client)
	} else {
		delete(t.waiting, client)
	}
	t.next = time.Now().Add(interval)
	time.AfterFunc(interval, func() { t.give(interval) })
}
