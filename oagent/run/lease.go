package run

import (
	"strings"
	"time"
)

// lease is the exclusive right of a node to work on a run. Each change that the node makes
// requires the token of the lease and extends it. When the lease has expired, another node may
// claim the run. The clocks of the nodes must differ by less than Options.Lease.
//
// If Options.Process is set, the lease of a node of another process is invalid: that process has
// ended.
type lease struct {
	Node  string    `json:"node"`
	Token string    `json:"token"` // differs for each lease
	Until time.Time `json:"until"`
}

// isHeld reports whether the lease is valid: a node may be working on the run.
func (o *Options) isHeld(l *lease) bool {
	return l != nil && o.Now().Before(l.Until) && o.mayBeAlive(l.Node)
}

// mayBeAlive reports whether a node with that name may exist.
func (o *Options) mayBeAlive(node string) bool {
	return o.Process == "" || strings.HasPrefix(node, o.Process+processEnd)
}

// processEnd separates the name of the process from the rest of the name of a node.
const processEnd = "."

func (l *lease) hasToken(token string) bool { return l != nil && l.Token == token }
