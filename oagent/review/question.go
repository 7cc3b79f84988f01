package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/oagent/engagement"
)

// A reviewing agent decides in an Engagement of its own. There is one for each Engagement that
// it reviews, with the same user. This has three effects:
//
//   - Earlier questions about the same Engagement are in the same record.
//   - If a guardrail or short_circuit ends the reviewing Engagement, only the reviews of that
//     one Engagement are affected.
//   - No context is carried from one user to another, as retain_memory requires.
//
// Its key is built differently from the keys of clients' Engagements, so no client can access
// it.

// reviewingID is the prefix of the id of an Engagement in which an agent reviews. The whole id
// is valid as an OCP-Context-ID.
const reviewingID = "review-"

// maxQuestions is the number of questions that the state of an Engagement keeps.
const maxQuestions = 128

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

// Question adds a review to the Engagement in which an agent decides it. If that Engagement
// has ended, the review is denied and the error is an *engagement.Refusal.
func (q *Queue) Question(ctx context.Context, r *Review) error {
	return q.changeQuestion(ctx, r, func(*engagement.Tx, *engagement.Question) error { return engagement.ErrUnchanged })
}

// recordDecision records an agent's decision before it takes effect.
func (q *Queue) recordDecision(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := q.changeQuestion(ctx, r, func(t *engagement.Tx, asked *engagement.Question) error {
		decided = nil
		switch asked.Verdict {
		case verdict:
			return engagement.ErrUnchanged // the same decision was recorded before, but interrupted before it took effect
		case "":
			asked.Verdict, asked.Comment, asked.Quiet = verdict, engagement.Shorten(comment, maxRemembered), true
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
	return engagement.Entry{What: what, Name: r.Name, Side: r.Side, Rule: r.Rule, Review: r.ID, Agent: r.Agent, Engagement: r.Key}
}

// changeQuestion runs change on a pending review in the Engagement in which an agent decides
// it. change returns engagement.ErrUnchanged if there is nothing to write.
func (q *Queue) changeQuestion(ctx context.Context, r *Review, change func(*engagement.Tx, *engagement.Question) error) error {
	of := DecidingRef(r.ByAgent, r.Key, r.User)
	begin := func(now time.Time) *engagement.State { return engagement.NewState(of, now) }
	var ended *engagement.Refusal
	err := q.options.Records.Change(ctx, of.Key(), begin, func(t *engagement.Tx) error {
		ended = nil
		switch {
		case t.State.Ended != 0:
			ended = t.State.Refusal()
			return engagement.ErrUnchanged
		case t.Length() >= engagement.MaxEntries:
			ended = &engagement.Refusal{Kind: engagement.KindEnded, Message: "the Engagement has reached its limit of entries"}
			return engagement.ErrUnchanged
		}
		asked, isNew := q.question(t, r)
		err := change(t, asked)
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

// question returns a review in the Engagement, and adds it if it is new.
func (q *Queue) question(t *engagement.Tx, r *Review) (asked *engagement.Question, isNew bool) {
	all := t.State.Questions
	if i := slices.IndexFunc(all, func(asked engagement.Question) bool { return asked.ID == r.ID }); i >= 0 {
		return &all[i], false
	}
	all = slices.DeleteFunc(all, func(asked engagement.Question) bool {
		return engagement.Milliseconds(asked.At).Add(q.options.TTL).Before(t.Now)
	})
	if len(all) >= maxQuestions {
		oldest := max(0, slices.IndexFunc(all, func(asked engagement.Question) bool { return asked.Verdict != "" }))
		all = slices.Delete(all, oldest, oldest+1)
	}
	t.State.Questions = append(all, engagement.Question{ID: r.ID, At: r.AskedAt.UnixMilli()})
	t.State.UserID, t.State.Email = r.User.ID, r.User.Email
	e := r.entry(engagement.EntryQuestion)
	e.Inputs, e.Outputs, e.Status = t.Keep(r.Inputs), t.Keep(r.Outputs), r.Result
	t.Log(e)
	t.Durable, t.Prolong = true, true
	return &t.State.Questions[len(t.State.Questions)-1], true
}

// denyUndecidable denies a review because the Engagement in which the agent would decide it
// has ended.
func (q *Queue) denyUndecidable(ctx context.Context, r *Review, ended *engagement.Refusal) error {
	why := "it is full"
	if ended.Rule != "" {
		why = "it has ended by " + ended.Rule
	}
	err := q.settle(ctx, r, engagement.ReviewDenied, fmt.Sprintf(
		"the agent %s can decide no more reviews of this Engagement, because its own Engagement cannot go on: %s; start another Engagement to have this reviewed", r.ByAgent, why))
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDecided) {
		return nil
	}
	return err
}

// isEnded reports whether the error only says that an Engagement has ended.
func isEnded(err error) bool {
	r, ok := engagement.AsRefusal(err)
	return ok && r.Ends()
}
