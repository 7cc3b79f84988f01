package caddymodule

import (
	"context"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/oagent"
)

// guardKey is what tells the guards of one configuration apart.
type guardKey struct {
	ttl, reviewWait time.Duration
	maxRecorded     int64 // bytes
}

// sharedGuards are the guards of one configuration: handlers with equal options
// have one, and so one memory of what is in the store.
type sharedGuards struct {
	mu   sync.Mutex
	made map[guardKey]*oagent.Guard
}

// guard returns the guard of those options. It opens the store.
func (a *Agents) guard(ctx context.Context, key guardKey) (*oagent.Guard, error) {
	s, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	a.guards.mu.Lock()
	defer a.guards.mu.Unlock()
	if g := a.guards.made[key]; g != nil {
		return g, nil
	}
	g, err := oagent.NewGuard(oagent.GuardOptions{
		Store: s, TTL: key.ttl, ReviewWait: key.reviewWait, MaxPayload: int(key.maxRecorded), AskPause: a.pace.pause, Notify: a.notify,
	})
	if err != nil {
		return nil, err
	}
	if a.guards.made == nil {
		a.guards.made = make(map[guardKey]*oagent.Guard)
	}
	a.guards.made[key] = g
	return g, nil
}

// askPace is how often agents are asked.
type askPace struct {
	scan      time.Duration // between two looks at what other nodes have left to be asked
	elsewhere time.Duration // before a question is looked at again that somebody else has
	pause     time.Duration // see oagent.GuardOptions.AskPause
}

func defaultPace() askPace {
	return askPace{scan: 15 * time.Second, elsewhere: 5 * time.Second, pause: oagent.DefaultAskPause}
}
