package agents

import (
	"context"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/oagent"
)

// GuardKey is what tells the guards of one configuration apart.
type GuardKey struct {
	TTL, ReviewWait time.Duration
	MaxRecorded     int64 // bytes
}

// sharedGuards are the guards of one configuration: handlers with equal options
// have one, and so one memory of what is in the store.
type sharedGuards struct {
	mu   sync.Mutex
	made map[GuardKey]*oagent.Guard
}

// Guard returns the guard of those options. It opens the store.
func (a *App) Guard(ctx context.Context, key GuardKey) (*oagent.Guard, error) {
	s, err := a.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	a.guards.mu.Lock()
	defer a.guards.mu.Unlock()
	if g := a.guards.made[key]; g != nil {
		return g, nil
	}
	g, err := oagent.NewGuard(oagent.GuardOptions{
		Store: s, TTL: key.TTL, ReviewWait: key.ReviewWait, MaxPayload: int(key.MaxRecorded), AskPause: a.Pace.Pause, Notify: a.notify,
	})
	if err != nil {
		return nil, err
	}
	if a.guards.made == nil {
		a.guards.made = make(map[GuardKey]*oagent.Guard)
	}
	a.guards.made[key] = g
	return g, nil
}

// AskPace is how often agents are asked.
type AskPace struct {
	Scan      time.Duration // between two looks at what other nodes have left to be asked
	Elsewhere time.Duration // before a question is looked at again that somebody else has
	Pause     time.Duration // see oagent.GuardOptions.AskPause
}

func defaultPace() AskPace {
	return AskPace{Scan: 15 * time.Second, Elsewhere: 5 * time.Second, Pause: oagent.DefaultAskPause}
}
