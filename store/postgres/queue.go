package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/store"
)

const (
	queueRecheck = 50 * time.Millisecond // interval at which Take searches while some lanes are skipped
	queueIdle    = 30 * time.Second      // time after which a job that was not acknowledged is delivered again
	queueLength  = 100_000               // approximate maximum of jobs in all queues
	queueOwnTime = time.Hour             // lifetime of a job for one node
	laneOfNode   = -1                    // lane of jobs for one node
)

// Queue is a store.Queue that distributes jobs over nodes. A taken job stays in the table until it is acknowledged. If
// it is not, it is delivered again after queueIdle.
type Queue struct {
	connection *connection
	feed       *feed
	name       string
	idle       time.Duration // queueIdle, except in tests

	mu   sync.Mutex
	last int // lane of the job that was taken last; the search for the next begins after it
}

// Queue returns the queue of that name. It ends with the store.
func (s *Store) Queue(name string) store.Queue {
	return &Queue{connection: s.connection, feed: s.feed, name: name, idle: queueIdle, last: laneOfNode}
}

// waiting returns the name of the queue in the feed.
func (q *Queue) waiting() string { return "queue " + q.name }

// Push adds a job for a node, or for any if node is "".
func (q *Queue) Push(ctx context.Context, job store.Job, node string) error {
	lane := job.Lane()
	if node != "" {
		lane = laneOfNode
	}
	const statement = "INSERT INTO jobs (queue, node, lane, job, owner) VALUES ($1, $2, $3, $4, $5)"
	err := q.connection.exec(ctx, statement, []byte(q.name), []byte(node), lane, []byte(job.ID), []byte(job.Owner))
	if err == nil {
		q.feed.changed(q.waiting())
	}
	return err
}

// Take blocks until there is a job for the node, and returns it. ack removes the job. Each node needs its own name.
func (q *Queue) Take(ctx context.Context, node string, skip func(lane int) bool) (job store.Job, ack func(), err error) {
	changed, leave := q.feed.waiters.Join(q.waiting())
	defer leave()
	for ctx.Err() == nil {
		lanes := q.lanes(skip)
		// If the search were canceled, the server might have taken a job for this node that Take does not return.
		id, job, err := q.next(context.WithoutCancel(ctx), node, lanes)
		switch {
		case err == nil:
			return job, func() { q.acknowledge(id) }, nil
		case !errors.Is(err, pgx.ErrNoRows):
			return job, nil, err
		}
		interval := min(q.idle, store.PollInterval)
		if len(lanes) <= store.Lanes {
			interval = queueRecheck
		}
		select {
		case <-changed:
		case <-time.After(interval/2 + rand.N(interval/2)): //nolint:gosec // only spreads searches
		case <-ctx.Done():
		case <-q.connection.closing:
			return job, nil, store.ErrClosed
		}
	}
	return job, nil, ctx.Err()
}

// Leave implements store.Queue.
func (q *Queue) Leave(ctx context.Context, node string) error {
	for {
		id, job, err := q.next(ctx, node, []int16{laneOfNode})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = q.Push(ctx, job, "")
		}
		if err != nil {
			return err
		}
		q.acknowledge(id)
	}
}

// lanes returns the lanes that give jobs, in the order of the search.
func (q *Queue) lanes(skip func(lane int) bool) []int16 {
	q.mu.Lock()
	defer q.mu.Unlock()
	lanes := make([]int16, 0, store.Lanes+1)
	for i := range store.Lanes + 1 {
		lane := (q.last+1+i+1)%(store.Lanes+1) - 1 // -1 to Lanes-1
		if lane == laneOfNode || skip == nil || !skip(lane) {
			lanes = append(lanes, int16(lane)) //nolint:gosec // less than store.Lanes
		}
	}
	return lanes
}

// next takes the next job, or returns pgx.ErrNoRows.
func (q *Queue) next(ctx context.Context, node string, lanes []int16) (id int64, job store.Job, err error) {
	const statement = "SELECT id, lane, job, owner FROM take_job($1, $2, $3, $4)"
	var lane int
	var name, owner []byte
	err = q.connection.timed(ctx, func(ctx context.Context) error {
		return q.connection.pool.QueryRow(ctx, statement, []byte(q.name), []byte(node), lanes, q.idle).Scan(&id, &lane, &name, &owner)
	})
	if err != nil {
		return 0, job, err
	}
	q.mu.Lock()
	q.last = lane
	q.mu.Unlock()
	return id, store.Job{ID: string(name), Owner: string(owner)}, nil
}

// acknowledge removes a job. If that fails, the job is delivered again.
func (q *Queue) acknowledge(id int64) {
	_ = q.connection.exec(context.Background(), "DELETE FROM jobs WHERE id = $1", id)
}
