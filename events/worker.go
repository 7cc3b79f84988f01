package events

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Times of a Worker.
const (
	workerLease    = 10 * time.Second // after which another node goes on, if a node has died
	firstPause     = time.Second      // before the next attempt
	maxWorkerPause = time.Minute      // after several failures
)

// A Worker works on one node at a time, and remembers how far it came in a log.
type Worker struct {
	Open   func(context.Context) (store.Store, error)
	Key    string                                // of its record in the store
	First  func(context.Context) (Cursor, error) // returns the position of a new record; default: "", before the oldest event
	Ready  func()                                // called when the record exists, on each node; may be nil
	Failed func(error)                           // called with errors of Work and of the store

	// Work works from a position until its context ends. If it returns early, it is called again, from the position that it has saved last.
	Work func(ctx context.Context, st store.Store, from Cursor, save func(Cursor) error) error

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// progress is the record of a Worker.
type progress struct {
	Cursor Cursor      `json:"cursor"`
	Lease  lease.Lease `json:"lease,omitzero"`
}

// Start begins to work, whenever no other node does.
func (w *Worker) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.running.Go(func() { w.run(ctx) })
}

// Stop ends the work, and waits until it has ended. It has no effect before Start.
func (w *Worker) Stop() {
	if w.cancel != nil {
		w.cancel()
		w.running.Wait()
	}
}

func (w *Worker) run(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := w.try(ctx)
		if err == nil || ctx.Err() != nil || time.Since(began) > maxWorkerPause {
			pause = firstPause
		} else {
			pause = min(2*pause, maxWorkerPause)
		}
		if err != nil && ctx.Err() == nil {
			w.Failed(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// try works as long as this node has the lease of the record. If another node has it, try returns at once.
func (w *Worker) try(ctx context.Context) error {
	st, err := w.Open(ctx)
	if err != nil {
		return err
	}
	var first Cursor
	if w.First != nil {
		if first, err = w.First(ctx); err != nil {
			return err
		}
	}
	process := lease.ProcessOf(st)
	terms := &lease.Terms{Duration: workerLease, Node: process + rand.Text(), Process: process}
	var from Cursor
	claim, err := lease.Take(ctx, terms, w.transaction(st, first), func(p *progress) bool {
		from = p.Cursor
		return true
	})
	if err == nil && w.Ready != nil {
		w.Ready()
	}
	if claim == nil || err != nil {
		return err
	}
	working, lost := context.WithCancel(ctx)
	defer lost()
	stop := claim.Keep(ctx, lost)
	defer func() {
		stop()
		_ = claim.End(ctx, func(*progress, *lease.Lease) error { return nil }) // otherwise the lease expires
	}()
	err = w.Work(working, st, from, func(at Cursor) error {
		return claim.Change(working, func(p *progress, _ *lease.Lease) error {
			p.Cursor = at
			return nil
		})
	})
	if working.Err() != nil {
		return nil
	}
	return err
}

func (w *Worker) transaction(st store.Store, first Cursor) lease.Transaction[*progress] {
	return func(ctx context.Context, change func(*progress, *lease.Lease) error) error {
		return st.Update(ctx, w.Key, func(old store.Record) (store.Change, error) {
			p := progress{Cursor: first}
			if old.Value != nil {
				if err := stored.Decode("events", w.Key, old.Value, &p); err != nil {
					return store.Change{}, err
				}
			}
			if err := change(&p, &p.Lease); err != nil {
				return store.Change{}, err
			}
			value, err := json.Marshal(p)
			return store.Change{Value: value, TTL: store.MaxTTL}, err
		})
	}
}
