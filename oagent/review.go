package oagent

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Side is input (before a capability or a model is called) or output (after it).
type Side string

// Sides.
const (
	SideInput  Side = "input"
	SideOutput Side = "output"
)

// Statuses of a review.
const (
	ReviewPending  = "pending"
	ReviewApproved = "approved"
	ReviewDenied   = "denied"

	// reviewReleased is the status in the Engagement of an approved review whose result was
	// released. It lasts for releaseShared.
	reviewReleased = "released"
)

// releaseShared is how long identical calls share a released result. Clients that waited for
// the approval repeat their calls at the same time, and all of them get the result of the one
// call that was made. None of these calls returns before this time is over. So a client that
// repeats the call after it got the result makes a new call.
const releaseShared = 200 * time.Millisecond

// releasedKept is how long the store keeps a shared result. Every call that found the result
// within releaseShared can still read it.
const releasedKept = 10 * time.Second

// Limits of reviews.
const (
	MaxComment = 2000 // bytes of a reviewer's comment

	maxRemembered = 500              // bytes of the comment that the Engagement keeps
	maxPending    = 32               // undecided reviews of one Engagement
	maxAsked      = 128              // reviews that an Engagement keeps; beyond that it drops the oldest decided one
	maxOpen       = 1000             // undecided reviews of one reviewer
	maxOpenOfUser = maxOpen / 2      // of these, reviews of the calls of one user
	reviewSlack   = time.Hour        // how much longer than its validity a review is stored
	retryReview   = 30 * time.Second // when to check for a decision again, if the call does not wait
	reviewPath    = "review/"        // prefix of the store's keys
	releasedPath  = "released/"      // prefix of the keys of released results
	openPath      = "reviewer/"      // prefix of the keys of a reviewer's list of open reviews
)

// Review asks a reviewer whether a call may be made, or whether its result may be released
// (OpenAgentSpec v1, restriction, require_review).
//
//   - The decision applies to exactly these inputs, of this tool, in this Engagement. An
//     approval allows one call.
//   - The decision applies to the document at that time. If the document changes, an input
//     review must be requested again. A held result needs no new review, because its call was
//     made, but it must pass the restrictions of the new document.
//   - The call waits up to GuardOptions.ReviewWait for the decision, and is then refused.
//   - After an approval, an identical call passes. If the result was under review, the
//     identical call gets the held result and the tool is not called again. Identical calls
//     within releaseShared get the same result. The store keeps the result until it is
//     released or the review expires.
//   - After a denial, identical calls are refused as long as the Engagement keeps the review.
type Review struct {
	ID         string         `json:"id"`
	Reviewer   string         `json:"reviewer"`                // a user's id or a reference to an agent, as written in the document
	ByAgent    string         `json:"reviewer_agent,omitzero"` // name of the agent that decides; "" if a user decides
	Status     string         `json:"status"`                  // ReviewPending, ReviewApproved or ReviewDenied
	Side       Side           `json:"side"`                    // SideOutput if the call was made and its result is held
	Rule       string         `json:"rule"`                    // path in the document
	Agent      string         `json:"agent"`
	Engagement string         `json:"engagement_id"` // as sent by the client
	Key        string         `json:"key"`           // see Binding.Key
	User       User           `json:"user"`
	Name       string         `json:"name"` // the tool or agent called
	Inputs     jsontext.Value `json:"inputs"`
	Outputs    jsontext.Value `json:"outputs,omitzero"` // SideOutput only, until released
	Result     int            `json:"result,omitzero"`  // SideOutput only: HTTP status
	AskedAt    time.Time      `json:"asked_at"`
	ExpiresAt  time.Time      `json:"expires_at"` // end of its validity
	DecidedAt  time.Time      `json:"decided_at,omitzero"`
	Comment    string         `json:"comment,omitzero"` // of the reviewer

	hash     string // of the inputs
	document string // Agent.Hash
}

// newReview returns a new review of a call. It is not stored yet.
func (g *Guard) newReview(c *Call, side Side, inputs payload, hash string) *Review {
	now := g.options.Now().UTC().Truncate(time.Millisecond)
	r := &Review{
		ID:         rand.Text(),
		Status:     ReviewPending,
		Side:       side,
		Agent:      c.Agent.Name,
		Engagement: c.Engagement,
		Key:        c.Key(),
		User:       c.User,
		Name:       c.Name,
		Inputs:     inputs,
		AskedAt:    now,
		ExpiresAt:  now.Add(g.options.ReviewTTL),
		hash:       hash,
		document:   c.Agent.Hash,
	}
	return r
}

// setReviewer sets who decides. The reviewer is an agent if the reference can only mean an
// agent, or if the server has an agent with that name.
func (r *Review) setReviewer(c *Call, reviewer string) {
	r.Reviewer = reviewer
	name, isAgent := strings.CutPrefix(reviewer, Scheme)
	if isAgent && CheckName(name) == nil || c.Names != nil && c.Names.Agent(reviewer) {
		r.ByAgent = name
	}
}

// decider returns the name that identifies the reviewer. The name of an agent begins with
// Scheme, so it never equals a user's id.
func (r *Review) decider() string {
	if r.ByAgent != "" {
		return Scheme + r.ByAgent
	}
	return r.Reviewer
}

// over reports whether the review can no longer be decided.
func (g *Guard) over(r *Review) bool {
	return r.Status != ReviewPending || r.ExpiresAt.Before(g.options.Now())
}

// ask adds a prepared review to the Engagement.
func (t *turn) ask(r *Review, call, nth int64) *asked {
	t.forgetReviews()
	t.state.Reviews = append(t.state.Reviews, asked{
		ID: r.ID, Side: r.Side, Reviewer: r.Reviewer, Name: r.Name, Inputs: r.hash, Document: r.document,
		Call: call, Nth: nth, Status: ReviewPending, At: t.now.UnixMilli(),
	})
	t.log(Entry{
		What: EntryReview, Name: r.Name, Call: call, Nth: nth, Side: r.Side, Rule: r.Rule, Review: r.ID, By: r.Reviewer,
		Inputs: t.keep(r.Inputs),
	})
	t.durable, t.prolong = true, true
	return &t.state.Reviews[len(t.state.Reviews)-1]
}

// forgetReviews drops reviews that are no longer in force, and makes space for one more.
func (t *turn) forgetReviews() {
	kept := t.state.Reviews[:0]
	for _, a := range t.state.Reviews {
		if !t.expired(&a) {
			kept = append(kept, a)
		}
	}
	for i := 0; i < len(kept) && len(kept) >= maxAsked; {
		if kept[i].Status == ReviewPending {
			i++
			continue
		}
		kept = append(kept[:i], kept[i+1:]...)
	}
	t.state.Reviews = kept
}

func (t *turn) expired(a *asked) bool {
	if a.Status == reviewReleased {
		return milliseconds(a.Released).Add(releaseShared).Before(t.now)
	}
	return milliseconds(a.At).Add(t.guard.options.ReviewTTL).Before(t.now)
}

// pendingReviews counts the undecided reviews.
func (t *turn) pendingReviews() int {
	n := 0
	for i := range t.state.Reviews {
		if a := &t.state.Reviews[i]; a.Status == ReviewPending && !t.expired(a) {
			n++
		}
	}
	return n
}

// findReview returns the index of the wanted review that is in force, or -1.
func (t *turn) findReview(wanted func(*asked) bool) int {
	for i := range t.state.Reviews {
		if a := &t.state.Reviews[i]; wanted(a) && !t.expired(a) {
			return i
		}
	}
	return -1
}

// dropReview removes a used review.
func (t *turn) dropReview(i int) {
	t.state.Reviews = append(t.state.Reviews[:i], t.state.Reviews[i+1:]...)
}

// release releases the result that the review at that index holds back. It updates the index,
// because the list changes.
func (t *turn) release(i *int, c *Capability, outputs payload, status int) {
	t.forgetReleased(i)
	a := &t.state.Reviews[*i]
	a.Status, a.Released = reviewReleased, t.now.UnixMilli()
	e := Entry{What: EntryReleased, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID}
	t.finished(e, c, outputs)
	t.durable, t.prolong = true, true // the call is not made again
}

// forgetReleased drops released reviews that are no longer shared, but not the one at that
// index.
func (t *turn) forgetReleased(i *int) {
	kept := t.state.Reviews[:0]
	for j := range t.state.Reviews {
		a := t.state.Reviews[j]
		if a.Status == reviewReleased && t.expired(&a) {
			continue
		}
		if j == *i {
			*i = len(kept)
		}
		kept = append(kept, a)
	}
	t.state.Reviews = kept
}

// repeat records that a released result is given to an identical call.
func (t *turn) repeat(a *asked, status int) {
	t.log(Entry{What: EntryRepeated, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID})
}

// finished records a result that may be used.
func (t *turn) finished(e Entry, c *Capability, outputs payload) {
	if c.CollectResults {
		e.Outputs = t.keep(outputs)
	}
	at := t.log(e)
	if i := t.state.find(e.Name); i >= 0 && t.state.Names[i].Call == e.Call {
		t.state.Names[i].Done = at
	}
}
