package run

import "time"

// lease is the exclusive right of a node to work on a run. Each change that the node makes
// requires its token and prolongs the lease. After its end, another node may take the run over.
// The clocks of the nodes must agree within less than Options.Lease.
type lease struct {
	Node  string    `json:"node"`
	Token string    `json:"token"` // differs for each lease
	Until time.Time `json:"until"`
}

func (l *lease) isHeld(now time.Time) bool { return l != nil && now.Before(l.Until) }

func (l *lease) hasToken(token string) bool { return l != nil && l.Token == token }
