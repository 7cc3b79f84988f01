package hosting

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/run"
)

// Decision is a decision of the Guard about a call of another agent. Calls of tools pass the oagent
// handler, which logs the decisions about them itself.
type Decision struct {
	*run.Invocation
	Ticket *oagent.Ticket // nil if it is not known
	Err    error          // of the Guard; nil if the call was allowed
	Status int            // HTTP status of the result; 0 if there is none
	Note   string         // why an allowed call has no result
	Took   time.Duration
}

// decided reports a decision.
func (h tools) decided(ctx context.Context, d *Decision) {
	if h.options.Decided != nil {
		h.options.Decided(ctx, d)
	}
}
