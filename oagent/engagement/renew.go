package engagement

import (
	"context"
	"errors"
)

// maxRenewedRecords limits the size of a record that its user keeps renewing: the inputs and outputs
// of all its Engagements together, as a multiple of Options.MaxRecord.
const maxRenewedRecords = 4

var (
	// ErrActive means that the Engagement has not ended. Its user cannot renew it, because assertions
	// that count calls would start at 0 again.
	ErrActive = errors.New("the Engagement has not ended")
	// ErrRecordFull means that the record has no space for another Engagement. It expires
	// Options.TTL after the last call that was made.
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
// entries of both.
//
//   - The result of a running call is withheld and recorded as EntryLate.
//   - The reviews of the old Engagement are dropped from its state. The caller ends them.
//   - An Engagement without any entry since its last renewal is not changed.
//
// The error is ErrNotFound, ErrActive, ErrRecordFull or an error of the store.
func (s *Records) Renew(ctx context.Context, key string, renewal Renewal) (renewed *Summary, dropped []RequestedReview, err error) {
	if !IsKey(key) {
		return nil, nil, ErrNotFound
	}
	ctx, cancel := Detach(ctx)
	defer cancel()
	err = s.Change(ctx, key, nil, func(t *Tx) error {
		renewed, dropped = nil, nil
		if t.isUntouched() {
			renewed = t.State.summary(key, t.record.length)
			return ErrUnchanged
		}
		if err := t.checkRenewal(renewal); err != nil {
			return err
		}
		dropped = t.State.Reviews
		t.renew(renewal.By)
		renewed = t.State.summary(key, t.State.First)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return renewed, dropped, nil
}

// isUntouched reports whether the Engagement was renewed and has no entry since then.
func (t *Tx) isUntouched() bool {
	return t.State.Renewals > 0 && t.record.length == t.State.First
}

func (t *Tx) checkRenewal(renewal Renewal) error {
	s := t.State
	switch {
	case t.record.length >= MaxEntries:
		return ErrRecordFull
	case renewal.Force:
		return nil
	case s.Ended == 0:
		return ErrActive
	case s.EarlierBytes+s.PayloadBytes > maxRenewedRecords*t.options.MaxRecord:
		return ErrRecordFull
	}
	return nil
}

// renew replaces the state by a new one whose log begins after the existing entries.
func (t *Tx) renew(by string) {
	old := t.State
	at := t.Log(Entry{Event: EntryRenewed, By: by, Kind: old.EndedKind, Rule: old.EndedRule, Why: old.EndedWhy})
	t.State = &State{
		Born:         random(),
		Agent:        old.Agent,
		UserID:       old.UserID,
		Email:        old.Email,
		ID:           old.ID,
		Started:      t.Now.UnixMilli(),
		Last:         t.Now.UnixMilli(),
		Reviewed:     old.Reviewed,
		Renewals:     old.Renewals + 1,
		First:        at + 1,
		EarlierBytes: old.EarlierBytes + old.PayloadBytes,
	}
	t.Durable, t.Prolong = true, true
}
