package console

import (
	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// decodeState reads the state of an Engagement, or of the run of a hosted agent.
func decodeState(m *engagementModel) error {
	var state struct {
		engagement.Summary
		Results raw `json:"results"`
	}
	if err := json.Unmarshal(m.State, &state, json.MatchCaseInsensitiveNames(false)); err != nil {
		// The run of a hosted agent has other members. The page then shows them as they are.
		return nil //nolint:nilerr // shown as JSON
	}
	m.Summary, m.Results = state.Summary, state.Results
	return nil
}

// entryWords say what an entry of a record means.
var entryWords = map[string]string{
	engagement.EntryBegun: "Call allowed", engagement.EntryFinished: "Result arrived", engagement.EntryHeld: "Result held for a review",
	engagement.EntryReleased: "Held result released", engagement.EntryAborted: "Call aborted", engagement.EntryRefused: "Refused",
	engagement.EntryReview: "Review requested", engagement.EntryDecided: "Review decided", engagement.EntryGuardrail: "Guardrail ran",
	engagement.EntryQuestion: "Asked for a decision", engagement.EntryDecision: "Decided about another Engagement", engagement.EntryRenewed: "Renewed",
	engagement.EntryLate: "Late result withheld", engagement.EntryRepeated: "Released result repeated",
}

// entryTitle says what an entry means.
func entryTitle(e engagement.Entry) string {
	if words := entryWords[e.What]; words != "" {
		return words
	}
	return e.What
}

// entryClass returns the CSS class of an entry.
func entryClass(e engagement.Entry) string {
	switch {
	case e.Kind != "" || e.What == engagement.EntryRefused || e.What == engagement.EntryAborted || e.Verdict == engagement.ReviewDenied:
		return "bad"
	case e.What == engagement.EntryHeld || e.What == engagement.EntryReview || e.What == engagement.EntryQuestion || e.What == engagement.EntryLate:
		return "warn"
	case e.What == engagement.EntryFinished || e.What == engagement.EntryReleased || e.Verdict == engagement.ReviewApproved:
		return "good"
	}
	return ""
}
