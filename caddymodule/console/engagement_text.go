package console

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// runModel is the run of a hosted agent, as the endpoint for Engagements describes it.
type runModel struct {
	ID        string         `json:"id"`
	Agent     string         `json:"agent"`
	Status    string         `json:"status"`
	Text      string         `json:"text"`      // the agent's last answer
	Questions []run.Question `json:"questions"` // to the user
	Reason    string         `json:"reason"`    // why it waits for the user
	RetryAt   time.Time      `json:"retry_at"`  // of the next request to a model that is unavailable
	Error     *struct {
		Kind    string `json:"kind"`
		Rule    string `json:"rule"`
		Message string `json:"message"`
	} `json:"error"`
	Usage *struct { // nil if this is not the state of a run
		Turns        int   `json:"turns"`
		ToolCalls    int   `json:"tool_calls"`
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
	} `json:"usage"`
}

// Over reports whether the run has ended.
func (r *runModel) Over() bool {
	return r.Status == string(run.StatusComplete) || r.Status == string(run.StatusError)
}

// Doing says what a run waits for, if that is not its user. It returns "" if the run has ended.
func (r *runModel) Doing() string {
	switch run.Status(r.Status) {
	case run.StatusAwaitingModel:
		if !r.RetryAt.IsZero() {
			return "The model is unavailable. The next request to it is made at " + r.RetryAt.UTC().Format(time.TimeOnly) + " UTC."
		}
		return "The model is at work."
	case run.StatusAwaitingTool:
		return "A tool call is in progress."
	case run.StatusAwaitingReview:
		return "A call waits for the decision of its reviewer."
	}
	return ""
}

// decodeState reads the state of an Engagement, or of the run of a hosted agent.
func decodeState(m *engagementModel) error {
	if hosted := decodeRun(m.State); hosted != nil {
		m.Run = hosted
		return nil
	}
	var state struct {
		engagement.Summary
		Results raw `json:"results"`
	}
	if err := json.Unmarshal(m.State, &state); err != nil {
		return fmt.Errorf("the state of an Engagement: %w", err)
	}
	m.Summary = state.Summary
	if string(state.Results) != "{}" {
		m.Results = state.Results
	}
	return nil
}

// decodeRun reads the state of a run. It returns nil if the text is not such a state.
func decodeRun(state raw) *runModel {
	decoded := new(runModel)
	if json.Unmarshal(state, decoded) != nil || decoded.Usage == nil {
		return nil
	}
	return decoded
}

// entryWords say what an entry of a record means.
var entryWords = map[string]string{
	engagement.EntryBegun: "Call allowed", engagement.EntryFinished: "Result arrived", engagement.EntryHeld: "Result held for a review",
	engagement.EntryReleased: "Held result released", engagement.EntryAborted: "Call aborted", engagement.EntryRefused: "Refused",
	engagement.EntryReview: "Review requested", engagement.EntryDecided: "Review decided", engagement.EntryOriginal: "Original of a review read", engagement.EntryGuardrail: "Guardrail ran",
	engagement.EntryQuestion: "Asked for a decision", engagement.EntryDecision: "Decided about another Engagement", engagement.EntryRenewed: "Renewed",
	engagement.EntryLate: "Late result withheld", engagement.EntryRepeated: "Released result repeated",
}

// statusWords explain the statuses of Engagements.
var statusWords = map[string]string{
	string(run.StatusAwaitingModel): "the agent makes the next step", string(run.StatusAwaitingTool): "a tool call is in progress",
	string(run.StatusAwaitingReview): "a reviewer must decide", string(run.StatusAwaitingInput): "the user must answer or log in",
	string(run.StatusComplete): "the agent has answered", string(run.StatusError): "ended without an answer",
}

// statusClass returns the CSS class of a status of an Engagement.
func statusClass(status string) string {
	switch run.Status(status) {
	case run.StatusComplete:
		return "good"
	case run.StatusError:
		return "bad"
	case run.StatusAwaitingReview, run.StatusAwaitingInput:
		return "warn"
	}
	return ""
}

// entryTitle says what an entry means.
func entryTitle(e entryModel) string {
	if words := entryWords[e.Event]; words != "" {
		return words
	}
	return e.Event
}

// entryClass returns the CSS class of an entry.
func entryClass(e entryModel) string {
	switch {
	case e.Kind != "" || e.Event == engagement.EntryRefused || e.Event == engagement.EntryAborted || e.Verdict == engagement.ReviewDenied:
		return "bad"
	case e.Event == engagement.EntryHeld || e.Event == engagement.EntryReview || e.Event == engagement.EntryQuestion || e.Event == engagement.EntryLate:
		return "warn"
	case e.Event == engagement.EntryFinished || e.Event == engagement.EntryReleased || e.Verdict == engagement.ReviewApproved:
		return "good"
	}
	return ""
}
