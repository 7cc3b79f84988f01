package hosting

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/remote"
	"github.com/fairwayhq/fairway/oagent/run"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// definitionTime is how long a run waits for the definition of an agent of another server.
const definitionTime = 2 * time.Second

// describeRemote describes an agent of another server as a tool. Its effects are not known, so a call
// is not repeated.
func (h tools) describeRemote(reference oagent.Reference) run.Tool {
	ctx, cancel := context.WithTimeout(h.running, definitionTime)
	defer cancel()
	description := "An agent of another server. Its description is not available at the moment."
	if d, err := h.options.Remote.Definition(ctx, reference); err == nil {
		description = d.Description
	}
	return run.Tool{
		Tool:  model.Tool{Name: reference.Name, Description: description, Schema: jsontext.Value(agentSchema)},
		Agent: true,
	}
}

// callRemote calls an agent of another server, under the control of the Guard.
func (h tools) callRemote(ctx context.Context, set *agentset.Set, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	guard, err := h.options.Guard(ctx)
	if err != nil {
		return failed(err)
	}
	identity := c.Identity(i.User.ID != "")
	call := &remote.Call{Reference: c.Reference, Input: wire.Text(wire.MemberOf(i.Inputs, "input")), Chain: o.Chain}
	switch {
	case call.Input == "":
		return run.Result{Text: "the call was not made: input must be a string that is not empty", IsError: true}
	case identity.Static != "":
		call.Static = h.options.StaticIdentity(identity.Static)
	case identity.User && s != nil:
		call.Caller = s.header
	case identity.User && o.Identified && h.options.Remote.ForwardsCaller(c.Reference):
		return needCredentials(i)
	}
	d := &Decision{Invocation: i}
	began := time.Now()
	r := run.Guarded(ctx, guard, set.Names, i, func(ctx context.Context, _ *run.Invocation, _ *oagent.Capability) (jsontext.Value, int, error) {
		ctx, span := calltrace.BeginAgent(ctx, c.Reference.Name)
		outputs, status, err := h.options.Remote.Run(ctx, call)
		d.Status = status
		switch {
		case err != nil:
			d.Note = "the agent did not answer"
			span.Finish(string(tool.Failed))
		case status >= http.StatusBadRequest:
			span.Finish(strconv.Itoa(status))
		default:
			span.Finish("")
		}
		return outputs, status, err
	})
	if d.Took = time.Since(began); r.Refusal != nil {
		d.Err = r.Refusal
	}
	if d.Err != nil || d.Note != "" || r.Outputs != nil {
		h.decided(ctx, d)
	}
	return r
}

// needCredentials returns the result of a call that waits for the user's credentials.
func needCredentials(i *run.Invocation) run.Result {
	return run.Result{Wait: &run.Wait{Kind: run.WaitCredentials, Message: "the call of " + i.Name +
		" needs your credentials, which this server does not store: send any request to this Engagement with them"}}
}
