package run

import "context"

// NotBusy is a condition for Await: the run has ended, or waits for something.
func NotBusy(st *State) bool { return !st.Status.IsBusy() }

// MaxListed is maxListed.
const MaxListed = maxListed

// Add is add.
func (b *Outbox) Add(ctx context.Context, run string, notices []OperatorNotice) ([]OperatorNotice, error) {
	return b.add(ctx, run, notices)
}
