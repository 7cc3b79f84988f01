package oagent

import (
	"context"
	"errors"
)

// maxRenewedRecords limits what the record keeps for a user who ends Engagements
// and begins them anew: this many times GuardOptions.MaxRecord, in inputs and
// outputs of all of them together.
const maxRenewedRecords = 4

var (
	// ErrActive means that the Engagement has not ended, so that its own user cannot
	// begin it anew: assertions that count calls would count from 0 again.
	ErrActive = errors.New("the Engagement has not ended")
	// ErrRecordFull means that the record of the Engagement cannot take another
	// Engagement. It expires GuardOptions.TTL after the last call that was made.
	ErrRecordFull = errors.New("the record of the Engagement is full")
)

// A Renewal says who begins an Engagement anew.
type Renewal struct {
	By string // the user's id, for the record

	// Force also renews an Engagement that has not ended, or whose record keeps more
	// than a user may have there. It is for auditors.
	Force bool
}

// Renew ends the Engagement of that key and begins a new one of the same agent,
// user and id. The new one knows nothing of the calls, reviews and repetitions of
// the old one. The record keeps the entries of both: nobody can erase them by this.
//
// The result of a call that is running meanwhile is withheld and recorded as
// EntryLate. Reviews of the old Engagement that nobody has decided are denied, and
// results that were held are dropped. An Engagement in which nothing has happened
// stays as it is. The error is ErrNoEngagement, ErrActive or ErrRecordFull, or the
// store's.
func (g *Guard) Renew(ctx context.Context, key string, renewal Renewal) (*Engagement, error) {
	if !isKey(key) {
		return nil, ErrNoEngagement
	}
	ctx, cancel := recordContext(ctx)
	defer cancel()
	var renewed *Engagement
	var reviews []asked
	err := g.change(ctx, key, nil, func(t *turn) error {
		renewed, reviews = nil, nil
		if t.isUntouched() {
			renewed = t.state.engagement(key, t.record.length)
			return errUnchanged
		}
		if err := t.checkRenewal(renewal); err != nil {
			return err
		}
		reviews = t.state.Reviews
		t.renew(renewal.By)
		renewed = t.state.engagement(key, t.state.First)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range reviews {
		_ = g.abandonReview(ctx, reviews[i].ID) // the Engagement has forgotten it, which is what counts
	}
	return renewed, nil
}

// isUntouched reports whether the Engagement was begun anew and has no entry since.
func (t *turn) isUntouched() bool {
	return t.state.Renewals > 0 && t.record.length == t.state.First
}

func (t *turn) checkRenewal(renewal Renewal) error {
	s := t.state
	switch {
	case t.record.length >= maxLength:
		return ErrRecordFull
	case renewal.Force:
		return nil
	case s.Ended == 0:
		return ErrActive
	case s.Before+s.Kept > maxRenewedRecords*t.guard.options.MaxRecord:
		return ErrRecordFull
	}
	return nil
}

// renew replaces the state by that of a new Engagement whose log begins behind
// what there is.
func (t *turn) renew(by string) {
	old := t.state
	at := t.log(Entry{What: EntryRenewed, By: by, Kind: old.EndedKind, Rule: old.EndedRule, Why: old.EndedWhy})
	t.state = &state{
		Born:     random(),
		Agent:    old.Agent,
		UserID:   old.UserID,
		Email:    old.Email,
		ID:       old.ID,
		Started:  t.now.UnixMilli(),
		Last:     t.now.UnixMilli(),
		Reviewed: old.Reviewed,
		Renewals: old.Renewals + 1,
		First:    at + 1,
		Before:   old.Before + old.Kept,
	}
	t.durable, t.prolong = true, true
}

// abandonReview denies a review that nobody has decided, and drops the result that
// was held for it, because its Engagement was begun anew.
func (g *Guard) abandonReview(ctx context.Context, id string) error {
	var abandoned *Review
	err := g.changeReview(ctx, id, func(r *Review) error {
		if abandoned = r; r == nil || r.Status != ReviewPending && r.Outputs == nil {
			return errUnchanged
		}
		r.Outputs = nil
		if r.Status == ReviewPending {
			r.Status, r.Comment = ReviewDenied, "the Engagement was ended and begun anew"
			r.DecidedAt = milliseconds(g.options.Now().UnixMilli())
		}
		return nil
	})
	if err != nil || abandoned == nil {
		return err
	}
	return g.closeReview(ctx, abandoned.decider(), id)
}
