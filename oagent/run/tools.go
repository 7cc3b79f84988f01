package run

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
)

// Tools are the tools and agents that hosted agents call. Its methods are called concurrently.
type Tools interface {
	// Describe returns the tools of an agent. The names are those of the agent's capabilities;
	// others are dropped.
	Describe(agent *oagent.Agent) []Tool

	// Call makes a call under the control of the Guard: Guard.Begin before the call, Ticket.Finish
	// after it. Guarded does both for a Caller. If ctx ends, Call returns soon.
	Call(ctx context.Context, i *Invocation) Result

	// CheckText invokes the tool of the agent's guardrail of that side with the text and lets
	// the Guard decide. The error is an *engagement.Refusal.
	CheckText(ctx context.Context, b oagent.Binding, side engagement.Side, text string) error
}

// Tool describes a capability.
type Tool struct {
	model.Tool

	// Idempotent is true if repeating a call has no further effect. The idempotent calls of one
	// message are made in parallel, and repeated if a node dies. Other calls are made one after the
	// other, and at most once.
	Idempotent bool

	// Agent is true if the capability is an agent.
	Agent bool
}

// Invocation is one call of a tool by a run.
type Invocation struct {
	oagent.Binding // Engagement is the id of the run
	Depth          int

	Number  int // of the message of the model in the run, from 1
	Index   int // of the call in the message, from 0
	Name    string
	IsAgent bool
	Inputs  jsontext.Value // a JSON object

	// Uncertain is true if the call may have been made before, see oagent.Call.Uncertain. Call then
	// returns the held result, or Unknown if there is none.
	Uncertain bool

	Origin jsontext.Value // see New.Origin

	// Waited is what an earlier attempt of this call waited for; nil for the first attempt.
	Waited *Wait
}

// ChildID returns the id for a run that the call starts. It is the same whenever the call is repeated. If the
// node dies before it has recorded that the call waits for the run, Runner.Cancel finds the run by this id.
func (i *Invocation) ChildID() string { return childID(i.Engagement, i.Number, i.Index) }

func childID(parent string, number, index int) string {
	sum := sha256.Sum256([]byte(parent + "/" + strconv.Itoa(number) + "/" + strconv.Itoa(index)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

// Result is the result of a call. Wait, Refusal and Unknown take precedence, in this order.
type Result struct {
	// Outputs are the result as JSON. If they are not JSON, Text has them.
	Outputs jsontext.Value
	Text    string
	IsError bool // the tool failed; Outputs or Text say why

	// Wait means that the call has no result yet. It is repeated after Runner.Wake.
	Wait *Wait
	// Refusal is the refusal of the Guard. KindReviewPending makes the run wait for the review.
	Refusal *engagement.Refusal
	// Unknown means that it is unknown whether the call was made.
	Unknown bool
}

// Caller makes a call that the Guard has allowed. The result is the output as JSON and the HTTP
// status, 200 or more. An error means that the tool did not respond; its message is for the model.
type Caller func(ctx context.Context, i *Invocation, capability *oagent.Capability) (outputs jsontext.Value, status int, err error)

// Guarded makes a call if the guard allows it, and returns the result if the guard releases it. It
// does not wait for reviewers. For names, see oagent.Call.Names.
func Guarded(ctx context.Context, guard *oagent.Guard, names oagent.Names, i *Invocation, call Caller) Result {
	ticket, err := guard.Begin(ctx, oagent.Call{
		Binding: i.Binding, Name: i.Name, IsAgent: i.IsAgent, Names: names, Inputs: i.Inputs, NoWait: true, Uncertain: i.Uncertain,
	})
	if err != nil {
		return resultOfError(err)
	}
	if ticket.Replayed != nil {
		return resultOf(ticket.Replayed.Outputs, ticket.Replayed.Status)
	}
	outputs, status, err := call(ctx, i, ticket.Capability)
	if err != nil {
		ticket.Abort(ctx, err.Error())
		return Result{Text: err.Error(), IsError: true}
	}
	if err := ticket.Finish(ctx, outputs, status); err != nil {
		return resultOfError(err)
	}
	return resultOf(outputs, status)
}

func resultOf(outputs jsontext.Value, status int) Result {
	return Result{Outputs: outputs, IsError: status >= firstErrorStatus}
}

const firstErrorStatus = 400 // HTTP

func resultOfError(err error) Result {
	if isNoHeldResult(err) {
		return Result{Unknown: true}
	}
	if r, ok := engagement.AsRefusal(err); ok {
		return Result{Refusal: r}
	}
	return Result{Text: err.Error(), IsError: true}
}
