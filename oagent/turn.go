package oagent

import (
	"context"
	"slices"
	"strings"
)

// Turn is the place of a call among the calls that are made together, because they are in one message of the model. The Guard
// decides about them, and records them, in the order of the message (OpenAgentSpec v1, history): so what short_circuit and
// expressions see does not depend on which call is faster. The calls that may be made run in parallel. Their results are recorded in
// the same order, after the decisions about all of them.
//
// Call.NoWait must be set: a call that waited for its reviewer would hold up the calls after it.
type Turn struct {
	// Before are the names of the calls before it in the message that have no result yet. An expression cannot read their outputs.
	Before []string

	all []Turn // of the message, in order
	at  int    // in all

	decided, ended context.Context //nolint:containedctx // signals that can be given twice
	pass, end      context.CancelFunc
}

// NewTurns returns the turns of n calls.
func NewTurns(n int) []Turn {
	all := make([]Turn, n)
	for i := range all {
		t := &all[i]
		t.all, t.at = all, i
		t.decided, t.pass = context.WithCancel(context.Background())
		t.ended, t.end = context.WithCancel(context.Background())
	}
	return all
}

// End ends the turn: the call has a result that is recorded, or there is none. Calls whose turn never ends hold up the others.
func (t *Turn) End() {
	t.pass()
	t.end()
}

// awaitDecision waits until the Guard has decided about all calls before this one, or ctx ends.
func (t *Turn) awaitDecision(ctx context.Context) {
	for i := range t.all[:t.at] {
		await(ctx, t.all[i].decided)
	}
}

// AwaitResult waits until the Guard has decided about all calls, and those before this one have ended; or until ctx ends. The caller
// has the result of the call, or knows that there will be no decision about it.
func (t *Turn) AwaitResult(ctx context.Context) {
	t.pass()
	for i := range t.all {
		await(ctx, t.all[i].decided)
	}
	for i := range t.all[:t.at] {
		await(ctx, t.all[i].ended)
	}
}

func await(ctx, signal context.Context) {
	select {
	case <-signal.Done():
	case <-ctx.Done():
	}
}

// depends reports whether an assertion may depend on the results of calls before this one, by the names in its text.
func (t *Turn) depends(expression string) bool {
	expression = strings.ReplaceAll(expression, "_", "-") // see assertion.Compile
	return slices.ContainsFunc(t.Before, func(name string) bool { return strings.Contains(expression, name) })
}
