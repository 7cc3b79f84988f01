package oagent_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

// TestTurn_without_a_decision checks that calls that fail before the Guard decides about them do not wait for each other.
func TestTurn_without_a_decision(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	turns := oagent.NewTurns(3)
	var group sync.WaitGroup
	for i := range turns {
		group.Go(func() {
			defer turns[i].End()
			turns[i].AwaitResult(ctx)
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		t.Error("the calls waited for each other")
	}
}
