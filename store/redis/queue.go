package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

const (
	queueGroup   = "nodes"               // the consumer group of each stream
	queueField   = "job"                 // the field of an entry with Job.ID
	queueOwner   = "owner"               // the field of an entry with Job.Owner
	queueBlock   = time.Second           // maximum time of one read; Take may return that much later than its context ends
	queueRecheck = 50 * time.Millisecond // the same while some lanes are skipped
	queueIdle    = 30 * time.Second      // time after which a job that was not acknowledged is delivered again
	queueLength  = 100_000               // approximate maximum of jobs
	queueOwnTime = time.Hour             // lifetime of a node's own stream after its last use
)

// Queue is a store.Queue that distributes jobs over nodes with Redis Streams. Each lane has a stream with
// jobs for any node, and each node has a stream of its own. One read takes at most one job of each stream.
// A consumer group delivers each job to one node. If that node does not acknowledge the job, another node
// gets it after queueIdle.
type Queue struct {
	connection *connection
	key        string
	lanes      [store.Lanes]string // keys of the streams
	idle       time.Duration       // queueIdle, except in tests

	mu      sync.Mutex
	ready   []delivered // read together with another job
	claimed time.Time   // time of the last search for jobs of dead nodes
}

// delivered is a job that was read and not acknowledged.
type delivered struct {
	stream, id string
	job        store.Job
}

// Queue returns the queue of that name. It ends with the store.
func (s *Store) Queue(name string) store.Queue {
	q := &Queue{connection: s.connection, key: s.options.Prefix + "queue/" + name, idle: queueIdle}
	for lane := range q.lanes {
		q.lanes[lane] = q.key + "/lane/" + strconv.Itoa(lane)
	}
	return q
}

// own returns the key of the stream of a node.
func (q *Queue) own(node string) string { return q.key + "/" + node }

// Push adds a job for a node, or for any if node is "".
func (q *Queue) Push(ctx context.Context, job store.Job, node string) error {
	ctx, done := q.connection.begin(ctx)
	defer done()
	key := q.lanes[job.Lane()]
	if node != "" {
		key = q.own(node)
	}
	_, err := q.pipelined(ctx, func(commands redis.Pipeliner) {
		commands.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: queueLength, Approx: true, Values: []string{queueField, job.ID, queueOwner, job.Owner}})
		if node != "" {
			commands.PExpire(ctx, key, queueOwnTime)
		}
	})
	return q.connection.explain(ctx, err)
}

// pipelined sends commands together. If the server changes, commands may run twice.
func (q *Queue) pipelined(ctx context.Context, add func(redis.Pipeliner)) (results []redis.Cmder, err error) {
	err = q.connection.run(ctx, func(client *redis.Client) error {
		commands := client.Pipeline()
		add(commands)
		results, err = commands.Exec(ctx)
		return err
	})
	return results, err
}

// keep extends the lifetime of a node's own stream.
func (q *Queue) keep(ctx context.Context, node string) error {
	return q.connection.run(ctx, func(client *redis.Client) error { return client.PExpire(ctx, q.own(node), queueOwnTime).Err() })
}

// Take blocks until there is a job for the node, and returns it. ack acknowledges the job. Each
// node needs its own name.
func (q *Queue) Take(ctx context.Context, node string, skip func(lane int) bool) (job store.Job, ack func(), err error) {
	for {
		if next, ok := q.next(); ok {
			return next.job, func() { q.acknowledge(next) }, nil
		}
		if err := ctx.Err(); err != nil {
			return job, nil, err
		}
		if err := q.read(ctx, node, skip); err != nil {
			return job, nil, q.connection.explain(ctx, err)
		}
	}
}

func (q *Queue) next() (next delivered, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return next, false
	}
	next, q.ready = q.ready[0], q.ready[1:]
	return next, true
}

func (q *Queue) add(stream string, messages []redis.XMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range messages {
		id, _ := m.Values[queueField].(string)
		owner, _ := m.Values[queueOwner].(string)
		q.ready = append(q.ready, delivered{stream, m.ID, store.Job{ID: id, Owner: owner}})
	}
}

// read adds jobs to q.ready, if some arrive within queueBlock.
func (q *Queue) read(ctx context.Context, node string, skip func(lane int) bool) error {
	streams := []string{q.own(node)}
	for lane, key := range q.lanes {
		if skip == nil || !skip(lane) {
			streams = append(streams, key)
		}
	}
	block := queueBlock
	switch {
	case len(streams) == 1:
	case q.mayClaim():
		if found, err := q.claim(ctx, node); err != nil {
			return q.create(ctx, node, err)
		} else if found {
			return nil
		}
	case len(streams) <= len(q.lanes):
		block = queueRecheck
	}
	for range streams {
		streams = append(streams, ">")
	}
	var read []redis.XStream
	err := q.connection.run(ctx, func(client *redis.Client) (err error) {
		read, err = client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: queueGroup, Consumer: node, Streams: streams, Count: 1, Block: block,
		}).Result()
		return err
	})
	switch {
	case errors.Is(err, redis.Nil):
		return q.keep(ctx, node)
	case err != nil:
		return q.create(ctx, node, err)
	}
	for _, s := range read {
		q.add(s.Stream, s.Messages)
	}
	return nil
}

// claim adds jobs of dead nodes to q.ready, at most one of each lane.
func (q *Queue) claim(ctx context.Context, node string) (found bool, err error) {
	results := make([]*redis.XAutoClaimCmd, len(q.lanes))
	_, err = q.pipelined(ctx, func(commands redis.Pipeliner) {
		for lane, key := range q.lanes {
			results[lane] = commands.XAutoClaim(ctx, &redis.XAutoClaimArgs{
				Stream: key, Group: queueGroup, Consumer: node, MinIdle: q.idle, Start: "0", Count: 1,
			})
		}
	})
	for lane, result := range results {
		if result == nil {
			continue // no server
		}
		claimed, _ := result.Val()
		found = found || len(claimed) > 0
		q.add(q.lanes[lane], claimed)
	}
	return found, err
}

// mayClaim reports whether the next search for jobs of dead nodes is due.
func (q *Queue) mayClaim() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if now.Sub(q.claimed) < q.idle/2 {
		return false
	}
	q.claimed = now
	return true
}

// create creates the streams and groups if err says that they are missing.
func (q *Queue) create(ctx context.Context, node string, err error) error {
	if !strings.HasPrefix(err.Error(), "NOGROUP") {
		return err
	}
	results, _ := q.pipelined(ctx, func(commands redis.Pipeliner) {
		for _, key := range append(q.lanes[:], q.own(node)) {
			commands.XGroupCreateMkStream(ctx, key, queueGroup, "0")
		}
	})
	for _, result := range results {
		if err := result.Err(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return err
		}
	}
	return q.keep(ctx, node)
}

// acknowledge removes a job. If that fails, the job is delivered again.
func (q *Queue) acknowledge(d delivered) {
	ctx, done := q.connection.begin(context.Background())
	defer done()
	_, _ = q.pipelined(ctx, func(commands redis.Pipeliner) {
		commands.XAck(ctx, d.stream, queueGroup, d.id)
		commands.XDel(ctx, d.stream, d.id)
	})
}

// Leave implements store.Queue. It removes the stream and the consumer of the node. Jobs that were read and that Take
// has not returned go to other nodes, too; other unacknowledged jobs are lost.
func (q *Queue) Leave(ctx context.Context, node string) error {
	ctx, done := q.connection.begin(ctx)
	defer done()
	var own []redis.XMessage
	err := q.connection.run(ctx, func(client *redis.Client) (err error) {
		own, err = client.XRangeN(ctx, q.own(node), "-", "+", queueLength).Result()
		return err
	})
	if err != nil {
		return q.connection.explain(ctx, err)
	}
	q.add(q.own(node), own)
	q.mu.Lock()
	ready := q.ready
	q.ready = nil
	q.mu.Unlock()
	_, err = q.pipelined(ctx, func(commands redis.Pipeliner) {
		for _, d := range ready {
			commands.XAdd(ctx, &redis.XAddArgs{Stream: q.lanes[d.job.Lane()], Values: []string{queueField, d.job.ID, queueOwner, d.job.Owner}})
			commands.XDel(ctx, d.stream, d.id)
		}
		for _, key := range q.lanes {
			commands.XGroupDelConsumer(ctx, key, queueGroup, node)
		}
		commands.Del(ctx, q.own(node))
	})
	return q.connection.explain(ctx, err)
}
