package run

import (
	"context"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// Limits of a Trace. Longer texts are cut, and what exceeds maxTraced is left out.
const (
	maxTracedText  = 4 << 10 // bytes of one text, arguments or reason
	maxTraced      = 1000    // turns and calls together, with those of called agents
	maxTracedBytes = 1 << 20 // bytes of all texts; later ones are empty
)

// Trace is what happened in a run, in order.
type Trace struct {
	Turns   []Turn    `json:"turns"`
	Omitted int       `json:"omitted,omitzero"` // turns and calls that exceed maxTraced
	Ended   time.Time `json:"ended_at,omitzero"`
}

// Turn is a message of the user or of the model, or a summary.
type Turn struct {
	Number int          `json:"number,omitzero"` // of the message of the model, from 1; 0 for others
	Began  time.Time    `json:"began_at"`        // when the model could begin; for the user, when the agent read the message
	Ended  time.Time    `json:"ended_at,omitzero"`
	Text   string       `json:"text,omitzero"`
	Model  string       `json:"model,omitzero"` // name of the model that generated the message
	Usage  *model.Usage `json:"usage,omitzero"` // of this message; nil if it was not recorded
	Calls  []TracedCall `json:"calls,omitempty"`

	Summary bool `json:"summary,omitzero"` // the text is a summary of messages that the model no longer gets
}

// TracedCall is a tool call of the model.
type TracedCall struct {
	Name      string       `json:"name"`
	Arguments string       `json:"arguments,omitzero"` // as the model wrote them, perhaps not JSON
	Began     time.Time    `json:"began_at"`           // of the first attempt; for a rejected call, when the model requested it
	Ended     time.Time    `json:"ended_at,omitzero"`
	Status    callStatus   `json:"status"`           // CallRejected if the call was never begun
	Failed    bool         `json:"failed,omitzero"`  // the result is an error
	Reason    string       `json:"reason,omitzero"`  // the error of this server, such as a refusal; not what a tool returned
	WaitedFor WaitKind     `json:"waited,omitzero"`  // the last Wait of the call
	Run       string       `json:"run,omitzero"`     // of the agent that the call started on this server
	Inside    []TracedCall `json:"inside,omitempty"` // the calls of that run, without texts
}

// CallRejected is the status in a Trace of a call that was not begun: of an unknown tool, or with arguments that
// are not a JSON object.
const CallRejected callStatus = "rejected"

// Input returns the first message of the user.
func (t *Trace) Input() string {
	if len(t.Turns) == 0 {
		return ""
	}
	return t.Turns[0].Text
}

// WithoutTexts removes what the model and the user wrote.
func (t *Trace) WithoutTexts() {
	for i := range t.Turns {
		turn := &t.Turns[i]
		if turn.Number > 0 || turn.Summary {
			turn.Text = ""
		}
		for j := range turn.Calls {
			turn.Calls[j].Arguments, turn.Calls[j].Reason = "", ""
		}
	}
}

// Trace returns what happened in a run so far.
func (r *Runner) Trace(ctx context.Context, st *State) (*Trace, error) {
	t := &tracer{runner: r, left: maxTraced, bytes: maxTracedBytes}
	trace, err := t.trace(ctx, st)
	if err == nil && len(trace.Turns) == 0 && len(st.Inputs) > 0 { // the agent has not read it yet
		trace.Turns = []Turn{{Began: st.Started, Ended: st.Started, Text: t.cut(st.Inputs[0].Text)}}
	}
	return trace, err
}

// tracer reads traces, within the limits.
type tracer struct {
	runner      *Runner
	left, bytes int
}

func (t *tracer) cut(content string) string {
	content = text.Cut(content, min(maxTracedText, t.bytes))
	t.bytes -= len(content)
	return content
}

func (t *tracer) trace(ctx context.Context, st *State) (*Trace, error) {
	trace := &Trace{Turns: []Turn{}}
	turns, last, skipped := 0, st.Started, false
	err := t.runner.storage.entries(ctx, st.ID, func(e *entry) error {
		if (e.Kind == entryMessage || e.Kind == entrySummary) && e.Message != nil {
			trace.Ended = time.Time{} // the run went on
			if e.Kind == entryMessage && e.Message.Role == model.RoleAssistant {
				turns++
			}
			if skipped = t.left < 1+len(e.Message.Calls); skipped {
				trace.Omitted += 1 + len(e.Message.Calls)
			} else {
				trace.Turns = append(trace.Turns, t.turn(e, turns, last))
			}
		} else if n := len(trace.Turns); n > 0 && !skipped && e.Call < len(trace.Turns[n-1].Calls) {
			t.progress(&trace.Turns[n-1].Calls[e.Call], e)
		}
		if e.Kind == entryEnded {
			trace.Ended = e.At
		}
		last = e.At
		return nil
	})
	if err != nil {
		return nil, err
	}
	if st.Phase == phaseModel && !skipped {
		trace.Turns = append(trace.Turns, Turn{Number: turns + 1, Began: last})
	}
	return trace, t.addCalled(ctx, trace)
}

// turn returns the turn of a message. Began is when the model could begin to write it.
func (t *tracer) turn(e *entry, number int, began time.Time) Turn {
	t.left -= 1 + len(e.Message.Calls)
	turn := Turn{Number: number, Began: began, Ended: e.At, Text: t.cut(e.Message.Text), Model: e.Message.Model, Usage: e.Usage}
	if e.Message.Role == model.RoleUser {
		turn.Number, turn.Began = 0, e.At
	}
	if e.Kind == entrySummary {
		turn.Number, turn.Summary = 0, true
	}
	for _, c := range e.Message.Calls {
		turn.Calls = append(turn.Calls, TracedCall{Name: quoteName(c.Name), Arguments: t.cut(c.Arguments), Began: e.At, Status: callPlanned})
	}
	return turn
}

// progress adds an entry of the log to a call.
func (t *tracer) progress(c *TracedCall, e *entry) {
	switch e.Kind {
	case entryBegun:
		if c.Status == callPlanned {
			c.Began = e.At
		}
		c.Status = callBegun
	case entryWaiting:
		c.Status, c.WaitedFor = CallWaiting, e.Wait.Kind
		if e.Wait.Kind == WaitTask {
			c.Run = e.Wait.ID
		}
	case entryResult:
		c.Ended = e.At
		if c.Status == callPlanned {
			c.Status = CallRejected
		} else {
			c.Status = CallDone
		}
		if c.Failed = e.Result.IsError; c.Failed && !isData(e.Result) {
			c.Reason = t.cut(e.Result.Content)
		}
	}
}

// isData reports whether a tool returned the result, see resultFor. Otherwise the server wrote it.
func isData(r *model.ToolResult) bool { return strings.HasPrefix(r.Content, `{"note":"`+dataNote) }

// addCalled adds the calls of the agents that the run called.
func (t *tracer) addCalled(ctx context.Context, trace *Trace) error {
	for i := range trace.Turns {
		turn := &trace.Turns[i]
		for j := range turn.Calls {
			c := &turn.Calls[j]
			if c.Run == "" {
				continue
			}
			called, err := t.runner.storage.get(ctx, c.Run)
			if isNotFound(err) { // it has expired, or is a task of another server
				c.Run = ""
				continue
			}
			if err != nil {
				return err
			}
			inside, err := t.trace(ctx, called)
			if err != nil {
				return err
			}
			inside.WithoutTexts()
			trace.Omitted += inside.Omitted
			for _, turn := range inside.Turns {
				c.Inside = append(c.Inside, turn.Calls...)
			}
		}
	}
	return nil
}
