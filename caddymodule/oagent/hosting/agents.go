package hosting

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/run"
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
	tools
	i      *run.Invocation
	agent  *oagent.Agent // that is called
	call   oagent.Call
	guard  *oagent.Guard
	runner *run.Runner
}

// callAgent makes a call of an agent, or finds the run that an earlier attempt has started.
func (h tools) callAgent(ctx context.Context, set *agentset.Set, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	guard, err := h.options.Guard(ctx)
	if err != nil {
		return failed(err)
	}
	runner, err := h.Runner(ctx)
	if err != nil {
		return failed(err)
	}
	a := agentCall{tools: h, i: i, agent: c.agent, guard: guard, runner: runner, call: oagent.Call{
		Binding: i.Binding, Name: i.Name, IsAgent: true, Names: set.Names, Inputs: i.Inputs, NoWait: true, Uncertain: i.Uncertain,
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
		a.decided(ctx, &Decision{Invocation: a.i, Err: err, Took: time.Since(began)})
		return refused(err)
	}
	if held := ticket.Replayed; held != nil {
		a.decided(ctx, &Decision{Invocation: a.i, Ticket: ticket, Status: held.Status, Note: "the result was released", Took: time.Since(began)})
		return run.Result{Outputs: held.Outputs, IsError: held.Status >= http.StatusBadRequest}
	}
	input := wire.Text(wire.MemberOf(a.i.Inputs, "input"))
	child := *o
	child.Ticket, child.Trace = ticket.Token(), calltrace.Parent(ctx)
	if !c.Identity(true).User {
		s, child.Identified = nil, false
	}
	id := a.i.ChildID()
	if s != nil {
		a.shared().sessions.put(id, s)
	}
	_, err = a.runner.Start(ctx, run.StartOptions{
		ID: id, Agent: a.agent, User: a.i.User, Input: input, Parent: a.i, Origin: child.encode(), Home: s != nil,
	})
	if err != nil {
		a.shared().sessions.remove(id)
		ticket.Abort(ctx, "the agent was not started")
		a.decided(ctx, &Decision{Invocation: a.i, Ticket: ticket, Note: "the agent was not started", Took: time.Since(began)})
		return run.Result{Text: "the agent was not started: " + err.Error(), IsError: true}
	}
	return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: id}}
}

// result returns the result of a run that the call has started.
func (a *agentCall) result(ctx context.Context, st *run.State) run.Result {
	if !st.Status.IsFinal() {
		return run.Result{Wait: &run.Wait{Kind: run.WaitTask, ID: st.ID}}
	}
	ticket, err := a.guard.Resume(a.call, readOrigin(st.Origin).Ticket)
	if err != nil {
		return failed(err)
	}
	outputs, status := a.outputs(ctx, st)
	err = ticket.Finish(ctx, outputs, status)
	a.decided(ctx, &Decision{Invocation: a.i, Ticket: ticket, Err: err, Status: status, Took: st.Changed.Sub(st.Started)})
	if err != nil {
		return refused(err)
	}
	return run.Result{Outputs: outputs, IsError: status >= http.StatusBadRequest}
}

// outputs returns the answer of an agent as the output of a capability, with an HTTP status.
func (a *agentCall) outputs(ctx context.Context, st *run.State) (outputs jsontext.Value, status int) {
	view := a.runner.View(ctx, st)
	answer := struct {
		Text    string         `json:"text"`
		Exposes jsontext.Value `json:"exposes,omitzero"`
		Error   *run.Ending    `json:"error,omitzero"`
	}{view.Text, view.Exposes, view.Error}
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
	return run.Result{Text: "the call was not made: " + err.Error(), IsError: true}
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
