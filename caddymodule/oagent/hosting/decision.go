package hosting

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/run"
)

// Decision is what the Guard has decided about a call of another agent. Calls of tools pass the oagent
// handler, which logs their decisions itself.
type Decision struct {
	*run.Invocation
	Ticket *oagent.Ticket // nil if it is not known
	Err    error          // of the Guard; nil if the call was allowed
	Status int            // HTTP status of the result; 0 if there is none
	Note   string         // what became of an allowed call without a result
	Took   time.Duration
}

// decided reports a decision.
func (h tools) decided(ctx context.Context, d *Decision) {
	if h.options.Decided != nil {
		h.options.Decided(ctx, d)
	}
}
