package review

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// sharePeriod is how long identical calls share a released result. Clients that waited for the
// approval repeat their calls at the same time, and all of them get the result of the one call that
// was made. None of these calls returns before the period has ended, so a client that repeats the
// call after it got the result makes a new call.
const sharePeriod = 200 * time.Millisecond

// sharedTTL is how long the store keeps a shared result. It is much longer than sharePeriod, so that
// calls on a very slow node can still read the result.
const sharedTTL = time.Minute

// AgentScheme is the prefix of the name of a reviewer that is an agent.
const AgentScheme = "oagent://"

// Limits of reviews.
const (
	MaxComment = 2000 // bytes of a reviewer's comment

	maxStoredComment = 500              // bytes of the comment that the Engagement keeps
	MaxPending       = 32               // undecided reviews of one Engagement
	maxRequested     = 128              // reviews that an Engagement keeps; beyond that it drops the oldest decided one
	MaxOpen          = 1000             // undecided reviews of one reviewer, with shares for the users
	reviewSlack      = time.Hour        // time for which an expired review is still stored
	RetryPending     = 30 * time.Second // suggested delay before a refused call is repeated
	reviewPath       = "review/"        // prefix of the store's keys
	releasedPath     = "released/"      // prefix of the keys of released results

	OpenPrefix    = "reviewer/" // prefix of the keys of a reviewer's list of open reviews
	DecidedPrefix = "decided/"  // prefix of the keys of a reviewer's list of decisions
)

// Review asks a reviewer whether a call may be made, or whether its result may be released
// (OpenAgentSpec v1, restriction, require_review).
//
//   - The decision applies to exactly these inputs, of this tool, in this Engagement. An
//     approval allows one call.
//   - The decision applies to the current version of the document. If the document changes, a
//     review of inputs must be requested again. A held result needs no new review, because its call
//     was made, but it must pass the restrictions of the new document.
//   - The call waits up to the guard's ReviewWait for the decision, and is then refused.
//   - After an approval, an identical call passes. If the result was under review, the
//     identical call gets the held result and the tool is not called again. Identical calls
//     within sharePeriod get the same result. The store keeps the result until it is
//     released or the review expires.
//   - A reviewer may approve an editable call with other inputs. An identical call then passes with those
//     inputs, see oagent.Edit.
//   - After a denial, identical calls are refused as long as the Engagement keeps the review.
type Review struct {
	Summary

	ByAgent    string         `json:"reviewer_agent,omitzero"` // name of the agent that decides; "" if a user decides
	Status     string         `json:"status"`                  // engagement.ReviewPending, engagement.ReviewApproved or engagement.ReviewDenied
	Engagement string         `json:"engagement_id"`           // as sent by the client
	Inputs     jsontext.Value `json:"inputs"`
	Outputs    jsontext.Value `json:"outputs,omitzero"` // engagement.SideOutput only, until released
	Result     int            `json:"result,omitzero"`  // engagement.SideOutput only: HTTP status
	DecidedAt  time.Time      `json:"decided_at,omitzero"`
	Comment    string         `json:"comment,omitzero"` // of the reviewer

	DecidedBy engagement.Decider `json:"decided_by,omitzero"` // the user who decided; empty if an agent did
	Abandoned bool               `json:"abandoned,omitzero"`  // see Queue.Abandon; Comment is the reason
	Trace     string             `json:"trace,omitzero"`      // trace context of the call, see calltrace.Parent; "" if it has none

	Inspector   string   `json:"inspector,omitzero"` // that requires the review; "" if the agent's document does
	Found       []string `json:"found,omitempty"`    // what it has found and masked in Inputs
	HasOriginal bool     `json:"original,omitzero"`  // until the decision, there are original inputs, see Queue.Original

	Correction

	Original   jsontext.Value `json:"-"` // original inputs of a review that is not stored yet; nil if there are none
	Originals  *Originals     `json:"-"` // encrypts them
	InputsHash string         `json:"-"` // digest of the inputs, for a review that is not stored yet
	Document   string         `json:"-"` // hash of the agent's document, for a review that is not stored yet
}

// Correction is what reviewers may change, and have changed, in the inputs of a review.
type Correction struct {
	Editable bool           `json:"editable,omitzero"` // a reviewer may approve the call with other inputs, see Queue.ApproveEdited
	Edited   jsontext.Value `json:"edited,omitzero"`   // the inputs that were approved instead of those of the review
	Changed  string         `json:"changed,omitzero"`  // what reviewers have changed, see Changes
}

// decider returns the name that identifies the reviewer. The name of an agent begins with
// AgentScheme, so it never equals a user's id.
func (r *Review) decider() string {
	if r.ByAgent != "" {
		return AgentScheme + r.ByAgent
	}
	return r.Reviewer
}
