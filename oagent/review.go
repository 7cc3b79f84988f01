package oagent

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Side tells what comes before a capability or a model from what comes after.
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

	// reviewReleased is what the Engagement notes of an approved review whose result
	// was given, until releaseShared is over.
	reviewReleased = "released"
)

// releaseShared is how long identical calls share a result that was held and is now
// given. Clients that waited for the approval repeat their calls at the same time;
// all of them get the result of the one call that was made. None of them returns
// before that time is over, so that a client which repeats the call after it got the
// result makes a new call.
const releaseShared = 200 * time.Millisecond

// releasedKept is how long the store keeps a result that is shared: long enough for
// every call that found it in time.
const releasedKept = 10 * time.Second

// Limits of reviews.
const (
	MaxComment = 2000 // bytes of what a reviewer says

	maxRemembered = 500              // bytes of that which the Engagement repeats
	maxPending    = 32               // reviews of one Engagement that are not decided
	maxAsked      = 128              // that are remembered: of more, the oldest decided is forgotten
	maxOpen       = 1000             // reviews that one reviewer has to decide
	maxOpenOfUser = maxOpen / 2      // of them that are about the calls of one user
	reviewSlack   = time.Hour        // that a review is kept for longer than it counts
	retryReview   = 30 * time.Second // when to look again for a decision, if nothing is waited for
	reviewPath    = "review/"        // begins the store's keys
	releasedPath  = "released/"      // of results that were given after a review, for a moment
	openPath      = "reviewer/"      // of the lists of what somebody has to decide
)

// A Review is a question to a reviewer: whether a call may be made, or its result
// be given (OpenAgentSpec v1, require_review). The answer is for exactly these
// inputs, of this tool, in this Engagement, which is that of one agent and one
// user; and an approval lets one call pass.
//
// The answer is for the document as it was, too: when that has changed, a call is
// asked for anew. A result that was held is not, for its call was made; it must
// pass what the document says now.
//
// The call waits for the answer for a while, and is refused then. An identical
// call after the approval passes; where the result is in question, it gets the
// result that was held back, and the tool is not used again. So do identical calls
// within releaseShared of that. For this the result is kept in the store, until it
// is given or the review expires. After a denial
// identical calls are refused as long as the Engagement remembers it.
type Review struct {
	ID         string         `json:"id"`
	Reviewer   string         `json:"reviewer"`                // a user's id or a reference to an agent, as the document has it
	ByAgent    string         `json:"reviewer_agent,omitzero"` // name of the agent that decides; "" if a user does
	Status     string         `json:"status"`                  // ReviewPending, ReviewApproved or ReviewDenied
	Side       Side           `json:"side"`                    // SideOutput if the call was made, and its result is held
	Rule       string         `json:"rule"`                    // path in the document
	Agent      string         `json:"agent"`
	Engagement string         `json:"engagement_id"` // as the client gave it
	Key        string         `json:"key"`           // see Binding.Key
	User       User           `json:"user"`
	Name       string         `json:"name"` // the tool or agent called
	Inputs     jsontext.Value `json:"inputs"`
	Outputs    jsontext.Value `json:"outputs,omitzero"` // SideOutput only, until they are given
	Result     int            `json:"result,omitzero"`  // SideOutput only: status of HTTP
	AskedAt    time.Time      `json:"asked_at"`
	ExpiresAt  time.Time      `json:"expires_at"` // it counts until then
	DecidedAt  time.Time      `json:"decided_at,omitzero"`
	Comment    string         `json:"comment,omitzero"` // of the reviewer

	hash     string // of the inputs
	document string // of the agent, its hash
}

// newReview returns a review of a call that is to be asked for.
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

// setReviewer notes who decides: an agent if the reference can be to nothing else,
// or if the server has an agent of that name.
func (r *Review) setReviewer(c *Call, reviewer string) {
	r.Reviewer = reviewer
	name, isAgent := strings.CutPrefix(reviewer, Scheme)
	if isAgent && CheckName(name) == nil || c.Names != nil && c.Names.Agent(reviewer) {
		r.ByAgent = name
	}
}

// decider returns under which name the review is decided: no user has one that
// begins with the Scheme.
func (r *Review) decider() string {
	if r.ByAgent != "" {
		return Scheme + r.ByAgent
	}
	return r.Reviewer
}

// over reports whether the review cannot be decided any more.
func (g *Guard) over(r *Review) bool {
	return r.Status != ReviewPending || r.ExpiresAt.Before(g.options.Now())
}

// ask puts a prepared review into the Engagement.
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

// forgetReviews drops what does not count any more, and makes room for one.
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

// pendingReviews counts what somebody has yet to decide.
func (t *turn) pendingReviews() int {
	n := 0
	for i := range t.state.Reviews {
		if a := &t.state.Reviews[i]; a.Status == ReviewPending && !t.expired(a) {
			n++
		}
	}
	return n
}

// findReview returns the index of the review that is wanted, and counts; -1 if
// there is none.
func (t *turn) findReview(wanted func(*asked) bool) int {
	for i := range t.state.Reviews {
		if a := &t.state.Reviews[i]; wanted(a) && !t.expired(a) {
			return i
		}
	}
	return -1
}

// dropReview forgets a review that is used up.
func (t *turn) dropReview(i int) {
	t.state.Reviews = append(t.state.Reviews[:i], t.state.Reviews[i+1:]...)
}

// release gives the result that the review of that index has held back. The index
// changes with the list.
func (t *turn) release(i *int, c *Capability, outputs payload, status int) {
	t.forgetReleased(i)
	a := &t.state.Reviews[*i]
	a.Status, a.Released = reviewReleased, t.now.UnixMilli()
	e := Entry{What: EntryReleased, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID}
	t.finished(e, c, outputs)
	t.durable, t.prolong = true, true // the call is not made again
}

// forgetReleased drops the released reviews that do not count any more, of which
// the one of that index is none.
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

// repeat records that a result which was released is given to an identical call.
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
