package oagent

import (
	"context"
	"errors"
)

// maxRenewedRecords limits the size of a record that its user keeps renewing. The inputs and
// outputs of all its Engagements together can have this many times GuardOptions.MaxRecord
// bytes.
const maxRenewedRecords = 4

var (
	// ErrActive means that the Engagement has not ended. Its own user cannot renew it then,
	// because assertions that count calls would start at 0 again.
	ErrActive = errors.New("the Engagement has not ended")
	// ErrRecordFull means that the record has no space for another Engagement. It expires
	// GuardOptions.TTL after the last call that was made.
	ErrRecordFull = errors.New("the record of the Engagement is full")
)

// Renewal describes who renews an Engagement.
type Renewal struct {
	By string // id of the user, for the record

	// Force also renews an Engagement that has not ended, or whose record is larger than a
	// user may make it. It is for auditors.
	Force bool
}

// Renew ends the Engagement with that key and begins a new one with the same agent, user and
// id. The new Engagement starts without calls, reviews and repetitions. The record keeps the
// entries of both, so renewing erases nothing.
//
//   - The result of a running call is withheld and recorded as EntryLate.
//   - Undecided reviews of the old Engagement are denied, and held results are deleted.
//   - An Engagement without any entry since its last renewal stays as it is.
//
// The error is ErrNoEngagement, ErrActive, ErrRecordFull or an error of the store.
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
		_ = g.abandonReview(ctx, reviews[i].ID) // best effort: the Engagement no longer refers to the review
	}
	return renewed, nil
}

// isUntouched reports whether the Engagement was renewed and has no entry since then.
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

// renew replaces the state by a new one whose log begins after the existing entries.
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

// abandonReview denies an undecided review and deletes the result held for it, because its
// Engagement was renewed.
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
