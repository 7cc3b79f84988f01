package oagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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

// question is a review in the state of the Engagement in which an agent decides it.
type question struct {
	ID      string `json:"id"`
	At      int64  `json:"at"` // when the review was requested
	Verdict string `json:"verdict,omitzero"`
	Comment string `json:"comment,omitzero"`

	Tries int   `json:"tries,omitzero"` // how often the agent's program was called
	Until int64 `json:"until,omitzero"` // do not call the program before this time
	Quiet bool  `json:"quiet,omitzero"` // do not call the program again
}

// Reviewing returns the Engagement in which an agent decides reviews. reviewed is the key of
// the Engagement under review, user its user.
func Reviewing(agent *Agent, reviewed string, user User) Binding {
	return Binding{Agent: agent, Engagement: reviewingID + reviewed, User: user, Reviewed: reviewed}
}

// ReviewedBy parses an id as Reviewing creates it, and returns the key of the Engagement under
// review.
func ReviewedBy(id string) (reviewed string, ok bool) {
	reviewed, ok = strings.CutPrefix(id, reviewingID)
	return reviewed, ok && isKey(reviewed)
}

// Question adds a review to the Engagement in which an agent decides it. If that Engagement
// has ended, the review is denied and the error is a *Refusal.
func (g *Guard) Question(ctx context.Context, r *Review) error {
	return g.changeQuestion(ctx, r, func(*turn, *question) error { return errUnchanged })
}

// recordDecision records an agent's decision before it takes effect.
func (g *Guard) recordDecision(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := g.changeQuestion(ctx, r, func(t *turn, q *question) error {
		decided = nil
		switch q.Verdict {
		case verdict:
			return errUnchanged // the same decision was recorded before, but interrupted before it took effect
		case "":
			q.Verdict, q.Comment, q.Quiet = verdict, cut(comment, maxRemembered), true
			e := r.entry(EntryDecision)
			e.Verdict, e.Comment = verdict, comment
			t.log(e)
			t.durable, t.prolong = true, true
			return nil
		}
		decided = ErrDecided
		return errUnchanged
	})
	return errors.Join(err, decided)
}

// entry returns an entry about the review for the record of the deciding agent.
func (r *Review) entry(what string) Entry {
	return Entry{What: what, Name: r.Name, Side: r.Side, Rule: r.Rule, Review: r.ID, Agent: r.Agent, Engagement: r.Key}
}

// changeQuestion runs change on a pending review in the Engagement in which an agent decides
// it. change returns errUnchanged if there is nothing to write.
func (g *Guard) changeQuestion(ctx context.Context, r *Review, change func(*turn, *question) error) error {
	b := Reviewing(&Agent{Name: r.ByAgent}, r.Key, r.User)
	begin := func(now time.Time) *state { return newState(&b, now) }
	var ended *Refusal
	err := g.change(ctx, b.Key(), begin, func(t *turn) error {
		ended = nil
		switch {
		case t.state.Ended != 0:
			ended = refusedEnded(t.state)
			return errUnchanged
		case t.record.length >= maxLength:
			ended = &Refusal{Kind: KindEnded, Message: "the Engagement has as many entries as it may have"}
			return errUnchanged
		}
		q, isNew := t.question(r)
		err := change(t, q)
		if isNew && errors.Is(err, errUnchanged) {
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
	ended.Agent, ended.Engagement, ended.Review = r.ByAgent, b.Engagement, r.ID
	return errors.Join(ended, g.denyUndecidable(ctx, r, ended))
}

// question returns a review in the Engagement, and adds it if it is new.
func (t *turn) question(r *Review) (q *question, isNew bool) {
	all := t.state.Questions
	if i := slices.IndexFunc(all, func(q question) bool { return q.ID == r.ID }); i >= 0 {
		return &all[i], false
	}
	all = slices.DeleteFunc(all, func(q question) bool {
		return milliseconds(q.At).Add(t.guard.options.ReviewTTL).Before(t.now)
	})
	if len(all) >= maxQuestions {
		oldest := max(0, slices.IndexFunc(all, func(q question) bool { return q.Verdict != "" }))
		all = slices.Delete(all, oldest, oldest+1)
	}
	t.state.Questions = append(all, question{ID: r.ID, At: r.AskedAt.UnixMilli()})
	t.state.UserID, t.state.Email = r.User.ID, r.User.Email
	e := r.entry(EntryQuestion)
	e.Inputs, e.Outputs, e.Status = t.keep(r.Inputs), t.keep(r.Outputs), r.Result
	t.log(e)
	t.durable, t.prolong = true, true
	return &t.state.Questions[len(t.state.Questions)-1], true
}

// denyUndecidable denies a review because the Engagement in which the agent would decide it
// has ended.
func (g *Guard) denyUndecidable(ctx context.Context, r *Review, ended *Refusal) error {
	why := "it is full"
	if ended.Rule != "" {
		why = "it has ended by " + ended.Rule
	}
	err := g.settle(ctx, r, ReviewDenied, fmt.Sprintf(
		"the agent %s decides nothing more about this Engagement, because of its own: %s; only in another Engagement can this be confirmed", r.ByAgent, why))
	if errors.Is(err, ErrNoReview) || errors.Is(err, ErrDecided) {
		return nil
	}
	return err
}

// isEnded reports whether the error only says that an Engagement has ended.
func isEnded(err error) bool {
	r, ok := AsRefusal(err)
	return ok && r.Ends()
}
