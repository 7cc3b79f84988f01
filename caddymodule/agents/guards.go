package agents

import (
	"context"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/oagent"
)

// GuardKey identifies a guard of one configuration by its options.
type GuardKey struct {
	TTL, ReviewWait time.Duration
	MaxRecorded     int64 // bytes
}

// sharedGuards are the guards of one configuration. Handlers with equal options share one
// guard, and so one cache of the records in the store.
type sharedGuards struct {
	mu   sync.Mutex
	made map[GuardKey]*oagent.Guard
}

// Guard returns the guard with those options. It opens the store.
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

// AskPace says how often reviewing agents are contacted.
type AskPace struct {
	Scan      time.Duration // interval between scans for reviews that other nodes have left pending
	Elsewhere time.Duration // delay before checking again a review that another node is handling
	Pause     time.Duration // see oagent.GuardOptions.AskPause
}

// defaultPace returns the intervals used in production.
func defaultPace() AskPace {
	return AskPace{Scan: 15 * time.Second, Elsewhere: 5 * time.Second, Pause: oagent.DefaultAskPause}
}
