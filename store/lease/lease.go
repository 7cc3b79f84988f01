// Package lease lets one node at a time work on a record of a store, also if nodes die, their clocks differ
// a little, or the store fails for a while.
//
// A record that nodes work on has a [Lease] among its data, in whatever form its owner encodes it. A node
// claims the record with [Take], or in a transaction of its own: if [Terms.IsFree], it calls [Terms.Take] and then [Hold].
// The [Claim] then works on the record:
//
//   - Change and End change the record only while it has the token of the claim. Each claim has another
//     token, so a node that was believed dead and comes back cannot overwrite the work of its successor.
//   - Keep extends the lease while the work lasts, and reports if the claim has lost it.
//   - End ends the claim. The record can be claimed again at once, at a later time ([Terms.Retry]), or, if its
//     owner says so in the record, never.
//
// If a node dies, its lease expires, and the next claim finds [Lease.Token] still set: it is unknown how far
// the work came. The owner of the record decides whether it may be done again.
//
// Wait waits for a change of a record, List is the index of the records of an owner, and Dispatcher finds
// records to claim. The package is the one protocol under idempotent OTC calls, MCP tasks, hosted runs, reviews
// and notices.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// ErrLost means that the claim no longer holds the lease: another claim has it, or the work has ended.
var ErrLost = errors.New("the lease is lost")

// Lease says which claim works on a record, or when the next one may. The zero value is free.
type Lease struct {
	Node  string    `json:"node,omitzero"`  // of the claim
	Token string    `json:"token,omitzero"` // differs for each claim; "" if there is none
	Until time.Time `json:"until,omitzero"` // end of the lease; without a claim, the earliest time of the next one
	Tries int       `json:"tries,omitzero"` // claims so far; the owner of the record may reset it
	Seq   int64     `json:"seq,omitzero"`   // number of claims and of changes by them, without extensions
}

// HasToken reports whether the claim with that token has the lease.
func (l *Lease) HasToken(token string) bool { return l.Token != "" && l.Token == token }

// Clear ends the claim, if there is one. The record can be claimed at once.
func (l *Lease) Clear() { l.Node, l.Token, l.Until = "", "", time.Time{} }

// Terms are the conditions under which nodes claim records of one kind.
type Terms struct {
	// Duration is how long a claim holds a lease that it does not extend. The clocks of the nodes must differ
	// by less. Required.
	Duration time.Duration

	// Node is the name of this node in the leases that it takes.
	Node string
	// Process is set if no other process can use the store: see ProcessOf. The names of all nodes of this
	// process begin with it. The leases of other nodes are void, because their processes have ended.
	Process string

	// Pause is the pause after the first claim that ends with Retry. It doubles with each further one, up to
	// MaxPause. After MaxTries claims, Retry allows no further one; 0 means that there is no limit.
	Pause, MaxPause time.Duration
	MaxTries        int

	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Failed is called with errors of the store that no caller gets. Default: none.
	Failed func(error)
}

// process is a name of this process that no other process has.
var process = newToken()

// ProcessOf returns a name of this process if no other process can use the store, otherwise "".
func ProcessOf(s store.Store) string {
	if s.Exclusive() {
		return process
	}
	return ""
}

// TokenSize is the length of tokens, and of what ProcessOf returns, in bytes.
const TokenSize = 13

func newToken() string { return rand.Text()[:TokenSize] } // 65 bits

func (t *Terms) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

func (t *Terms) failed(err error) {
	if t.Failed != nil && err != nil {
		t.Failed(err)
	}
}

// MayBeAlive reports whether a node with that name may exist.
func (t *Terms) MayBeAlive(node string) bool { return strings.HasPrefix(node, t.Process) }

// IsHeld reports whether a claim may be working on the record.
func (t *Terms) IsHeld(l *Lease) bool {
	return l.Token != "" && t.now().Before(l.Until) && t.MayBeAlive(l.Node)
}

// IsFree reports whether the record may be claimed now: nothing holds its lease, and the time of the next
// claim has come.
func (t *Terms) IsFree(l *Lease) bool {
	return !t.now().Before(l.Until) || l.Token != "" && !t.MayBeAlive(l.Node)
}

// Take gives the lease to a new claim. It is called in the transaction that changes the record, after IsFree.
func (t *Terms) Take(l *Lease) {
	*l = Lease{Node: t.Node, Token: newToken(), Until: t.end(), Tries: l.Tries + 1, Seq: l.Seq + 1}
}

// end returns the end of a lease that is taken or extended now.
func (t *Terms) end() time.Time { return t.now().Add(t.Duration).UTC().Round(0) }

// Retry sets the time of the next claim after one that has failed. It reports whether there may be one. It
// is called in the function of Claim.End.
func (t *Terms) Retry(l *Lease) bool {
	pause := t.Pause
	for i := 1; i < l.Tries && pause < t.MaxPause; i++ {
		pause *= 2
	}
	l.Until = t.now().Add(min(pause, t.MaxPause)).UTC().Round(0)
	return t.MaxTries == 0 || l.Tries < t.MaxTries
}

// A Transaction calls change with a record and its lease, and writes what change makes of them, unless change
// returns an error: then it returns that error. It may call change more than once. If there is no record, it
// returns an error, or calls change with an empty one.
type Transaction[R any] func(ctx context.Context, change func(r R, l *Lease) error) error

// Limits of operations of a Claim.
const (
	operationTime    = 5 * time.Second        // of one transaction
	extensions       = 3                      // in the duration of a lease
	firstRepeatPause = 100 * time.Millisecond // of Repeat; doubles each time
	maxRepeatPause   = 5 * time.Second
)

// A Claim is the exclusive right of this node to work on a record. It is safe for concurrent use.
type Claim[R any] struct {
	terms    *Terms
	transact Transaction[R]
	token    string

	mu  sync.Mutex // serializes transactions
	seq int64      // of the lease after the latest change that is known to be written

	keeper keeper
}

// A keeper extends the lease of a claim.
type keeper struct {
	ctx   context.Context
	lost  func()
	timer *time.Timer

	running sync.Mutex
	ended   bool
}

// errNotTaken means that Take has made no claim.
var errNotTaken = errors.New("the record was not claimed")

// Take claims a record if isOpen returns true and the lease is free. Otherwise the claim is nil. The end of the context
// does not cancel the transaction: a claim that is written and not returned would hold the lease until it expires.
func Take[R any](ctx context.Context, t *Terms, transact Transaction[R], isOpen func(R) bool) (c *Claim[R], err error) {
	ctx, cancel := store.Detach(ctx, operationTime)
	defer cancel()
	err = transact(ctx, func(r R, l *Lease) error {
		if !isOpen(r) || !t.IsFree(l) {
			return errNotTaken
		}
		t.Take(l)
		c = Hold(t, transact, l)
		return nil
	})
	switch {
	case errors.Is(err, errNotTaken):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return c, nil
}

// Hold returns the claim that has just taken a lease, in a transaction of its own.
func Hold[R any](t *Terms, transact Transaction[R], taken *Lease) *Claim[R] {
	return &Claim[R]{terms: t, transact: transact, token: taken.Token, seq: taken.Seq}
}

// Token returns the token of the claim.
func (c *Claim[R]) Token() string { return c.token }

// Change changes the record and extends the lease. The error is ErrLost, that of the transaction, or that of
// change. If the store fails, it is unknown whether the record was changed. Then the same change can be made
// again: if the earlier attempt was written, Change has no effect and returns nil.
//
// The end of the context does not cancel the change.
func (c *Claim[R]) Change(ctx context.Context, change func(r R, l *Lease) error) error {
	return c.write(ctx, false, change)
}

// End is Change, and ends the claim. The record can be claimed again, unless change says otherwise: it gets the
// lease as it is without the claim, and may call Terms.Retry.
func (c *Claim[R]) End(ctx context.Context, change func(r R, l *Lease) error) error {
	return c.write(ctx, true, change)
}

// Release ends the claim as if it had not been made.
func (c *Claim[R]) Release(ctx context.Context) error {
	return c.End(ctx, func(_ R, l *Lease) error {
		l.Tries--
		return nil
	})
}

// errWritten means that an earlier attempt at the same change was written.
var errWritten = errors.New("the change was written before")

func (c *Claim[R]) write(ctx context.Context, end bool, change func(r R, l *Lease) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := store.Detach(ctx, operationTime)
	defer cancel()
	err := c.transact(ctx, func(r R, l *Lease) error {
		switch isHolder := l.HasToken(c.token); {
		case l.Seq == c.seq+1 && (isHolder || l.Token == ""):
			return errWritten
		case !isHolder || l.Seq != c.seq:
			return ErrLost
		}
		l.Seq++
		l.Until = c.terms.end()
		if end {
			l.Clear()
		}
		return change(r, l)
	})
	if err != nil && !errors.Is(err, errWritten) {
		return err
	}
	c.seq++
	return nil
}

// Keep extends the lease regularly until stop is called. If the claim has lost the lease, or the record is
// gone (store.ErrNotFound), Keep calls lost once and ends. Lost may be nil, and must not call stop. When stop has
// returned, Keep changes the record no more. The end of the context has no effect. Keep is called once.
func (c *Claim[R]) Keep(ctx context.Context, lost func()) (stop func()) {
	k := &c.keeper
	k.running.Lock()
	defer k.running.Unlock()
	k.ctx, k.lost = ctx, lost
	k.timer = time.AfterFunc(c.terms.Duration/extensions, c.extend)
	return k.stop
}

// extend extends the lease once.
func (c *Claim[R]) extend() {
	k := &c.keeper
	k.running.Lock()
	defer k.running.Unlock()
	if k.ended {
		return
	}
	interval := c.terms.Duration / extensions
	ctx, cancel := store.Detach(k.ctx, min(interval, operationTime))
	defer cancel()
	err := c.transact(ctx, func(_ R, l *Lease) error {
		if !l.HasToken(c.token) {
			return ErrLost
		}
		l.Until = c.terms.end()
		return nil
	})
	if !errors.Is(err, ErrLost) && !errors.Is(err, store.ErrNotFound) {
		c.terms.failed(err)
		k.timer.Reset(interval)
		return
	}
	k.ended = true
	if k.lost != nil {
		k.lost()
	}
}

func (k *keeper) stop() {
	k.timer.Stop()
	k.running.Lock()
	defer k.running.Unlock()
	k.ended = true
}

// Repeat calls attempt until it succeeds, with growing pauses: nil, or an error that further attempts do not
// change (ErrLost, store.ErrNotFound, ErrTooLarge, ErrClosed), ends it, and so does the context. It returns the last
// error, and reports the others to Terms.Failed.
func (t *Terms) Repeat(ctx context.Context, attempt func() error) error {
	for pause := firstRepeatPause; ; pause = min(2*pause, maxRepeatPause) {
		err := attempt()
		for _, final := range []error{ErrLost, store.ErrNotFound, store.ErrTooLarge, store.ErrClosed} {
			if errors.Is(err, final) {
				return err
			}
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			t.failed(err)
		}
	}
}
