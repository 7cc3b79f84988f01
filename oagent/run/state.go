package run

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
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
	ID      string          `json:"id"` // also the id of its Engagement
	Agent   string          `json:"agent"`
	User    engagement.User `json:"user"`
	Parent  string          `json:"parent,omitzero"` // id of the run whose tool call started this one
	Depth   int             `json:"depth,omitzero"`  // number of runs above it
	Home    string          `json:"home,omitzero"`   // see New.Home
	Started time.Time       `json:"started_at"`
	Changed time.Time       `json:"changed_at"`

	Origin jsontext.Value `json:"origin,omitzero"` // see New.Origin

	Status Status  `json:"status"`
	Phase  phase   `json:"phase"`
	Ending *Ending `json:"ending,omitzero"` // set with StatusError

	Inputs []Input `json:"inputs,omitempty"` // from the user, not yet in the conversation
	Calls  []Call  `json:"calls,omitempty"`  // in the model's last message
	Answer string  `json:"answer,omitzero"`  // not yet checked by the output guardrail
	Text   string  `json:"text,omitzero"`    // the last answer that was checked
	Cut    bool    `json:"cut,omitzero"`     // the last answer reached the model's limit of tokens

	Turns     int         `json:"turns"` // messages requested from the model
	CallsMade int         `json:"made"`  // tool calls begun
	Usage     model.Usage `json:"usage"`
	Spent     int64       `json:"spent"` // milliseconds that nodes worked on the run

	Steps int64  `json:"steps"` // number of changes by holders of the lease
	Lease *lease `json:"lease,omitzero"`
	Woken bool   `json:"woken,omitzero"` // Wake was called while a node worked on the run
	Tries int    `json:"tries,omitzero"` // claims since the last recorded step
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
	EndModel    EndKind = "model"            // the model returned no usable response
	EndContext  EndKind = "context_too_long" // the conversation is longer than the model can read
	EndRefused  EndKind = "model_refused"    // the model declined
	EndInternal EndKind = "internal"         // the server failed repeatedly
)

// Input is a message of the user.
type Input struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Call is the progress of a tool call. Its arguments are in the conversation.
type Call struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Status CallStatus `json:"status"`
	Wait   *Wait      `json:"wait,omitzero"` // set with CallWaiting

	// Idempotent is Tool.Idempotent at the time of planning.
	Idempotent bool `json:"idempotent,omitzero"`
	// Uncertain is true if the call may have been made before. It must not be made again.
	Uncertain bool `json:"uncertain,omitzero"`
}

// CallStatus is the status of a tool call.
type CallStatus string

// Statuses of a tool call.
const (
	CallPlanned CallStatus = "planned"
	CallBegun   CallStatus = "begun"   // recorded before it is made
	CallWaiting CallStatus = "waiting" // see Call.Wait
	CallDone    CallStatus = "done"    // its result is in the conversation
)

// Wait describes the event that a tool call waits for. A run that waits uses no memory and no
// goroutine.
type Wait struct {
	Kind WaitKind `json:"kind"`
	ID   string   `json:"id,omitzero"` // of the review or task

	// Made is true if the call was made and its result is held. When the wait ends, the call
	// is repeated with Invocation.Uncertain, which fetches the held result.
	Made bool `json:"made,omitzero"`

	// Message is shown to the user: the question, or which credentials are missing.
	Message string `json:"message,omitzero"`
}

// WaitKind is a kind of Wait.
type WaitKind string

// Kinds of waits.
const (
	WaitReview      WaitKind = "review"      // a reviewer must decide
	WaitCredentials WaitKind = "credentials" // the user's credentials are not on this node
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
func (s *State) count(status CallStatus) (n int) {
	for i := range s.Calls {
		if s.Calls[i].Status == status {
			n++
		}
	}
	return n
}

// end ends the run.
func (s *State) end(status Status, why *Ending) {
	s.Status, s.Phase, s.Ending = status, phaseEnd, why
	s.Calls, s.Inputs, s.Answer, s.Lease, s.Woken = nil, nil, "", nil, false
}

// View is the representation of a run for clients.
type View struct {
	ID         string         `json:"id"`
	Agent      string         `json:"agent"`
	Status     Status         `json:"status"`
	Text       string         `json:"text,omitzero"`       // the agent's last answer
	Incomplete bool           `json:"incomplete,omitzero"` // the answer reached the model's limit of tokens
	Question   string         `json:"question,omitzero"`   // from the model to the user
	Reason     string         `json:"reason,omitzero"`     // why the run waits for its user, if there is no question
	Exposes    jsontext.Value `json:"exposes,omitzero"`    // see oagent.Exposed
	Reviews    []PendingCall  `json:"reviews,omitempty"`   // pending ones
	Error      *Ending        `json:"error,omitzero"`
	Usage      UsageView      `json:"usage"`
	StartedAt  time.Time      `json:"started_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
}

// PendingCall is a call that waits for a review.
type PendingCall struct {
	Review string `json:"id"`
	Name   string `json:"name"`
	Made   bool   `json:"made,omitzero"` // the call was made and its result is held
}

// UsageView is the usage of a run so far.
type UsageView struct {
	Turns        int   `json:"turns"`
	ToolCalls    int   `json:"tool_calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Estimated    bool  `json:"estimated,omitzero"` // the model's API did not report its tokens
}

// View returns the representation for clients, without exposed values.
func (s *State) View() *View {
	v := &View{
		ID: s.ID, Agent: s.Agent, Status: s.Status, Text: s.Text, Incomplete: s.Cut, Error: s.Ending,
		StartedAt: s.Started, UpdatedAt: s.Changed,
		Usage: UsageView{
			Turns: s.Turns, ToolCalls: s.CallsMade,
			InputTokens: s.Usage.InputTokens, OutputTokens: s.Usage.OutputTokens, Estimated: s.Usage.Estimated,
		},
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Status != CallWaiting {
			continue
		}
		switch c.Wait.Kind {
		case WaitReview:
			v.Reviews = append(v.Reviews, PendingCall{Review: c.Wait.ID, Name: c.Name, Made: c.Wait.Made})
		case WaitQuestion:
			v.Question = c.Wait.Message
		case WaitCredentials:
			v.Reason = c.Wait.Message
		}
	}
	return v
}
