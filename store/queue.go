package store

import "context"

// Queue distributes jobs over the nodes that share a store. A job is a short text, such as the key of a
// record. A job may be delivered more than once, and may be lost. The caller must have another way to
// find the work.
type Queue interface {
	// Push adds a job for a node, or for any if node is "".
	Push(ctx context.Context, job, node string) error

	// Take blocks until there is a job for the node, and returns it. ack is called when the job
	// is done or no longer needs the queue. If it is not called, the queue may deliver the job to
	// another node later.
	Take(ctx context.Context, node string) (job string, ack func(), err error)
}

// Queuer is implemented by stores that have queues. With a store that several nodes share and that has none,
// a hosted agent runs on the node that started it; another node takes over when that node ends.
type Queuer interface {
	// Queue returns the queue of that name. It ends with the store.
	Queue(name string) Queue
}
