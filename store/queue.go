package store

import (
	"context"
	"hash/fnv"
)

// Lanes is the number of lanes of a Queue. Jobs of one owner are in one lane, and each lane gets its turn,
// so that an owner with many jobs delays those of others by little.
const Lanes = 32

// A Job is work for one of the nodes that share a store.
type Job struct {
	ID    string // a short text, such as the key of a record
	Owner string // whose job it is
}

// Lane returns the lane of the job's owner, from 0 to Lanes-1.
func (j Job) Lane() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.Owner))
	return int(h.Sum32() % Lanes)
}

// Queue distributes jobs over the nodes that share a store. A job may be delivered more than once, and may
// be lost. The caller must have another way to find the work.
type Queue interface {
	// Push adds a job for a node, or for any if node is "".
	Push(ctx context.Context, job Job, node string) error

	// Take blocks until there is a job for the node, and returns it. skip reports which lanes should
	// give no more jobs at the moment; it may be nil. ack is called when the job is done or no longer
	// needs the queue. If it is not called, the queue may deliver the job to another node later. If ctx ends
	// while a job is being taken, Take returns the job.
	Take(ctx context.Context, node string, skip func(lane int) bool) (job Job, ack func(), err error)

	// Leave passes the jobs for a node to all nodes, because it stops. It must be called after the node's last
	// Take has returned and the node has acknowledged its jobs. Jobs that are pushed for the node later stay with it.
	Leave(ctx context.Context, node string) error
}

// Queuer is implemented by stores that have queues. With a store that several nodes share and that has none,
// a hosted agent runs on the node that started it; another node takes over when that node ends.
type Queuer interface {
	// Queue returns the queue of that name. It ends with the store.
	Queue(name string) Queue
}
