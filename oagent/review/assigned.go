package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// A reviewing agent decides in an Engagement of its own. There is one for each Engagement that it
// reviews, with the same user. This has three effects:
//
//   - Earlier reviews of the same Engagement are in the same record.
//   - If a guardrail or short_circuit ends the reviewing Engagement, only the reviews of that
//     one Engagement are affected.
//   - No context is carried from one user to another, as retain_memory requires.
//
// Its key is built differently from the keys of clients' Engagements, so no client can access
// it.

// reviewingID is the prefix of the id of an Engagement in which an agent reviews. The whole id
// is valid as an OCP-Context-ID.
const reviewingID = "review-"

// maxAssigned is the number of assigned reviews that the state of an Engagement keeps.
const maxAssigned = 128

// DecidingRef returns the Engagement in which an agent decides reviews. reviewed is the key of
// the Engagement under review, user its user.
func DecidingRef(agent, reviewed string, user engagement.User) engagement.Ref {
	return engagement.Ref{Agent: agent, ID: reviewingID + reviewed, User: user, Reviewed: reviewed}
}

// ReviewedBy parses an id as DecidingRef creates it, and returns the key of the Engagement under
// review.
func ReviewedBy(id string) (reviewed string, ok bool) {
	reviewed, ok = strings.CutPrefix(id, reviewingID)
	return reviewed, ok && engagement.IsKey(reviewed)
}

// Assign adds a review to the Engagement in which an agent decides it. If that Engagement has ended,
// the review is denied and the error is an *engagement.Refusal.
func (q *Queue) Assign(ctx context.Context, r *Review) error {
	return q.changeAssigned(ctx, r, func(*engagement.Tx, *engagement.AssignedReview) error { return engagement.ErrUnchanged })
}

// recordDecision records an agent's decision before it takes effect.
func (q *Queue) recordDecision(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := q.changeAssigned(ctx, r, func(t *engagement.Tx, assigned *engagement.AssignedReview) error {
		decided = nil
		switch assigned.Verdict {
		case verdict:
			return engagement.ErrUnchanged // the same decision was recorded before, but interrupted before it took effect
		case "":
			assigned.Verdict, assigned.Comment, assigned.Settled = verdict, text.Cut(comment, maxStoredComment), true
			e := r.entry(engagement.EntryDecision)
			e.Verdict, e.Comment = verdict, comment
			t.Log(e)
			t.Durable, t.Prolong = true, true
			return nil
		}
		decided = ErrDecided
		return engagement.ErrUnchanged
	})
	return errors.Join(err, decided)
}

// entry returns an entry about the review for the record of the deciding agent.
func (r *Review) entry(what string) engagement.Entry {
	return engagement.Entry{Event: what, Name: r.Name, Side: r.Side, Rule: r.Rule, Review: r.ID, Subject: engagement.Subject{Agent: r.Agent, Engagement: r.Key}}
}

// changeAssigned runs change on a pending review in the Engagement in which an agent decides
// it. change returns engagement.ErrUnchanged if there is nothing to write.
func (q *Queue) changeAssigned(ctx context.Context, r *Review, change func(*engagement.Tx, *engagement.AssignedReview) error) error {
	of := DecidingRef(r.ByAgent, r.Key, r.User)
	begin := func(now time.Time) *engagement.State { return engagement.NewState(of, now) }
	var ended *engagement.Refusal
	err := q.options.Records.Change(ctx, of.Key(), begin, func(t *engagement.Tx) error {
		if ended = t.Closed(); ended != nil {
			return engagement.ErrUnchanged
		}
		assigned, isNew := q.assigned(t, r)
		err := change(t, assigned)
		if isNew && errors.Is(err, engagement.ErrUnchanged) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the Engagement of the agent %s: %w", r.ByAgent, err)
	}
	if ended == nil {
		return nil
	}
	ended.Agent, ended.Engagement, ended.Review = r.ByAgent, of.ID, r.ID
	return errors.Join(ended, q.denyUndecidable(ctx, r, ended))
}

// assigned returns the review in the state of the Engagement in which the agent decides it, and adds
// it if it is new.
func (q *Queue) assigned(t *engagement.Tx, r *Review) (assigned *engagement.AssignedReview, isNew bool) {
	all := t.State.Assigned
	if i := slices.IndexFunc(all, func(assigned engagement.AssignedReview) bool { return assigned.ID == r.ID }); i >= 0 {
		return &all[i], false
	}
	all = slices.DeleteFunc(all, func(assigned engagement.AssignedReview) bool {
		return engagement.Milliseconds(assigned.At).Add(q.options.TTL).Before(t.Now)
	})
	if len(all) >= maxAssigned {
		oldest := max(0, slices.IndexFunc(all, func(assigned engagement.AssignedReview) bool { return assigned.Verdict != "" }))
		all = slices.Delete(all, oldest, oldest+1)
	}
	t.State.Assigned = append(all, engagement.AssignedReview{ID: r.ID, At: r.AskedAt.UnixMilli()})
	t.State.User = r.User
	e := r.entry(engagement.EntryQuestion)
	e.Inputs, e.Outputs, e.Status = t.Keep(r.Inputs), t.Keep(r.Outputs), r.Result
	t.Log(e)
	t.Durable, t.Prolong = true, true
	return &t.State.Assigned[len(t.State.Assigned)-1], true
}

// denyUndecidable denies a review because the Engagement in which the agent would decide it
// has ended.
func (q *Queue) denyUndecidable(ctx context.Context, r *Review, ended *engagement.Refusal) error {
	why := "it is full"
	if ended.Rule != "" {
		why = "it was ended by " + ended.Rule
	}
	err := q.settle(ctx, r, engagement.ReviewDenied, fmt.Sprintf(
		"the agent %s can decide no more reviews of this Engagement, because its own Engagement accepts no more calls: %s; start another Engagement", r.ByAgent, why))
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDecided) {
		return nil
	}
	return err
}

// isEnded reports whether the error is the refusal of an Engagement that has ended.
func isEnded(err error) bool {
	r, ok := engagement.AsRefusal(err)
	return ok && r.Ends()
}
