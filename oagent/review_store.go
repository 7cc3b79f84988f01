package oagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/store"
)

var (
	// ErrNoReview means that there is no such review, that it no longer exists, or that it
	// belongs to another reviewer.
	ErrNoReview = errors.New("no such review")
	// ErrDecided means that the review was already decided differently.
	ErrDecided = errors.New("the review was decided before")

	errBusyReviewer = errors.New("the reviewer has too many reviews to decide")
)

// The store keeps each review under its id, and a list of open reviews for each reviewer
// (review_list.go). The Engagement is authoritative: its state decides whether a call passes,
// in the same transaction as its record.

// prepareReview stores a review before it is added to the Engagement. The error is
// errBusyReviewer if the review is needed before the call and its reviewer has too many open
// ones. Nothing is stored then, so repeated requests cannot fill the store.
func (g *Guard) prepareReview(ctx context.Context, r *Review) (*Review, error) {
	if r.Side == SideInput {
		if err := g.checkRoom(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, g.putReview(ctx, r)
}

func (g *Guard) putReview(ctx context.Context, r *Review) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a review: %w", err)
	}
	return g.store.Put(ctx, reviewPath+r.ID, store.Change{Value: value, TTL: g.options.ReviewTTL + reviewSlack})
}

func (g *Guard) readReview(ctx context.Context, id string) (*Review, error) {
	if !isReviewID(id) {
		return nil, ErrNoReview
	}
	record, err := g.store.Get(ctx, reviewPath+id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoReview
	}
	if err != nil {
		return nil, fmt.Errorf("reading a review: %w", err)
	}
	return decodeReview(record.Value)
}

func decodeReview(value []byte) (*Review, error) {
	r := new(Review)
	if err := json.Unmarshal(value, r); err != nil {
		return nil, fmt.Errorf("a review cannot be read: %w", err)
	}
	return r, nil
}

// isReviewID reports whether the text has the form of rand.Text.
func isReviewID(id string) bool {
	const length = 26
	if len(id) != length {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// dropReview deletes an unused review. If that fails, the review expires.
func (g *Guard) dropReview(ctx context.Context, id string) {
	_ = g.store.Delete(ctx, reviewPath+id)
}

// shareReleased moves the outputs of a released review to a short-lived key, where parallel
// repetitions of the call find them. If that fails, the outputs expire.
func (g *Guard) shareReleased(ctx context.Context, r *Review) {
	value, err := json.Marshal(r)
	if err == nil {
		err = g.store.Put(ctx, releasedPath+r.ID, store.Change{Value: value, TTL: releasedKept, Later: true})
	}
	if err == nil {
		g.forgetOutputs(ctx, r.ID)
	}
}

// lingerReleased waits until a result that was released at that time is no longer shared, see
// releaseShared.
func (g *Guard) lingerReleased(ctx context.Context, at int64) {
	timer := time.NewTimer(milliseconds(at).Add(releaseShared + time.Millisecond).Sub(g.options.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readHeld reads a review with the result that it holds, or released moments ago.
func (g *Guard) readHeld(ctx context.Context, id string) (*Review, error) {
	r, err := g.readReview(ctx, id)
	if err != nil || r.Outputs != nil {
		return r, err
	}
	record, err := g.store.Get(ctx, releasedPath+id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, nil // a result without outputs
	case err != nil:
		return nil, fmt.Errorf("reading a result that was released: %w", err)
	}
	return decodeReview(record.Value)
}

// forgetOutputs removes the outputs from a released review. If that fails, they expire.
func (g *Guard) forgetOutputs(ctx context.Context, id string) {
	_ = g.changeReview(ctx, id, func(r *Review) error {
		if r == nil || r.Outputs == nil {
			return errUnchanged
		}
		r.Outputs = nil
		return nil
	})
}

// changeReview changes a stored review in a transaction. change gets nil if the review does
// not exist, and returns errUnchanged if there is nothing to write.
func (g *Guard) changeReview(ctx context.Context, id string, change func(*Review) error) error {
	err := g.store.Update(ctx, reviewPath+id, func(old store.Record) (store.Change, error) {
		var r *Review
		var err error
		if old.Value != nil {
			if r, err = decodeReview(old.Value); err != nil {
				return store.Change{}, err
			}
		}
		if err := change(r); err != nil {
			return store.Change{}, err
		}
		value, err := json.Marshal(r)
		return store.Change{Value: value, TTL: g.options.ReviewTTL + reviewSlack}, err
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// openReview returns the review that an Engagement waits for, and adds it to the list of its
// reviewer. If the review is lost, again creates it anew, if possible.
func (g *Guard) openReview(ctx context.Context, a *asked, again func() *Review) (*Review, error) {
	r, err := g.readReview(ctx, a.ID)
	if errors.Is(err, ErrNoReview) {
		if r = again(); r == nil {
			return nil, err
		}
		r.AskedAt = milliseconds(a.At)
		r.ExpiresAt = r.AskedAt.Add(g.options.ReviewTTL)
		err = g.putReview(ctx, r)
	}
	if err != nil || r.Status != ReviewPending {
		return r, err
	}
	if r.ByAgent != "" {
		switch err := g.Question(ctx, r); {
		case isEnded(err):
			return r, nil // it was denied just now
		case err != nil:
			return nil, err
		}
	}
	added, err := g.openFor(ctx, r)
	if added {
		g.options.Notify(Event{Kind: EventReviewAsked, Review: r, User: r.User})
	}
	return r, err
}

// awaitReview waits until a review is decided, and reports whether it was.
func (g *Guard) awaitReview(ctx context.Context, id string, until time.Time) (decided bool, err error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	record, err := g.store.Get(ctx, reviewPath+id)
	for {
		switch {
		case errors.Is(err, store.ErrNotFound):
			return true, nil // the Engagement is read again
		case err != nil && within.Err() != nil:
			return false, nil
		case err != nil:
			return false, err
		}
		r, unreadable := decodeReview(record.Value)
		if unreadable != nil || r.Status != ReviewPending {
			return unreadable == nil, unreadable
		}
		if record, err = g.store.Wait(within, reviewPath+id, record.Value); within.Err() != nil && err != nil {
			return false, nil
		}
	}
}

// Review returns a review of this reviewer, open or decided. For another reviewer the error is
// ErrNoReview, as if the review did not exist. reviewer is a user's id, or oagent:// and the
// name of an agent.
func (g *Guard) Review(ctx context.Context, id, reviewer string) (*Review, error) {
	r, err := g.readReview(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.decider() != reviewer {
		return nil, ErrNoReview
	}
	if g.over(r) {
		_ = g.closeReview(ctx, reviewer, id) // best effort: repeated at the next call
	}
	return r, nil
}

// Decide approves or denies a review. Only its reviewer may decide; for others the error is
// ErrNoReview. See Review for the form of reviewer.
//
//   - The same decision again is no error. A different one is ErrDecided.
//   - An agent decides in an Engagement of its own, see Reviewing. If that Engagement has
//     ended, the review is denied whatever the agent decides, and the error is a *Refusal.
func (g *Guard) Decide(ctx context.Context, id, reviewer string, approve bool, comment string) (*Review, error) {
	r, err := g.Review(ctx, id, reviewer)
	if err != nil {
		return nil, err
	}
	verdict, comment := ReviewDenied, cut(comment, MaxComment)
	if approve {
		verdict = ReviewApproved
	}
	switch {
	case r.Status == verdict:
		return r, nil
	case r.Status != ReviewPending:
		return r, ErrDecided
	case g.over(r):
		return nil, ErrNoReview
	}
	if r.ByAgent != "" {
		if err := g.recordDecision(ctx, r, verdict, comment); err != nil {
			return nil, err
		}
	}
	return r, g.settle(ctx, r, verdict, comment)
}

// settle applies the verdict to a review.
func (g *Guard) settle(ctx context.Context, r *Review, verdict, comment string) error {
	if err := g.decideInEngagement(ctx, r, verdict, comment); err != nil {
		if errors.Is(err, ErrNoReview) {
			_ = g.closeReview(ctx, r.decider(), r.ID) // it has expired or was used
		}
		return err
	}
	var isNew bool
	at := g.options.Now().UTC().Truncate(time.Millisecond)
	err := g.changeReview(ctx, r.ID, func(kept *Review) error {
		if kept == nil {
			kept = r // missing in the store: the Engagement is authoritative
		}
		if isNew = kept.Status != verdict; !isNew {
			*r = *kept
			return errUnchanged // another decision was faster
		}
		kept.Status, kept.Comment, kept.DecidedAt = verdict, comment, at
		if verdict == ReviewDenied {
			kept.Outputs = nil // they are not released to anyone
		}
		if kept == r {
			return errUnchanged
		}
		*r = *kept
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing a review: %w", err)
	}
	_ = g.closeReview(ctx, r.decider(), r.ID) // best effort: repeated by Review
	if isNew {
		g.options.Notify(Event{Kind: EventReviewDecided, Review: r, User: r.User})
	}
	return nil
}

// decideInEngagement records the verdict in the Engagement, where it takes effect. The same
// verdict again is no error, because the steps after it may have been interrupted.
func (g *Guard) decideInEngagement(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := g.change(ctx, r.Key, nil, func(t *turn) error {
		decided = nil
		i := t.findReview(func(a *asked) bool { return a.ID == r.ID })
		switch {
		case i < 0:
			decided = ErrNoReview
			return errUnchanged
		case t.state.Reviews[i].Status == verdict, t.state.Reviews[i].Status == reviewReleased && verdict == ReviewApproved:
			return errUnchanged
		case t.state.Reviews[i].Status != ReviewPending:
			decided = ErrDecided
			return errUnchanged
		}
		a := &t.state.Reviews[i]
		a.Status, a.Comment = verdict, cut(comment, maxRemembered)
		t.log(Entry{What: EntryDecided, Name: a.Name, Call: a.Call, Nth: a.Nth, Side: a.Side, Review: a.ID, By: r.Reviewer, Verdict: verdict, Comment: comment})
		t.durable, t.prolong = true, true
		return nil
	})
	if errors.Is(err, ErrNoEngagement) {
		return ErrNoReview
	}
	return errors.Join(err, decided)
}
