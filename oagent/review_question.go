package oagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An agent that reviews is asked, and decides, in an Engagement of its own: one
// for each Engagement that it reviews, of the same user. So what it was asked
// about that one before stands in the same record, whatever ends it (a guardrail,
// repetition) ends it for that one alone, and nothing is carried over from one
// user to another, as retain_memory may demand. Its key is of another kind than
// those of clients' Engagements: nobody else can name it.

// reviewingID begins the id of an Engagement in which an agent reviews. The whole
// can stand in OCP-Context-ID.
const reviewingID = "review-"

// maxQuestions is how many questions the state of an Engagement remembers.
const maxQuestions = 128

// A question is a review as the Engagement has it in which an agent decides it.
type question struct {
	ID      string `json:"id"`
	At      int64  `json:"at"` // when the review was asked for
	Verdict string `json:"verdict,omitzero"`
	Comment string `json:"comment,omitzero"`

	Tries int   `json:"tries,omitzero"` // how often the agent's program was asked
	Until int64 `json:"until,omitzero"` // nobody asks it before then
	Quiet bool  `json:"quiet,omitzero"` // nobody asks it any more
}

// Reviewing returns the Engagement of an agent in which it decides the reviews of
// the Engagement of that key, which is of that user.
func Reviewing(agent *Agent, reviewed string, user User) Binding {
	return Binding{Agent: agent, Engagement: reviewingID + reviewed, User: user, Reviewed: reviewed}
}

// ReviewedBy returns the key of the Engagement that is reviewed in the one of that
// id, which is as Reviewing gives it.
func ReviewedBy(id string) (reviewed string, ok bool) {
	reviewed, ok = strings.CutPrefix(id, reviewingID)
	return reviewed, ok && isKey(reviewed)
}

// Question sees to it that the review, which an agent is to decide, stands in the
// Engagement in which it decides it. Once that has ended, the review is denied and
// the error is a *Refusal.
func (g *Guard) Question(ctx context.Context, r *Review) error {
	return g.changeQuestion(ctx, r, func(*turn, *question) error { return errUnchanged })
}

// recordDecision records what an agent has decided, before it counts.
func (g *Guard) recordDecision(ctx context.Context, r *Review, verdict, comment string) error {
	var decided error
	err := g.changeQuestion(ctx, r, func(t *turn, q *question) error {
		decided = nil
		switch q.Verdict {
		case verdict:
			return errUnchanged // what has followed it was cut off
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

// entry returns an entry about the review for the record of the agent that
// decides it.
func (r *Review) entry(what string) Entry {
	return Entry{What: what, Name: r.Name, Side: r.Side, Rule: r.Rule, Review: r.ID, Agent: r.Agent, Engagement: r.Key}
}

// changeQuestion lets change see a pending review as the Engagement has it in
// which an agent decides it. It returns errUnchanged if nothing is to be written.
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

// question returns a review as the Engagement has it, and puts it there if it is
// new.
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

// denyUndecidable denies a review, because the Engagement has ended in which an
// agent would have to decide it.
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

// isEnded reports whether the error is nothing but that an Engagement has ended.
func isEnded(err error) bool {
	r, ok := AsRefusal(err)
	return ok && r.Ends()
}
