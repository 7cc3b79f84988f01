package run

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// presence records which nodes are alive. A node that has not announced itself for Options.Lease is
// dead, and other nodes may claim the runs whose home it was.
type presence struct{ *Runner }

const (
	nodeKey          = "run-node/" // followed by the name of the node
	announcesInLease = 3
)

// announceRegularly records that this node is alive.
func (r presence) announceRegularly() {
	for r.running.Err() == nil {
		r.report("", r.options.Store.Put(r.running, nodeKey+r.options.Node, store.Change{
			Value: []byte(r.options.Now().UTC().Format(time.RFC3339)), TTL: r.options.Lease,
		}))
		pause(r.running, r.options.Lease/announcesInLease)
	}
}

// isAlive reports whether a node is alive. If the store fails, the node counts as alive.
func (r presence) isAlive(ctx context.Context, node string) (bool, error) {
	if !r.options.mayBeAlive(node) {
		return false, nil
	}
	_, err := r.options.Store.Get(ctx, nodeKey+node)
	if isNotFound(err) {
		return false, nil
	}
	return true, err
}
