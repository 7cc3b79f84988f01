package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

const (
	queueGroup   = "nodes"          // the consumer group of each stream
	queueField   = "job"            // the field of an entry
	queueBlock   = time.Second      // maximum time of one read; Take may return that much later than its context ends
	queueIdle    = 30 * time.Second // time after which a job that was not acknowledged is delivered again
	queueLength  = 100_000          // approximate maximum of jobs
	queueOwnTime = time.Hour        // lifetime of a node's own stream after its last use
)

// Queue is a store.Queue that distributes jobs over nodes with Redis Streams. One stream has the jobs for
// any node, and each node has a stream of its own. A consumer group delivers each job to one node. If
// that node does not acknowledge the job, another node gets it after queueIdle.
type Queue struct {
	connection *connection
	key        string
	idle       time.Duration // queueIdle, except in tests

	mu      sync.Mutex
	ready   []delivered // read together with another job
	claimed time.Time   // time of the last search for jobs of dead nodes
}

// delivered is a job that was read and not acknowledged.
type delivered struct{ stream, id, job string }

// Queue returns the queue of that name. It ends with the store.
func (s *Store) Queue(name string) store.Queue {
	return &Queue{connection: s.connection, key: s.options.Prefix + "queue/" + name, idle: queueIdle}
}

// own returns the key of the stream of a node.
func (q *Queue) own(node string) string { return q.key + "/" + node }

// Push adds a job for a node, or for any if node is "".
func (q *Queue) Push(ctx context.Context, job, node string) error {
	ctx, done := q.connection.begin(ctx)
	defer done()
	key := q.key
	if node != "" {
		key = q.own(node)
	}
	commands := q.connection.client.Pipeline()
	commands.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: queueLength, Approx: true, Values: []string{queueField, job}})
	if node != "" {
		commands.PExpire(ctx, key, queueOwnTime)
	}
	_, err := commands.Exec(ctx)
	return q.connection.explain(ctx, err)
}

// Take blocks until there is a job for the node, and returns it. ack acknowledges the job. Each
// node needs its own name.
func (q *Queue) Take(ctx context.Context, node string) (job string, ack func(), err error) {
	for {
		if next, ok := q.next(); ok {
			return next.job, func() { q.acknowledge(next) }, nil
		}
		if err := ctx.Err(); err != nil {
			q.leave(node)
			return "", nil, err
		}
		if err := q.read(ctx, node); err != nil {
			return "", nil, q.connection.explain(ctx, err)
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
		job, _ := m.Values[queueField].(string)
		q.ready = append(q.ready, delivered{stream, m.ID, job})
	}
}

// read adds jobs to q.ready, if some arrive within queueBlock.
func (q *Queue) read(ctx context.Context, node string) error {
	if q.mayClaim() {
		claimed, _, err := q.connection.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: q.key, Group: queueGroup, Consumer: node, MinIdle: q.idle, Start: "0", Count: 1,
		}).Result()
		if err != nil {
			return q.create(ctx, node, err)
		}
		if len(claimed) > 0 {
			q.add(q.key, claimed)
			return nil
		}
	}
	streams, err := q.connection.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: queueGroup, Consumer: node, Streams: []string{q.own(node), q.key, ">", ">"}, Count: 1, Block: queueBlock,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return q.connection.client.PExpire(ctx, q.own(node), queueOwnTime).Err()
	case err != nil:
		return q.create(ctx, node, err)
	}
	for _, s := range streams {
		q.add(s.Stream, s.Messages)
	}
	return nil
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
	for _, key := range []string{q.key, q.own(node)} {
		err := q.connection.client.XGroupCreateMkStream(ctx, key, queueGroup, "0").Err()
		if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return err
		}
	}
	return q.connection.client.PExpire(ctx, q.own(node), queueOwnTime).Err()
}

// acknowledge removes a job. If that fails, the job is delivered again.
func (q *Queue) acknowledge(d delivered) {
	ctx, done := q.connection.begin(context.Background())
	defer done()
	commands := q.connection.client.Pipeline()
	commands.XAck(ctx, d.stream, queueGroup, d.id)
	commands.XDel(ctx, d.stream, d.id)
	_, _ = commands.Exec(ctx)
}

// leave removes the stream and the consumer of a node. Its unacknowledged jobs are lost.
func (q *Queue) leave(node string) {
	ctx, done := q.connection.begin(context.Background())
	defer done()
	commands := q.connection.client.Pipeline()
	commands.XGroupDelConsumer(ctx, q.key, queueGroup, node)
	commands.Del(ctx, q.own(node))
	_, _ = commands.Exec(ctx)
}
