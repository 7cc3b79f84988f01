package app

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

// guardPool has the guards of one configuration. Handlers with equal options share one
// guard, and so one cache of the records in the store.
type guardPool struct {
	mu     sync.Mutex
	guards map[GuardKey]*oagent.Guard
}

// Guard returns the guard with those options. It opens the store.
func (a *App) Guard(ctx context.Context, key GuardKey) (*oagent.Guard, error) {
	s, err := a.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	a.sharedGuards.mu.Lock()
	defer a.sharedGuards.mu.Unlock()
	if g := a.sharedGuards.guards[key]; g != nil {
		return g, nil
	}
	g, err := oagent.NewGuard(oagent.GuardOptions{
		Store: s, TTL: key.TTL, ReviewWait: key.ReviewWait, MaxPayload: int(key.MaxRecorded), RetryPause: a.ReviewPace.RetryPause, Notify: a.emitGuardEvent,
		Archive: a.Auditor.ofGuards(), EvictRefusals: a.EvictRefusedEngagements,
	})
	if err != nil {
		return nil, err
	}
	if a.sharedGuards.guards == nil {
		a.sharedGuards.guards = make(map[GuardKey]*oagent.Guard)
	}
	a.sharedGuards.guards[key] = g
	return g, nil
}

// ReviewPace says how often reviewing agents are contacted.
type ReviewPace struct {
	ScanInterval   time.Duration // interval between scans for reviews that other nodes have left pending
	OtherNodeDelay time.Duration // delay before checking again a review that another node is handling
	RetryPause     time.Duration // see oagent.GuardOptions.RetryPause
}

// defaultReviewPace returns the intervals used in production.
func defaultReviewPace() ReviewPace {
	return ReviewPace{ScanInterval: 15 * time.Second, OtherNodeDelay: 5 * time.Second, RetryPause: oagent.DefaultRetryPause}
}
