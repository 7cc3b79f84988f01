package review

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Requests are the reviews in the state of an Engagement, within a transaction. The state
// decides whether a call passes.
type Requests struct {
	tx  *engagement.Tx
	ttl time.Duration
}

// Requests returns the reviews in the state of an Engagement.
func (q *Queue) Requests(tx *engagement.Tx) Requests { return Requests{tx, q.options.TTL} }

// Add adds a prepared review to the Engagement. call and nth are the numbers of the call whose
// result is under review, or 0.
func (r Requests) Add(review *Review, call, nth int64) *engagement.RequestedReview {
	r.dropExpired()
	s := r.tx.State
	s.Reviews = append(s.Reviews, engagement.RequestedReview{
		ID: review.ID, Side: review.Side, Reviewer: review.Reviewer, Name: review.Name, Inputs: review.InputsHash, Document: review.Document,
		Call: call, Nth: nth, Status: engagement.ReviewPending, At: r.tx.Now.UnixMilli(),
	})
	r.tx.Log(engagement.Entry{
		Event: engagement.EntryReview, Name: review.Name, Call: call, Nth: nth, Side: review.Side, Rule: review.Rule, Review: review.ID, By: review.Reviewer,
		Inputs: r.tx.Keep(review.Inputs),
	})
	r.tx.Durable, r.tx.Prolong = true, true
	return &s.Reviews[len(s.Reviews)-1]
}

// dropExpired drops reviews that are no longer valid, and makes space for one more.
func (r Requests) dropExpired() {
	kept := r.tx.State.Reviews[:0]
	for _, a := range r.tx.State.Reviews {
		if !r.expired(&a) {
			kept = append(kept, a)
		}
	}
	for i := 0; i < len(kept) && len(kept) >= maxRequested; {
		if kept[i].Status == engagement.ReviewPending {
			i++
			continue
		}
		kept = append(kept[:i], kept[i+1:]...)
	}
	r.tx.State.Reviews = kept
}

func (r Requests) expired(a *engagement.RequestedReview) bool {
	if a.Status == engagement.ReviewReleased {
		return engagement.Milliseconds(a.Released).Add(sharePeriod).Before(r.tx.Now)
	}
	return engagement.Milliseconds(a.At).Add(r.ttl).Before(r.tx.Now)
}

// Pending counts the undecided reviews.
func (r Requests) Pending() int {
	n := 0
	for i := range r.tx.State.Reviews {
		if a := &r.tx.State.Reviews[i]; a.Status == engagement.ReviewPending && !r.expired(a) {
			n++
		}
	}
	return n
}

// Find returns the index of the first valid review for which matches returns true, or -1.
func (r Requests) Find(matches func(*engagement.RequestedReview) bool) int {
	for i := range r.tx.State.Reviews {
		if a := &r.tx.State.Reviews[i]; matches(a) && !r.expired(a) {
			return i
		}
	}
	return -1
}

// Drop removes a used review.
func (r Requests) Drop(i int) {
	r.tx.State.Reviews = append(r.tx.State.Reviews[:i], r.tx.State.Reviews[i+1:]...)
}

// Release releases the result that is held for the review at index i. It updates i, because the list
// changes. outputs is nil if the record must not contain them.
func (r Requests) Release(i *int, outputs jsontext.Value, status int) {
	r.dropReleased(i)
	a := &r.tx.State.Reviews[*i]
	a.Status, a.Released = engagement.ReviewReleased, r.tx.Now.UnixMilli()
	e := engagement.Entry{Event: engagement.EntryReleased, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID}
	r.tx.Finish(e, outputs)
	r.tx.Durable, r.tx.Prolong = true, true // if the release were lost, the call could not be repeated
}

// dropReleased drops released reviews that are no longer shared, except the one at index i. It updates
// i.
func (r Requests) dropReleased(i *int) {
	kept := r.tx.State.Reviews[:0]
	for j := range r.tx.State.Reviews {
		a := r.tx.State.Reviews[j]
		if a.Status == engagement.ReviewReleased && r.expired(&a) {
			continue
		}
		if j == *i {
			*i = len(kept)
		}
		kept = append(kept, a)
	}
	r.tx.State.Reviews = kept
}

// Repeat records that a released result is returned to an identical call.
func (r Requests) Repeat(a *engagement.RequestedReview, status int) {
	r.tx.Log(engagement.Entry{Event: engagement.EntryRepeated, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID})
}
