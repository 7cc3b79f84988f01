package mcpadapter

import (
	"context"
	"sync"
	"time"
)

// DefaultWatchRate is how many requests a second watching makes to the API at most.
const DefaultWatchRate = 20

// polls are the requests to the API by which streams learn of changed resources.
// Streams of the same user share one poll of a resource, and all polls together keep
// to a rate. Where that is too low for everything that is watched, each resource is
// polled less often: users take turns, and so do the resources of a user's stream.
type polls struct {
	interval time.Duration // how old a stamp may become
	rate     int           // polls a second

	mu    sync.Mutex
	byKey map[pollKey]*poll
	swept time.Time // when old polls were last removed
	turns turns
}

// A pollKey is one resource as one user sees it.
type pollKey struct{ identity, uri string }

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
			if !latest.abandoned && now.Sub(latest.begun) < p.fresh() {
				return latest, false
			}
		default:
			return latest, false
		}
	}
	if p.byKey == nil {
		p.byKey = make(map[pollKey]*poll)
	}
	latest = &poll{done: make(chan struct{})}
	p.byKey[key] = latest
	return latest, true
}

// fresh returns how long the stamp of a poll holds: nearly the interval, so that a
// stream which looks every interval polls each time; or, where the rate is too low
// for that, as long as it takes to poll everything once.
func (p *polls) fresh() time.Duration {
	const nearly = 0.9
	return max(time.Duration(nearly*float64(p.interval)), time.Duration(len(p.byKey))*time.Second/time.Duration(p.rate))
}

// sweep removes the polls of resources that nobody watches any more.
func (p *polls) sweep(now time.Time) {
	oldest := 2 * p.fresh()
	if now.Sub(p.swept) < oldest {
		return
	}
	p.swept = now
	for key, known := range p.byKey {
		select {
		case <-known.done:
			if known.abandoned || now.Sub(known.begun) > oldest {
				delete(p.byKey, key)
			}
		default:
		}
	}
}

// run looks at the resource when it is the user's turn.
func (p *polls) run(ctx context.Context, key pollKey, to *poll, look func() (string, bool)) {
	to.abandoned = true // also if look panics
	defer close(to.done)
	if !p.turns.wait(ctx, key.identity, time.Second/time.Duration(p.rate)) {
		return
	}
	to.begun = time.Now()
	to.stamp, to.ok = look()
	to.abandoned = ctx.Err() != nil
}

// turns lets the polls of several users begin one after the other, an interval apart.
// Of those that wait, each user has one turn after the other.
type turns struct {
	mu      sync.Mutex
	next    time.Time                  // when the next poll may begin
	waiting map[string][]chan struct{} // by user, in their order
	order   []string                   // users that wait, in the order of their turns
}

// wait returns when it is the user's turn; false means that ctx ended before.
func (t *turns) wait(ctx context.Context, user string, interval time.Duration) bool {
	t.mu.Lock()
	now := time.Now()
	if len(t.order) == 0 && !now.Before(t.next) {
		t.next = now.Add(interval)
		t.mu.Unlock()
		return true
	}
	if t.waiting == nil {
		t.waiting = make(map[string][]chan struct{})
	}
	turn := make(chan struct{})
	if len(t.waiting[user]) == 0 {
		t.order = append(t.order, user)
	}
	t.waiting[user] = append(t.waiting[user], turn)
	if len(t.order) == 1 && len(t.waiting[user]) == 1 {
		time.AfterFunc(t.next.Sub(now), func() { t.give(interval) })
	}
	t.mu.Unlock()
	select {
	case <-turn:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false // its turn passes unused
	}
}

// give gives the next user its turn.
func (t *turns) give(interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	user := t.order[0]
	t.order = t.order[1:]
	mine := t.waiting[user]
	close(mine[0])
	if t.waiting[user] = mine[1:]; len(mine) > 1 {
		t.order = append(t.order, user)
	} else {
		delete(t.waiting, user)
	}
	t.next = time.Now().Add(interval)
	if len(t.order) > 0 {
		time.AfterFunc(interval, func() { t.give(interval) })
	}
}
