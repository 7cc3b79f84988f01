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

// In returns the reviews of an Engagement.
func (q *Queue) In(tx *engagement.Tx) Requests { return Requests{tx, q.options.TTL} }

// Add adds a prepared review to the Engagement. call and nth are the numbers of the call whose
// result is under review, or 0.
func (r Requests) Add(review *Review, call, nth int64) *engagement.RequestedReview {
	r.forget()
	s := r.tx.State
	s.Reviews = append(s.Reviews, engagement.RequestedReview{
		ID: review.ID, Side: review.Side, Reviewer: review.Reviewer, Name: review.Name, Inputs: review.InputsHash, Document: review.Document,
		Call: call, Nth: nth, Status: engagement.ReviewPending, At: r.tx.Now.UnixMilli(),
	})
	r.tx.Log(engagement.Entry{
		What: engagement.EntryReview, Name: review.Name, Call: call, Nth: nth, Side: review.Side, Rule: review.Rule, Review: review.ID, By: review.Reviewer,
		Inputs: r.tx.Keep(review.Inputs),
	})
	r.tx.Durable, r.tx.Prolong = true, true
	return &s.Reviews[len(s.Reviews)-1]
}

// forget drops reviews that are no longer in force, and makes space for one more.
func (r Requests) forget() {
	kept := r.tx.State.Reviews[:0]
	for _, a := range r.tx.State.Reviews {
		if !r.expired(&a) {
			kept = append(kept, a)
		}
	}
	for i := 0; i < len(kept) && len(kept) >= maxAsked; {
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
		return engagement.Milliseconds(a.Released).Add(releaseShared).Before(r.tx.Now)
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

// Find returns the index of the wanted review that is in force, or -1.
func (r Requests) Find(wanted func(*engagement.RequestedReview) bool) int {
	for i := range r.tx.State.Reviews {
		if a := &r.tx.State.Reviews[i]; wanted(a) && !r.expired(a) {
			return i
		}
	}
	return -1
}

// Drop removes a used review.
func (r Requests) Drop(i int) {
	r.tx.State.Reviews = append(r.tx.State.Reviews[:i], r.tx.State.Reviews[i+1:]...)
}

// Release releases the result that the review at that index holds back. It updates the index,
// because the list changes. outputs is nil if the record must not contain them.
func (r Requests) Release(i *int, outputs jsontext.Value, status int) {
	r.forgetReleased(i)
	a := &r.tx.State.Reviews[*i]
	a.Status, a.Released = engagement.ReviewReleased, r.tx.Now.UnixMilli()
	e := engagement.Entry{What: engagement.EntryReleased, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID}
	r.tx.Finish(e, outputs)
	r.tx.Durable, r.tx.Prolong = true, true // the call is not made again
}

// forgetReleased drops released reviews that are no longer shared, but not the one at that
// index.
func (r Requests) forgetReleased(i *int) {
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

// Repeat records that a released result is given to an identical call.
func (r Requests) Repeat(a *engagement.RequestedReview, status int) {
	r.tx.Log(engagement.Entry{What: engagement.EntryRepeated, Call: a.Call, Nth: a.Nth, Name: a.Name, Status: status, Review: a.ID})
}
