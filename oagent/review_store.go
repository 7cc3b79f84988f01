package oagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/store"
)

var (
	// ErrNoReview says that there is no such review, or no longer, or that it is
	// somebody else's.
	ErrNoReview = errors.New("no such review")
	// ErrDecided says that a review was decided before, in another way.
	ErrDecided = errors.New("the review was decided before")

	errBusyReviewer = errors.New("the reviewer has too many reviews to decide")
)

// The store has a review under its id, and under a digest of each reviewer the
// ids of what is to be decided. What counts is in the Engagement: whether a call
// passes is decided there, together with its record.

// prepareReview stores a review that is about to be asked for.
func (g *Guard) prepareReview(ctx context.Context, r *Review) (*Review, error) {
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

// dropReview deletes a review that nobody needs. If that fails it expires.
func (g *Guard) dropReview(ctx context.Context, id string) {
	_ = g.store.Delete(ctx, reviewPath+id)
}

// forgetOutputs takes the outputs out of a review that has given them. If that
// fails they expire.
func (g *Guard) forgetOutputs(ctx context.Context, id string) {
	r, err := g.readReview(ctx, id)
	if err == nil && r.Outputs != nil {
		r.Outputs = nil
		_ = g.putReview(ctx, r)
	}
}

// openReview returns a review that an Engagement waits for, and sees to it that
// its reviewer knows of it. One that is lost is made again, if it can be.
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
	if err != nil {
		return nil, err
	}
	if r.Status != ReviewPending {
		return r, nil
	}
	added, err := g.changeOpen(ctx, r.Reviewer, func(open []string) []string {
		if slices.Contains(open, r.ID) {
			return open
		}
		return append(open, r.ID)
	})
	if added {
		g.options.Notify(Event{Kind: EventReviewAsked, Review: r, User: r.User})
	}
	return r, err
}

// changeOpen changes the list of what a reviewer has to decide, and reports
// whether it did.
func (g *Guard) changeOpen(ctx context.Context, reviewer string, change func(open []string) []string) (changed bool, err error) {
	err = g.store.Update(ctx, openKey(reviewer), func(old store.Record) (store.Change, error) {
		changed = false
		open, err := decodeOpen(old.Value)
		if err != nil {
			return store.Change{}, err
		}
		next := change(slices.Clone(open))
		switch {
		case slices.Equal(open, next):
			return store.Change{}, errUnchanged
		case len(next) > maxOpen && len(next) > len(open):
			return store.Change{}, errBusyReviewer
		}
		changed = true
		value, err := json.Marshal(next)
		return store.Change{Value: value, TTL: g.options.ReviewTTL + reviewSlack}, err
	})
	if err != nil {
		changed = false
	}
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return changed, err
}

func openKey(reviewer string) string { return reviewListPath + digest(reviewer) }

func decodeOpen(value []byte) ([]string, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var open []string
	if err := json.Unmarshal(value, &open); err != nil {
		return nil, fmt.Errorf("the list of a reviewer cannot be read: %w", err)
	}
	return open, nil
}

// awaitReview waits for a review to be decided, and reports whether it was.
func (g *Guard) awaitReview(ctx context.Context, id string, until time.Time) (decided bool, err error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	record, err := g.store.Get(ctx, reviewPath+id)
	for {
		switch {
		case errors.Is(err, store.ErrNotFound):
			return true, nil // the Engagement is asked again
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

// Reviews returns what the reviewer has to decide, the oldest first.
func (g *Guard) Reviews(ctx context.Context, reviewer string) ([]*Review, error) {
	record, err := g.store.Get(ctx, openKey(reviewer))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a reviewer's list: %w", err)
	}
	open, err := decodeOpen(record.Value)
	if err != nil {
		return nil, err
	}
	var reviews []*Review
	var over []string
	for _, id := range open {
		r, err := g.readReview(ctx, id)
		switch {
		case errors.Is(err, ErrNoReview):
			over = append(over, id)
		case err != nil:
			return nil, err
		case r.Status != ReviewPending || r.ExpiresAt.Before(g.options.Now()):
			over = append(over, id)
		default:
			reviews = append(reviews, r)
		}
	}
	if len(over) > 0 {
		_ = g.closeReviews(ctx, reviewer, over...) // else the next time
	}
	return reviews, nil
}

// closeReviews takes reviews off a reviewer's list.
func (g *Guard) closeReviews(ctx context.Context, reviewer string, ids ...string) error {
	_, err := g.changeOpen(ctx, reviewer, func(open []string) []string {
		return slices.DeleteFunc(open, func(id string) bool { return slices.Contains(ids, id) })
	})
	return err
}

// Review returns a review that is the reviewer's to decide, or was. Else, as if
// there were none, ErrNoReview.
func (g *Guard) Review(ctx context.Context, id, reviewer string) (*Review, error) {
	r, err := g.readReview(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Reviewer != reviewer {
		return nil, ErrNoReview
	}
	return r, nil
}

// Decide approves or denies a review. Only its reviewer may, for others there is
// none (ErrNoReview). To decide again in the same way is no error, in another it
// is ErrDecided.
func (g *Guard) Decide(ctx context.Context, id, reviewer string, approve bool, comment string) (*Review, error) {
	r, err := g.Review(ctx, id, reviewer)
	if err != nil {
		return nil, err
	}
	verdict, comment := ReviewDenied, cut(comment, MaxComment)
	if approve {
		verdict = ReviewApproved
	}
	if r.Status != ReviewPending {
		if r.Status != verdict {
			return r, ErrDecided
		}
		return r, nil
	}
	if err := g.decideInEngagement(ctx, r, verdict, comment); err != nil {
		if errors.Is(err, ErrNoReview) {
			_ = g.closeReviews(ctx, r.Reviewer, r.ID) // it has expired, or was used up
		}
		return nil, err
	}
	r.Status, r.Comment, r.DecidedAt = verdict, comment, g.options.Now().UTC().Truncate(time.Millisecond)
	if verdict == ReviewDenied {
		r.Outputs = nil // nobody gets them
	}
	if err := g.putReview(ctx, r); err != nil {
		return nil, fmt.Errorf("writing a review: %w", err)
	}
	_ = g.closeReviews(ctx, r.Reviewer, r.ID) // else Reviews does it
	g.options.Notify(Event{Kind: EventReviewDecided, Review: r, User: r.User})
	return r, nil
}

// decideInEngagement puts the verdict where it counts. One that is there already
// is no error: what has followed it may have been cut off.
func (g *Guard) decideInEngagement(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := g.change(ctx, r.Key, nil, func(t *turn) error {
		decided = nil
		i := t.findReview(func(a *asked) bool { return a.ID == r.ID })
		switch {
		case i < 0:
			decided = ErrNoReview
			return errUnchanged
		case t.state.Reviews[i].Status == verdict:
			return errUnchanged
		case t.state.Reviews[i].Status != ReviewPending:
			decided = ErrDecided
			return errUnchanged
		}
		a := &t.state.Reviews[i]
		a.Status, a.Comment = verdict, cut(comment, maxRemembered)
		t.log(Entry{What: EntryDecided, Name: a.Name, Call: a.Call, Nth: a.Nth, Side: a.Side, Review: a.ID, By: r.Reviewer, Verdict: verdict, Comment: comment})
		t.durable = true
		return nil
	})
	if errors.Is(err, ErrNoEngagement) {
		return ErrNoReview
	}
	return errors.Join(err, decided)
}
