package hosted

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// agentSchema is the JSON Schema of the arguments of a hosted agent as a tool.
const agentSchema = `{"type":"object","properties":{"input":{"type":"string","description":"The message to the agent."}},"required":["input"],"additionalProperties":false}`

// describeAgent describes an agent as a tool. Repeating a call is safe: it finds the run that the
// first call has started, see run.Invocation.ChildID.
func describeAgent(name string, agent *oagent.Agent) run.Tool {
	return run.Tool{
		Tool:  model.Tool{Name: name, Description: agent.Description, Schema: jsontext.Value(agentSchema)},
		Agent: true, Idempotent: true,
	}
}

// agentCall is a call of an agent of this server by another one. It starts a run with the identity of
// the caller's user and with an Engagement of its own, and ends with that run.
type agentCall struct {
	tools  agentTools
	i      *run.Invocation
	agent  *oagent.Agent // that is called
	call   oagent.Call
	guard  *oagent.Guard
	runner *run.Runner
}

// callAgent makes a call of an agent, or finds the run that an earlier attempt has started.
func (h agentTools) callAgent(ctx context.Context, set *agentset.Set, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	opened, err := h.options.Handler.OpenGuard(ctx)
	if err != nil {
		return failed(err)
	}
	runner, err := h.Runner(ctx)
	if err != nil {
		return failed(err)
	}
	a := agentCall{tools: h, i: i, agent: c.agent, guard: opened, runner: runner, call: oagent.Call{
		Binding: i.Binding, Name: i.Name, IsAgent: true, Names: set.Names, Inputs: i.Inputs, NoWait: true, Turn: i.Turn, Uncertain: i.Uncertain,
	}}
	if i.Uncertain { // the call was made, and its result is held for a review
		return a.begin(ctx, c, o, s)
	}
	switch st, err := runner.Get(ctx, i.ChildID()); {
	case err == nil:
		return a.result(ctx, st)
	case !errors.Is(err, run.ErrNotFound):
		return failed(err)
	}
	return a.begin(ctx, c, o, s)
}

// begin starts the run if the guard allows the call.
func (a *agentCall) begin(ctx context.Context, c *capability, o *origin, s *session) run.Result {
	began := time.Now()
	ticket, err := a.guard.Begin(ctx, a.call)
	if err != nil {
		a.tools.decided(ctx, a.i, &guard.AgentCall{Err: err, Took: time.Since(began)})
		return refused(err)
	}
	if held := ticket.Replayed; held != nil {
		a.tools.decided(ctx, a.i, &guard.AgentCall{Ticket: ticket, Status: held.Status, Note: "the result was released", Took: time.Since(began)})
		return run.Result{Outputs: held.Outputs, IsError: held.Status >= http.StatusBadRequest}
	}
	input := strictjson.Text(strictjson.MemberOf(a.i.Inputs, "input"))
	child := *o
	child.Ticket, child.Trace, child.Would = ticket.Token(), calltrace.Parent(ctx), ticket.Would
	if identity := o.identity(c.Capability, true); !identity.User {
		s, child.Identified, child.Token, child.Session, child.Delegated, child.Identity = nil, false, false, "", true, identity.Static
	}
	id := a.i.ChildID()
	if s != nil {
		a.tools.shared().sessions.put(id, 0, s)
	}
	_, err = a.runner.Start(ctx, run.StartOptions{
		ID: id, Agent: a.agent, User: a.i.User, Input: input, Parent: a.i, Origin: child.encode(), Home: s != nil,
	})
	if err != nil {
		a.tools.shared().sessions.remove(id, 0)
		ticket.Abort(ctx, "the agent was not started")
		a.tools.decided(ctx, a.i, &guard.AgentCall{Ticket: ticket, Note: "the agent was not started", Took: time.Since(began)})
		return run.Notice("the agent was not started: " + err.Error())
	}
	return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: id}}
}

// result returns the result of a run that the call has started.
func (a *agentCall) result(ctx context.Context, st *run.State) run.Result {
	if !st.Status.IsFinal() {
		return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: st.ID}}
	}
	from := readOrigin(st.Origin)
	ticket, err := a.guard.Resume(a.call, from.Ticket)
	if err != nil {
		return failed(err)
	}
	ticket.Would = from.Would
	outputs, status := a.outputs(ctx, st)
	err = ticket.Finish(ctx, outputs, status)
	a.tools.decided(ctx, a.i, &guard.AgentCall{Ticket: ticket, Err: err, Status: status, Took: st.Changed.Sub(st.Started)})
	if err != nil {
		return refused(err)
	}
	return run.Result{Outputs: outputs, IsError: status >= http.StatusBadRequest, Would: ticket.Would}
}

// outputs returns the answer of an agent as the output of a capability, with an HTTP status.
func (a *agentCall) outputs(ctx context.Context, st *run.State) (outputs jsontext.Value, status int) {
	view := a.runner.View(ctx, st)
	answer := struct {
		Text    string         `json:"text"`
		Value   jsontext.Value `json:"value,omitzero"`
		Exposes jsontext.Value `json:"exposes,omitzero"`
		Error   *run.Ending    `json:"error,omitzero"`
	}{view.Text, view.Value, view.Exposes, view.Error}
	status = http.StatusOK
	if st.Status == run.StatusError {
		status = http.StatusBadGateway
	}
	outputs, err := json.Marshal(answer, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, http.StatusBadGateway
	}
	return outputs, status
}

func failed(err error) run.Result {
	return run.Notice("the call was not made: " + err.Error())
}

// refused returns the result for a refusal of the Guard.
func refused(err error) run.Result {
	if errors.Is(err, oagent.ErrNoHeldResult) {
		return run.Result{Unknown: true}
	}
	if r, ok := engagement.AsRefusal(err); ok {
		return run.Result{Refusal: r}
	}
	return failed(err)
}

// decided logs a decision about a call.
func (h agentTools) decided(ctx context.Context, i *run.Invocation, d *guard.AgentCall) {
	d.Binding, d.Name, d.Inputs = i.Binding, i.Name, i.Inputs
	h.options.Handler.LogAgentCall(ctx, d)
}

// logAgentCall makes a call of an agent by another one, and records it in the log of recent calls. A call
// that waits, for example for the run of the called agent, is recorded when it has ended. Calls of tools
// are recorded by their route.Caller.
func (h agentTools) logAgentCall(ctx context.Context, i *run.Invocation, c *capability, do func() run.Result) run.Result {
	recorder := h.kept.Active()
	if recorder == nil {
		return do()
	}
	call := keptcall.Call{
		ID: callid.New().String(), Site: h.options.Chain.SiteName(), Endpoint: h.options.Serve, Protocol: guard.ProtocolHosted, Tool: c.Reference.String(),
		User: i.User.ID, Agent: i.Agent.Name, Engagement: i.Engagement,
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
	call.Outcome, call.Size, call.Would = tools.OutcomeOK, len(result.Outputs), result.Would
	switch {
	case result.Refusal != nil:
		call.Outcome, call.Reason, call.Rule = string(tools.Restricted), result.Refusal.Message, result.Refusal.Rule
	case result.IsError:
		call.Outcome = tools.OutcomeOfStatus(http.StatusBadGateway)
	}
	recorder.Record(&call, nil, result.Outputs)
	return result
}

// startOf returns the start time of a run, or the zero time if it is unknown.
func (h agentTools) startOf(ctx context.Context, id string) (started time.Time) {
	runner, err := h.Runner(ctx)
	if err != nil {
		return started
	}
	if st, err := runner.Get(ctx, id); err == nil {
		started = st.Started
	}
	return started
}

// Review implements guard.Host. The agent is called without the identity of the user.
func (h guardHost) Review(ctx context.Context, agent *oagent.Agent, r *review.Review, inputs ...string) (undecided string, err error) {
	fits := slices.IndexFunc(inputs, func(input string) bool { return len(input) <= run.MaxInput })
	if fits < 0 {
		return "the call is too large for the agent to read", nil
	}
	switch st, err := h.startReview(ctx, agent, r, inputs[fits]); {
	case errors.Is(err, run.ErrTooDeep):
		return err.Error(), nil
	case err != nil:
		return "", err
	case st.Status.IsFinal():
		return reviewers.EndedUndecided, nil
	}
	return "", nil
}

// startReview starts the run of a review, and returns its state. If it was started before, it returns its state.
func (h guardHost) startReview(ctx context.Context, agent *oagent.Agent, r *review.Review, input string) (*run.State, error) {
	runner, err := h.host.Runner(ctx)
	if err != nil {
		return nil, err
	}
	id := run.ReviewRunID(r.ID)
	if st, err := runner.Get(ctx, id); !errors.Is(err, run.ErrNotFound) {
		return st, err
	}
	from := &origin{Delegated: true, Trace: r.Trace}
	start := run.StartOptions{ID: id, Agent: agent, User: r.User, Input: input, Review: r.ID, Reviewed: r.Key}
	reviewed, err := runner.Get(ctx, r.Engagement)
	switch {
	case err == nil && reviewed.Agent == r.Agent && reviewed.User.ID == r.User.ID: // a call of a run of this server
		start.Parent = &run.Invocation{Binding: oagent.Binding{Engagement: reviewed.ID}, Depth: reviewed.Depth}
		of := readOrigin(reviewed.Origin)
		from.Host, from.ClientIP, from.Secure, from.Chain = of.Host, of.ClientIP, of.Secure, of.Chain
	case err != nil && !errors.Is(err, run.ErrNotFound):
		return nil, err
	}
	start.Origin = from.encode()
	return runner.Start(ctx, start)
}
