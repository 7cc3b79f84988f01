package run

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/tools/logonly"
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
	CheckText(ctx context.Context, b oagent.Binding, side engagement.Side, content string) error
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

	// Inspect returns the arguments of a call of the model as the conversation may have them, or an error for the model if the
	// call must not be made. If the call needs others, sealed has them, encrypted: see Invocation.Sealed. nil keeps all arguments.
	Inspect func(ctx context.Context, b oagent.Binding, arguments string) (passed, sealed string, err error)
}

// Invocation is one call of a tool by a run.
type Invocation struct {
	oagent.Binding // Engagement is the id of the run
	Depth          int

	// Turn orders the call among those of its message that are made together.
	Turn *oagent.Turn

	Number  int // of the message of the model in the run, from 1
	Index   int // of the call in the message, from 0
	Name    string
	IsAgent bool
	Inputs  jsontext.Value // a JSON object

	// Sealed has the inputs for the API if Inputs are without some values, encrypted by Tool.Inspect. "" if there are no others.
	Sealed string

	// Uncertain is true if the call may have been made before, see oagent.Call.Uncertain. Call then
	// returns the held result, or Unknown if there is none.
	Uncertain bool

	Origin jsontext.Value // see New.Origin

	// Away is true if another node has the user's credentials. A call that needs them, or starts a run that may,
	// returns a Wait of the kind WaitCredentials. That node then makes the call.
	Away bool

	// Note stores a text with the call, for an attempt after this node has died. Noted is the text that an
	// earlier attempt stored. Guarded goes on with a call that has one.
	Note  func(content string) error
	Noted string

	// MayAsk is true if the call may wait for the user with an AskError.
	MayAsk bool

	// Waited is what an earlier attempt of this call waited for; nil for the first attempt.
	Waited *Wait
}

// ChildID returns the id for a run that the call starts. It is the same whenever the call is repeated. If the
// node dies before it has recorded that the call waits for the run, Runner.Cancel finds the run by this id.
func (i *Invocation) ChildID() string { return childID(i.Engagement, i.Number, i.Index) }

func childID(parent string, number, index int) string {
	return IDOf(parent + "/" + strconv.Itoa(number) + "/" + strconv.Itoa(index))
}

// IDOf returns the id for the run of a cause that may come several times, such as an event. It is the same whenever it comes.
func IDOf(cause string) string {
	sum := sha256.Sum256([]byte(cause))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}

// Result is the result of a call. Wait, Refusal and Unknown take precedence, in this order.
type Result struct {
	// Outputs are the result as JSON. If they are not JSON, Text has them.
	Outputs jsontext.Value
	Text    string
	IsError bool   // the tool failed; Outputs or Text say why
	Notice  bool   // the server wrote Text, not the tool; see Notice
	Changed string // what reviewers have changed in the arguments before the call; "" for nothing

	// Wait means that the call has no result yet. It is repeated after Runner.Wake.
	Wait *Wait
	// Refusal is the refusal of the Guard. KindReviewPending makes the run wait for the review.
	Refusal *engagement.Refusal
	// Unknown means that it is unknown whether the call was made.
	Unknown bool

	// Would is what a rule in log only would have done to the call. The run and its model do not get it.
	Would logonly.Would
}

// Notice returns the result of a call that the server answers with an error of its own. The model gets
// it as such, and not as data of the tool.
func Notice(message string) Result { return Result{Text: message, IsError: true, Notice: true} }

// An AskError of a Caller makes the call wait until the user has answered a question. Then the call is made again, with Invocation.Noted
// and the answer in Invocation.Waited.
type AskError struct{ ID, Question string }

func (e *AskError) Error() string { return "the call waits for the user: " + e.Question }

// caller makes a call that the Guard has allowed, or goes on with it if Invocation.Noted is set. The result is the output as JSON and
// the HTTP status, 200 or more. An error means that the tool did not respond; its message is for the model. See also AskError.
type caller func(ctx context.Context, i *Invocation, capability *oagent.Capability) (outputs jsontext.Value, status int, err error)

// Guarded makes a call if the guard allows it, and returns the result if the guard releases it. It
// does not wait for reviewers. For names, see oagent.Call.Names.
func Guarded(ctx context.Context, guard *oagent.Guard, names oagent.Names, i *Invocation, call caller) Result {
	guarded := oagent.Call{
		Binding: i.Binding, Name: i.Name, IsAgent: i.IsAgent, Names: names, Inputs: i.Inputs, NoWait: true, Turn: i.Turn, Uncertain: i.Uncertain,
	}
	own, begin := *i, guard.Begin
	token, noted, resumes := strings.Cut(i.Noted, " ")
	if resumes && (i.Waited == nil || !i.Waited.Made) {
		own.Noted = noted
		begin = func(_ context.Context, c oagent.Call) (*oagent.Ticket, error) { return guard.Resume(c, token) }
	}
	ticket, err := begin(ctx, guarded)
	if err != nil {
		return resultOfError(err)
	}
	if ticket.Replayed != nil {
		return resultOf(ticket.Replayed.Outputs, ticket.Replayed.Status)
	}
	own.Note = func(content string) error {
		resumes = true
		return i.Note(ticket.Token() + " " + content)
	}
	outputs, status, err := call(ctx, &own, ticket.Capability)
	if asked, ok := errors.AsType[*AskError](err); ok {
		return Result{Wait: &Wait{Kind: WaitQuestion, ID: childID(i.ChildID()+asked.ID, i.Number, i.Index), Message: asked.Question, Relayed: true}}
	}
	if err != nil && ctx.Err() != nil && resumes {
		return Result{Unknown: true} // another attempt goes on with the call
	}
	if err != nil {
		ticket.Abort(ctx, err.Error())
		return Result{Text: err.Error(), IsError: true}
	}
	if err := ticket.Finish(ctx, outputs, status); err != nil {
		return resultOfError(err)
	}
	result := resultOf(outputs, status)
	result.Would = ticket.Would
	return result
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
	return Notice(err.Error())
}

// toolbox holds the tools that the model of a run may call.
type toolbox struct {
	described []model.Tool
	byName    map[string]*Tool // without questionTool and decisionTools
	reviews   bool             // the run decides a review
	questions Questions
}

// newToolbox describes the tools of an agent in a run that decides a review, or in another one. A tool
// that is not a capability is dropped and reported.
func newToolbox(agent *oagent.Agent, tools Tools, reviews bool, questions Questions, report func(error)) *toolbox {
	b := &toolbox{byName: make(map[string]*Tool), reviews: reviews, questions: questions}
	if reviews {
		b.described = append(b.described, decisionTools...)
	}
	for _, t := range tools.Describe(agent) {
		if _, ok := agent.Capability(t.Name); !ok {
			report(fmt.Errorf("the tool %s is not a capability of the agent %s", t.Name, agent.Name))
			continue
		}
		if b.byName[t.Name] == nil && !b.isDecision(t.Name) {
			b.byName[t.Name] = &t
			b.described = append(b.described, t.Tool)
		}
	}
	if b.isQuestion(questionTool.Name) {
		b.described = append(b.described, questionTool)
	}
	return b
}

// offers reports whether the model was offered a tool of that name.
func (b *toolbox) offers(name string) bool {
	return b.byName[name] != nil || b.isQuestion(name) || b.isDecision(name)
}

// questionTool lets the model ask the user. It is part of the loop and not of the agent's
// document, so it is no call of the Engagement. If the agent has a capability of this name,
// the model gets that instead.
var questionTool = model.Tool{
	Name:        "ask-user",
	Description: "Asks the user a question, and waits for the answer. Use it only if you cannot go on without it.",
	Schema:      jsontext.Value(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"],"additionalProperties":false}`),
}

func (b *toolbox) isQuestion(name string) bool {
	return name == questionTool.Name && b.byName[name] == nil && b.mayAsk()
}

// mayAsk reports whether the run may ask its user.
func (b *toolbox) mayAsk() bool { return !b.reviews && b.questions != QuestionsNone }

func (b *toolbox) isDecision(name string) bool {
	return b.reviews && (name == decisionApprove || name == decisionDeny)
}

// plan returns the calls of a response, and the results of the calls that cannot be made: of unknown
// tools, with arguments that are not an object or that an inspector rejects, or cut off.
func (b *toolbox) plan(ctx context.Context, binding oagent.Binding, r *model.Response) (calls []call, results []entry) {
	for i := range r.Calls {
		made := &r.Calls[i]
		c := call{ID: made.ID, Name: text.Cut(made.Name, text.MaxQuoted), Status: callPlanned}
		sealed, problem := b.inspect(ctx, binding, made)
		c.Sealed = sealed
		if problem == "" {
			problem = b.checkCall(made, r.Stop)
		}
		if problem != "" {
			c.Status, c.Sealed = CallDone, ""
			results = append(results, entry{Kind: entryResult, Call: i, Name: c.Name, Result: serverResult(made, problem)})
		} else {
			c.Name = made.Name
			c.Idempotent = b.isIdempotent(made.Name)
		}
		calls = append(calls, c)
	}
	return calls, results
}

// inspect replaces the arguments of a call with what the inspectors of the tool pass. It returns why they reject the call, for the
// model.
func (b *toolbox) inspect(ctx context.Context, binding oagent.Binding, c *model.ToolCall) (sealed, problem string) {
	t := b.byName[c.Name]
	if t == nil || t.Inspect == nil {
		return "", ""
	}
	passed, sealed, err := t.Inspect(ctx, binding, c.Arguments)
	if err != nil {
		passed, problem = "{}", err.Error()
	}
	c.Arguments = passed
	return sealed, problem
}

// checkCall returns why a call cannot be made, for the model; "" if it can.
func (b *toolbox) checkCall(c *model.ToolCall, stop model.Stop) string {
	switch {
	case stop == model.StopLength:
		return "This call was not made: your message reached the limit of tokens, and its calls may be incomplete. Write a shorter message."
	case !b.offers(c.Name):
		return fmt.Sprintf("This call was not made: there is no tool %s. Use one of the available tools.", quoteName(c.Name))
	}
	if _, err := argumentsOf(c); err != nil {
		return err.Error()
	}
	return ""
}

// isIdempotent reports whether a call may be repeated. A question may: it has no effect before the
// run waits.
func (b *toolbox) isIdempotent(name string) bool {
	t := b.byName[name]
	return t == nil && !b.isDecision(name) || t != nil && t.Idempotent
}
