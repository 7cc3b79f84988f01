package review

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

var (
	// ErrNotFound means that there is no such review, that it no longer exists, or that it
	// belongs to another reviewer.
	ErrNotFound = errors.New("no such review")
	// ErrDecided means that the review was already decided differently.
	ErrDecided = errors.New("the review was already decided")

	// ErrBusy means that the reviewer has too many open reviews.
	ErrBusy = errors.New("the reviewer has too many open reviews")
	// ErrNotEditable means that the inputs of the review cannot be changed.
	ErrNotEditable = errors.New("the inputs of this review cannot be changed")
	// ErrTooLarge means that the record has no room for the inputs of a reviewer.
	ErrTooLarge = errors.New("the inputs are too large for the record")
)

// Options configures a Queue. Every option is required.
type Options struct {
	Store      store.Store
	Records    *engagement.Records
	TTL        time.Duration    // time within which a review must be decided, and an approval used
	RetryPause time.Duration    // before the program of a reviewing agent is called again; doubles each time
	Now        func() time.Time // current time

	OnRequested func(*Review) // called when a reviewer gets a new review; must return quickly
	OnDecided   func(*Review) // called when a review was decided; must return quickly
}

// Queue holds the reviews that reviewers must decide. The store keeps each review under its
// id, and a list of open reviews for each reviewer. The Engagement is authoritative: its state
// decides whether a call passes, in the same transaction as its record (Requests).
//
// A Queue is safe for concurrent use.
type Queue struct {
	options   Options
	lists     lists
	decisions decisions
}

// NewQueue returns the queue in options.Store.
func NewQueue(options Options) *Queue {
	return &Queue{options: options, lists: newLists(&options), decisions: newDecisions(&options)}
}

// New returns the review with an id and its times. It is not stored yet.
func (q *Queue) New(r Review) *Review {
	now := q.options.Now().UTC().Truncate(time.Millisecond)
	r.ID, r.Status, r.AskedAt, r.ExpiresAt = rand.Text(), engagement.ReviewPending, now, now.Add(q.options.TTL)
	return &r
}

// isOver reports whether the review can no longer be decided.
func (q *Queue) isOver(r *Review) bool {
	return r.Status != engagement.ReviewPending || r.ExpiresAt.Before(q.options.Now())
}

// Prepare stores a review before it is added to the Engagement. The error is
// ErrBusy if the review is about a call that was not made and its reviewer has too many open
// reviews. Nothing is stored then, so repeated requests cannot fill the store.
func (q *Queue) Prepare(ctx context.Context, r *Review) (*Review, error) {
	if r.Side == engagement.SideInput {
		if err := q.lists.checkSpace(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, q.put(ctx, r)
}

// AwaitReleased waits until a result that was released at the given time is no longer shared, see
// sharePeriod.
func (q *Queue) AwaitReleased(ctx context.Context, at int64) {
	select {
	case <-time.After(engagement.Milliseconds(at).Add(sharePeriod + time.Millisecond).Sub(q.options.Now())):
	case <-ctx.Done():
	}
}

// Open returns the review that an Engagement waits for, and adds it to the list of its reviewer. If
// the review is missing in the store, recreate returns a new one, or nil if that is impossible.
func (q *Queue) Open(ctx context.Context, a *engagement.RequestedReview, recreate func() *Review) (*Review, error) {
	r, err := q.read(ctx, a.ID)
	if errors.Is(err, ErrNotFound) {
		if r = recreate(); r == nil {
			return nil, err
		}
		r.AskedAt = engagement.Milliseconds(a.At)
		r.ExpiresAt = r.AskedAt.Add(q.options.TTL)
		err = q.put(ctx, r)
	}
	if err != nil || r.Status != engagement.ReviewPending {
		return r, err
	}
	if r.ByAgent != "" {
		switch err := q.Assign(ctx, r); {
		case isEnded(err):
			return r, nil // it has just been denied
		case err != nil:
			return nil, err
		}
	}
	added, err := q.lists.add(ctx, r)
	if added {
		q.options.OnRequested(r)
	}
	return r, err
}

// Await waits until a review is decided, and reports whether it was.
func (q *Queue) Await(ctx context.Context, id string, until time.Time) (decided bool, err error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	record, err := q.options.Store.Get(ctx, reviewPath+id)
	for {
		switch {
		case errors.Is(err, store.ErrNotFound):
			return true, nil // the caller reads the Engagement again
		case err != nil && within.Err() != nil:
			return false, nil
		case err != nil:
			return false, err
		}
		r, unreadable := decodeReview(id, record.Value)
		if unreadable != nil || r.Status != engagement.ReviewPending {
			return unreadable == nil, unreadable
		}
		if record, err = q.options.Store.Wait(within, reviewPath+id, record.Value); within.Err() != nil && err != nil {
			return false, nil
		}
	}
}

// Get returns a review of this reviewer, open or decided. For another reviewer the error is
// ErrNotFound, as if the review did not exist. reviewer is a user's id, or oagent:// and the
// name of an agent.
func (q *Queue) Get(ctx context.Context, id, reviewer string) (*Review, error) {
	r, err := q.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.decider() != reviewer {
		return nil, ErrNotFound
	}
	if q.isOver(r) {
		_ = q.lists.remove(ctx, reviewer, id) // best effort: repeated at the next call
	}
	return r, nil
}

// Decide approves or denies a review. Only its reviewer may decide; for others the error is
// ErrNotFound. See Get for the form of reviewer.
//
//   - Repeating the same decision has no effect. For a different one the error is ErrDecided, and the
//     review is returned beside it.
//   - An agent decides in an Engagement of its own, see DecidingRef. If that Engagement has
//     ended, the review is denied regardless of the decision, and the error is an *engagement.Refusal.
func (q *Queue) Decide(ctx context.Context, id, reviewer string, approve bool, comment string) (*Review, error) {
	return q.DecideBy(ctx, id, reviewer, engagement.Decider{}, approve, comment)
}

// DecideBy is Decide by a user, who is recorded with the decision.
func (q *Queue) DecideBy(ctx context.Context, id, reviewer string, by engagement.Decider, approve bool, comment string) (*Review, error) {
	verdict := engagement.ReviewDenied
	if approve {
		verdict = engagement.ReviewApproved
	}
	return q.decide(ctx, id, reviewer, by, verdict, comment, nil)
}

// decide decides a review. edited are the inputs of an approval with other ones; nil without a change.
func (q *Queue) decide(ctx context.Context, id, reviewer string, by engagement.Decider, verdict, comment string, edited jsontext.Value) (*Review, error) {
	r, err := q.Get(ctx, id, reviewer)
	if err != nil {
		return nil, err
	}
	comment = text.Cut(comment, MaxComment)
	switch {
	case r.Status == verdict && hashOf(r.Edited) == hashOf(edited):
		return r, nil
	case r.Status != engagement.ReviewPending:
		return r, ErrDecided
	case q.isOver(r):
		return nil, ErrNotFound
	}
	if r.DecidedBy = by; edited != nil {
		r.Changed = Changes(r.Inputs, edited)
	}
	r.Edited = edited
	if r.ByAgent != "" {
		if err := q.recordDecision(ctx, r, verdict, comment); err != nil {
			return nil, err
		}
	}
	return r, q.settle(ctx, r, verdict, comment)
}

// settle applies the verdict to a review.
func (q *Queue) settle(ctx context.Context, r *Review, verdict, comment string) error {
	if err := q.decideInEngagement(ctx, r, verdict, comment); err != nil {
		if errors.Is(err, ErrNotFound) {
			_ = q.lists.remove(ctx, r.decider(), r.ID)     // the review has expired or was used
			err = errors.Join(err, q.dropOriginal(ctx, r)) // the decision was interrupted before
		}
		return err
	}
	if err := q.dropOriginal(ctx, r); err != nil {
		return err
	}
	var isNew bool
	at := q.options.Now().UTC().Truncate(time.Millisecond)
	err := q.change(ctx, r.ID, func(stored *Review) error {
		if stored == nil {
			stored = r // missing in the store: the Engagement is authoritative
		}
		if isNew = stored.Status != verdict; !isNew {
			*r = *stored
			return engagement.ErrUnchanged // a concurrent decision was the same
		}
		stored.Status, stored.Comment, stored.DecidedAt, stored.DecidedBy, stored.HasOriginal = verdict, comment, at, r.DecidedBy, false
		stored.Edited, stored.Changed = r.Edited, r.Changed
		if verdict == engagement.ReviewDenied {
			stored.Outputs = nil // they will not be released
		}
		if stored == r {
			return engagement.ErrUnchanged
		}
		*r = *stored
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing a review: %w", err)
	}
	_ = q.lists.remove(ctx, r.decider(), r.ID) // best effort: repeated by Get
	if isNew {
		q.decisions.add(ctx, r)
		q.options.OnDecided(r)
	}
	return nil
}

// decideInEngagement records the verdict in the Engagement, where it takes effect. If it is already
// recorded, there is no error, because the steps after it may have been interrupted.
func (q *Queue) decideInEngagement(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	status, hash := verdict, hashOf(r.Edited)
	if hash != "" {
		status = engagement.ReviewEdited
	}
	err := q.options.Records.Change(ctx, r.Key, nil, func(t *engagement.Tx) error {
		decided = nil
		i := q.Requests(t).Find(func(a *engagement.RequestedReview) bool { return a.ID == r.ID })
		switch {
		case i < 0:
			decided = ErrNotFound
			return engagement.ErrUnchanged
		case t.State.Reviews[i].Status == status && t.State.Reviews[i].EditedHash == hash, t.State.Reviews[i].Status == engagement.ReviewReleased && verdict == engagement.ReviewApproved:
			r.DecidedBy = t.State.Reviews[i].DecidedBy
			return engagement.ErrUnchanged
		case t.State.Reviews[i].Status != engagement.ReviewPending:
			decided = ErrDecided
			return engagement.ErrUnchanged
		}
		a := &t.State.Reviews[i]
		e := engagement.Entry{Event: engagement.EntryDecided, Name: a.Name, Call: a.Call, Nth: a.Nth, Side: a.Side, Review: a.ID, By: r.Reviewer, DecidedBy: r.DecidedBy, Verdict: verdict, Comment: comment}
		if hash != "" {
			if e.Inputs, e.Why = t.Keep(r.Edited), changedNames(r.Inputs, r.Edited); engagement.IsOmitted(e.Inputs) {
				decided = ErrTooLarge
				return engagement.ErrUnchanged
			}
		}
		a.Status, a.Comment, a.DecidedBy = status, text.Cut(comment, maxStoredComment), r.DecidedBy
		if at := t.Log(e); hash != "" {
			a.Edited, a.EditedHash = at, hash
		}
		t.Durable, t.Prolong = true, true
		return nil
	})
	if errors.Is(err, engagement.ErrNotFound) {
		return ErrNotFound
	}
	return errors.Join(err, decided)
}

// Abandon denies an undecided review and deletes the result held for it, because its
// Engagement was renewed or the run of a hosted agent has ended. The reason becomes the comment.
func (q *Queue) Abandon(ctx context.Context, id, reason string) error {
	abandoned, err := q.read(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	undeleted := q.dropOriginal(ctx, abandoned)
	err = q.change(ctx, id, func(r *Review) error {
		if r == nil || r.Status != engagement.ReviewPending && r.Outputs == nil && (!r.HasOriginal || undeleted != nil) {
			return engagement.ErrUnchanged
		}
		r.Outputs, r.HasOriginal = nil, r.HasOriginal && undeleted != nil
		if r.Status == engagement.ReviewPending {
			r.Status, r.Comment, r.Abandoned = engagement.ReviewDenied, reason, true
			r.DecidedAt = engagement.Milliseconds(q.options.Now().UnixMilli())
		}
		return nil
	})
	if err = errors.Join(undeleted, err); err != nil {
		return err
	}
	return q.lists.remove(ctx, abandoned.decider(), id)
}
