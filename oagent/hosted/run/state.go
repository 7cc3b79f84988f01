package run

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store/lease"
)

// Status is the status of a run, as its user sees it.
type Status string

// Statuses. The last two are final.
const (
	StatusAwaitingModel  Status = engagement.StatusAwaitingModel  // the model generates the next message
	StatusAwaitingTool   Status = "awaiting-tool"                 // a tool call is in progress
	StatusAwaitingReview Status = engagement.StatusAwaitingReview // a reviewer must decide
	StatusAwaitingInput  Status = "awaiting-additional-input"     // the user must answer or send credentials, see State.Waits
	StatusComplete       Status = "complete"
	StatusError          Status = engagement.StatusError
)

// IsFinal reports whether the run has ended.
func (s Status) IsFinal() bool { return s == StatusComplete || s == StatusError }

// IsBusy reports whether the run continues without anything from outside.
func (s Status) IsBusy() bool { return s == StatusAwaitingModel || s == StatusAwaitingTool }

// phase is the next step of a run.
type phase string

const (
	phaseInput  phase = "input"  // checks the first of State.Inputs and adds it to the conversation
	phaseModel  phase = "model"  // requests the next message of the model
	phaseTools  phase = "tools"  // makes State.Calls
	phaseAnswer phase = "answer" // checks State.Answer and returns it to the user
	phaseEnd    phase = "end"
)

// State is the state of a run: the data that the next step needs, and that clients see (View).
// The conversation is in the log of the same record, see entry.
type State struct {
	Assignment
	Used
	Output

	Changed time.Time `json:"changed_at"`

	Home  string `json:"home,omitzero"` // see StartOptions.Home
	Title string `json:"title,omitzero"`
	Round int    `json:"round,omitzero"` // how often the run went on after an answer

	Omitted omitted `json:"omitted,omitzero"` // what the model does not get of a long conversation

	Status Status  `json:"status"`
	Phase  phase   `json:"phase"`
	Ending *Ending `json:"ending,omitzero"` // set with StatusError
	Failed bool    `json:"failed,omitzero"` // the run may go on after this error, see hasFailed

	Inputs []input `json:"inputs,omitempty"` // from the user, not yet in the conversation
	Calls  []call  `json:"calls,omitempty"`  // in the model's last message

	// ModelTries is how often the request for the next message has failed in a row, because the model was unavailable.
	ModelTries int `json:"model_tries,omitzero"`

	Lease lease.Lease `json:"lease,omitzero"` // its Tries are the claims since the last recorded step
	Woken bool        `json:"woken,omitzero"` // Wake was called while a node worked on the run

	Notified int64 `json:"notified,omitzero"` // see Runner.notifyCallers

	Notices *noticeState `json:"notices,omitzero"` // nil if there were none, see notices.go
}

// Assignment is which agent a run is of, for which user, and what has started it.
type Assignment struct {
	ID     string          `json:"id"` // of the run, and of its Engagement
	Agent  string          `json:"agent"`
	User   engagement.User `json:"user"`
	Parent string          `json:"parent,omitzero"` // id of the run whose tool call started this one
	Root   string          `json:"root,omitzero"`   // id of the run that its user started; "" for such a run
	Depth  int             `json:"depth,omitzero"`  // number of runs above it

	// Review is the id of the review that the run decides, and Reviewed the key of the Engagement under
	// review. They are "" for other runs.
	Review   string `json:"review,omitzero"`
	Reviewed string `json:"reviewed,omitzero"`

	// Forgets is true if the run has no memory, because an agent of another server has called its agent, or an event has started it.
	Forgets bool `json:"forgets,omitzero"`

	Started time.Time      `json:"started_at"`
	Origin  jsontext.Value `json:"origin,omitzero"` // see StartOptions.Origin; a round may have its own
}

// Used is what a run has used so far, without the agents that it called.
type Used struct {
	Turns     int         `json:"turns"` // messages requested from the model
	CallsMade int         `json:"made"`  // tool calls begun
	Usage     model.Usage `json:"usage"`
	Spent     int64       `json:"spent"`           // milliseconds that nodes worked on the run, or that it waited for its model
	Before    Spent       `json:"before,omitzero"` // the round
	Called    bool        `json:"called,omitzero"` // the run has called agents
}

// Output is the answer to the last input of the user.
type Output struct {
	Answer string `json:"answer,omitzero"` // not yet checked by the output guardrail
	Text   string `json:"text,omitzero"`   // the last answer that was checked
	Cut    bool   `json:"cut,omitzero"`    // the last answer reached the model's limit of tokens

	IsValue  bool `json:"is_value,omitzero"` // the last answer is valid for the output schema of the agent
	Repaired bool `json:"repaired,omitzero"` // the model has been asked to correct its answer to the last input
}

// Ending describes why a run ended without an answer.
type Ending struct {
	Kind    EndKind `json:"kind"`
	Rule    string  `json:"rule,omitzero"` // path in the agent's document, or name of the limit
	Message string  `json:"message"`       // for the user
}

// EndKind is the reason why a run ended without an answer.
type EndKind string

// Kinds of endings. If a refusal ends the run, the kind is the engagement.Kind of the refusal, for
// example "guardrail" or "short_circuit".
const (
	EndCanceled EndKind = "canceled"         // by its user
	EndLimit    EndKind = "limit"            // of turns, tokens or time
	EndBudget   EndKind = "budget"           // of a day, see Options.Budgets
	EndModel    EndKind = "model"            // the model returned no usable response
	EndContext  EndKind = "context_too_long" // the conversation is longer than the model can read
	EndRefused  EndKind = "model_refused"    // the model declined
	EndOutput   EndKind = "output_schema"    // the answer is not valid for the output schema
	EndInternal EndKind = "internal"         // the server failed repeatedly
	EndAgent    EndKind = "agent_removed"    // no node hosts the agent, see Options.AgentGrace
)

// input is a message of the user.
type input struct {
	ID        string `json:"id"`
	Text      string `json:"text"`
	InReplyTo string `json:"in_reply_to,omitzero"` // id of the Question that it answers; "" if it answers none
}

// call is the progress of a tool call. Its arguments are in the conversation.
type call struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Status callStatus `json:"status"`
	Wait   *Wait      `json:"wait,omitzero"` // set with CallWaiting

	// Idempotent is Tool.Idempotent at the time of planning.
	Idempotent bool `json:"idempotent,omitzero"`
	// Note is Invocation.Noted of the next attempt.
	Note string `json:"note,omitzero"`
	// Sealed is Invocation.Sealed, until the call has a result.
	Sealed string `json:"sealed,omitzero"`
	// Uncertain is true if the call may have been made before. It must not be made again.
	Uncertain bool `json:"uncertain,omitzero"`
}

// callStatus is the status of a tool call.
type callStatus string

// Statuses of a tool call.
const (
	callPlanned callStatus = "planned"
	callBegun   callStatus = "begun"   // recorded before it is made
	CallWaiting callStatus = "waiting" // see Call.Wait
	CallDone    callStatus = "done"    // its result is in the conversation
)

// Wait describes the event that a tool call waits for. A run that waits uses no memory and no
// goroutine.
type Wait struct {
	Kind WaitKind `json:"kind"`
	ID   string   `json:"id,omitzero"` // of the review, task or question

	// Made is true if the call was made and its result is held. When the wait ends, the call
	// is repeated with Invocation.Uncertain, which fetches the held result.
	Made bool `json:"made,omitzero"`

	// Message is shown to the user: the question, or which credentials are missing.
	Message string `json:"message,omitzero"`

	// Relayed is true for the question of an agent that the call has called. Answer is the answer of the user; the call is made again with it.
	Relayed bool   `json:"relayed,omitzero"`
	Answer  string `json:"answer,omitzero"`
}

// WaitKind is a kind of Wait.
type WaitKind string

// Kinds of waits.
const (
	WaitReview      WaitKind = "review"      // a reviewer must decide
	WaitCredentials WaitKind = "credentials" // the user's credentials are not on this node
	WaitHome        WaitKind = "home"        // the node that has the user's credentials must make the call
	WaitQuestion    WaitKind = "question"    // the model asked the user
	WaitTask        WaitKind = "task"        // an external task; Runner.Wake is called after its end
)

// Waits returns the waits of the calls that wait.
func (s *State) Waits() []Wait {
	var waits []Wait
	for i := range s.Calls {
		if s.Calls[i].Status == CallWaiting {
			waits = append(waits, *s.Calls[i].Wait)
		}
	}
	return waits
}

// tasks returns the ids of the tasks that the calls of the run wait for, or may have started.
func (s *State) tasks() (ids []string) {
	for i := range s.Calls {
		switch c := &s.Calls[i]; {
		case c.Status == CallDone:
		case c.Status == CallWaiting && c.Wait.Kind == WaitTask:
			ids = append(ids, c.Wait.ID)
		default:
			ids = append(ids, childID(s.ID, s.Turns, i))
		}
	}
	return ids
}

// count returns the number of calls with that status.
func (s *State) count(status callStatus) (n int) {
	for i := range s.Calls {
		if s.Calls[i].Status == status {
			n++
		}
	}
	return n
}

// isQueued reports whether the run could continue, but no node works on it.
func (s *State) isQueued() bool {
	return !s.Status.IsFinal() && s.Lease.Token == "" && !s.isWaiting() && s.retryAt().IsZero()
}

// retryAt returns when the request to the model is made again, if the run waits for its model: the earliest time of the
// next claim. It is zero otherwise.
func (s *State) retryAt() time.Time {
	if s.Lease.Token != "" {
		return time.Time{}
	}
	return s.Lease.Until
}

// end ends the run.
func (s *State) end(status Status, why *Ending) {
	s.Failed = s.hasFailed(why)
	s.Status, s.Phase, s.Ending = status, phaseEnd, why
	s.Calls, s.Inputs, s.Answer, s.Woken, s.ModelTries = nil, nil, "", false, 0
	s.Lease.Clear()
}

// View is the representation of a run for clients.
type View struct {
	ID         string         `json:"id"`
	Agent      string         `json:"agent"`
	Status     Status         `json:"status"`
	Queued     bool           `json:"queued,omitzero"`     // the run waits for a worker
	RetryAt    time.Time      `json:"retry_at,omitzero"`   // the model is unavailable, and the request is made again then
	Text       string         `json:"text,omitzero"`       // the agent's last answer
	Value      jsontext.Value `json:"value,omitzero"`      // the same as JSON, if the agent has an output schema
	Incomplete bool           `json:"incomplete,omitzero"` // the answer reached the model's limit of tokens
	Questions  []Question     `json:"questions,omitempty"` // from the model to the user, that have no answer yet
	Reason     string         `json:"reason,omitzero"`     // why the run waits for its user, apart from questions
	Exposes    jsontext.Value `json:"exposes,omitzero"`    // see oagent.Exposed
	Reviews    []PendingCall  `json:"reviews,omitempty"`   // pending ones
	Error      *Ending        `json:"error,omitzero"`
	Usage      usageView      `json:"usage"`
	Title      string         `json:"title,omitzero"`
	StartedAt  time.Time      `json:"started_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
}

// PendingCall is a call that waits for a review.
type PendingCall struct {
	Review string `json:"id"`
	Name   string `json:"name"`
	Made   bool   `json:"made,omitzero"` // the call was made and its result is held
}

// usageView is the usage of a run so far.
type usageView struct {
	Turns        int   `json:"turns"`
	ToolCalls    int   `json:"tool_calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens,omitzero"`        // the part of InputTokens that the API read from its cache
	CalledAgents int64 `json:"called_agents_tokens,omitzero"` // tokens of the agents that it called, which are included
	Estimated    bool  `json:"estimated,omitzero"`            // the model's API did not report its tokens

	Cost float64 `json:"cost,omitzero"` // in the currency of the prices; 0 if there are none
}

func (u *Used) view() usageView {
	return usageView{
		Turns: u.Turns, ToolCalls: u.CallsMade,
		InputTokens: u.Usage.InputTokens, OutputTokens: u.Usage.OutputTokens, CachedTokens: u.Usage.CachedTokens, Estimated: u.Usage.Estimated,
		Cost: model.Money(u.Usage.Cost),
	}
}

// View returns the representation for clients, without exposed values.
func (s *State) View() *View {
	v := &View{
		ID: s.ID, Agent: s.Agent, Title: s.Title, Status: s.Status, Queued: s.isQueued(), RetryAt: s.retryAt(), Text: s.Text, Incomplete: s.Cut, Error: s.Ending,
		StartedAt: s.Started, UpdatedAt: s.Changed,
		Usage: s.Used.view(),
	}
	v.Value = s.value()
	v.Questions = s.Questions()
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Status != CallWaiting {
			continue
		}
		switch c.Wait.Kind {
		case WaitReview:
			v.Reviews = append(v.Reviews, PendingCall{Review: c.Wait.ID, Name: c.Name, Made: c.Wait.Made})
		case WaitCredentials:
			v.Reason = c.Wait.Message
		}
	}
	return v
}

// Question is a question of the model to the user.
type Question struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// QuestionError means that an input does not say which of several questions it answers, or names a
// question that is not open.
type QuestionError struct {
	Open []Question // questions without an answer
}

// Error describes what the input must say instead.
func (e *QuestionError) Error() string {
	if len(e.Open) == 0 {
		return "the agent has no question with the id in in_reply_to that is without an answer"
	}
	ids := make([]string, len(e.Open))
	for i, q := range e.Open {
		ids[i] = q.ID
	}
	return "the member in_reply_to must be the id of one of the open questions: " + strings.Join(ids, ", ")
}

// Questions returns the questions to the user that have no answer yet.
func (s *State) Questions() (open []Question) {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Status == CallWaiting && c.Wait.Kind == WaitQuestion && s.replyTo(c.Wait.ID) < 0 {
			open = append(open, Question{ID: c.Wait.ID, Text: c.Wait.Message})
		}
	}
	return open
}

// answers returns the id of the question that a new input answers, "" for none.
func (s *State) answers(inReplyTo string) (string, error) {
	open := s.Questions()
	switch {
	case slices.ContainsFunc(open, func(q Question) bool { return q.ID == inReplyTo }):
		return inReplyTo, nil
	case inReplyTo != "" || len(open) > 1:
		return "", &QuestionError{open}
	case len(open) == 1:
		return open[0].ID, nil
	}
	return "", nil
}

// replyTo returns the index of the unread input that answers a question, or -1.
func (s *State) replyTo(question string) int {
	return slices.IndexFunc(s.Inputs, func(in input) bool { return in.InReplyTo == question })
}

// nextReply returns the next unread answer to a question, and the index of the call that asked.
// The index is -1 if there is none. An input that answers no question is read when all calls of the
// model's message have results.
func (s *State) nextReply() (input, int) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == CallWaiting && c.Wait.Kind == WaitQuestion {
			if at := s.replyTo(c.Wait.ID); at >= 0 {
				return s.Inputs[at], i
			}
		}
	}
	return input{}, -1
}

func (s *State) hasReply() bool {
	_, call := s.nextReply()
	return call >= 0
}
