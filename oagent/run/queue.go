package run

import (
	"context"
	"sync"

	"github.com/fairwayhq/fairway/store"
)

// localQueue is a store.Queue for one node, in memory. It has each job at most once.
type localQueue struct {
	mu     sync.Mutex
	jobs   []string
	listed map[string]bool
	more   chan struct{} // has an element if jobs may be non-empty
}

// NewQueue returns a queue in memory, for a single node.
func NewQueue() store.Queue { return newLocalQueue() }

func newLocalQueue() *localQueue {
	return &localQueue{listed: make(map[string]bool), more: make(chan struct{}, 1)}
}

// Push implements store.Queue.
func (q *localQueue) Push(_ context.Context, job, _ string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.listed[job] {
		return nil
	}
	q.listed[job] = true
	q.jobs = append(q.jobs, job)
	q.signal()
	return nil
}

// Take implements store.Queue.
func (q *localQueue) Take(ctx context.Context, _ string) (string, func(), error) {
	for {
		if job, ok := q.first(); ok {
			return job, func() {}, nil
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

func (q *localQueue) first() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) == 0 {
		q.jobs = nil // releases the memory of a long queue
		return "", false
	}
	job := q.jobs[0]
	q.jobs = q.jobs[1:]
	delete(q.listed, job)
	if len(q.jobs) > 0 {
		q.signal()
	}
	return job, true
}

func (q *localQueue) signal() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}
