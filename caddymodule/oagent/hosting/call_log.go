package hosting

import (
	"context"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/calllog"
	"github.com/fairwayhq/fairway/oagent/run"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// logAgentCall makes a call of an agent by another one, and records it in the log of recent calls. A call
// that waits, for example for the run of the called agent, is recorded when it has ended. Calls of tools
// are recorded by their toolcall.Caller.
func (h tools) logAgentCall(ctx context.Context, i *run.Invocation, c *capability, do func() run.Result) run.Result {
	recorder := h.options.App.Calls().Active().Load()
	if recorder == nil {
		return do()
	}
	call := calllog.Call{
		Site: h.options.Chain.SiteName(), Endpoint: h.options.Serve, Protocol: Protocol, Tool: c.Reference.String(),
		User: i.User.ID, Agent: i.Agent.Name,
	}
	if i.Waited != nil && i.Waited.Kind == run.WaitTask { // an earlier attempt has started the called agent
		call.Began = h.startOf(ctx, i.Waited.ID)
	}
	recorder.Begin(&call, i.Inputs)
	result := do()
	if result.Wait != nil || result.Unknown {
		recorder.Forget(&call)
		return result
	}
	call.Took = float64(time.Since(call.Began)) / float64(time.Millisecond)
	call.Outcome, call.Size = tool.OutcomeOK, len(result.Outputs)
	switch {
	case result.Refusal != nil:
		call.Outcome = string(tool.Restricted)
	case result.IsError:
		call.Outcome = tool.OutcomeOfStatus(http.StatusBadGateway)
	}
	recorder.Record(&call, nil)
	return result
}

// startOf returns the start time of a run, or the zero time if it is unknown.
func (h tools) startOf(ctx context.Context, id string) (started time.Time) {
	runner, err := h.Runner(ctx)
	if err != nil {
		return started
	}
	if st, err := runner.Get(ctx, id); err == nil {
		started = st.Started
	}
	return started
}
