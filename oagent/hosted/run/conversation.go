package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
)

// A run is a conversation: if its user sends an input after the answer, the run goes on with it. Each such input begins
// a round. Limits of turns and time are those of a round, and tokens are limited for the whole run. The Engagement
// and its record stay the same, so restrictions see the calls of all rounds.
//
// The index has an entry for each round of a run, see index. It is added before the state of the round is stored. So if
// the node dies in between, a sweep finds the entry; and the end of the round before does not remove it.

// ErrNotFailed means that there is nothing to retry: the run did not end at a request to its model.
var ErrNotFailed = errors.New("the Engagement has not failed at its model, so there is nothing to retry")

// maxTitle is the maximum length of a title in bytes.
const maxTitle = 100

// Spent is what a run had spent when a round began.
type Spent struct {
	Turns int   `json:"turns,omitzero"`
	Time  int64 `json:"time,omitzero"` // milliseconds
}

// NewInput is a message from the user of a run.
type NewInput struct {
	Text      string
	InReplyTo string // id of the Question that it answers; "" for the only open one, if there is one

	// Retry repeats the request to the model at which the run failed. There is no Text then.
	Retry bool

	// If the input begins a round: see StartOptions. A nil Origin leaves that of the run.
	Origin jsontext.Value
	Home   bool
}

// MayGoOn reports whether the run has ended with an answer, or at a request to its model that failed, and goes on with the
// next input of its user. Runs that agents start, and those that decide reviews, do not: their end was used.
func (s *State) MayGoOn() bool {
	return (s.Status == StatusComplete || s.Failed) && s.Parent == "" && s.Review == ""
}

// hasFailed reports whether a run that is about to end with an error can go on: all calls have results, and the next
// request to the model was not made, or failed.
func (s *State) hasFailed(why *Ending) bool {
	if s.Phase != phaseModel || why == nil {
		return false
	}
	switch why.Kind {
	case EndModel, EndBudget, EndOutput, EndInternal:
		return true
	case EndLimit:
		return why.Rule != limitTokens // those of the whole run
	}
	return false
}

// errOtherRound means that a round has begun or ended in the meantime.
var errOtherRound = errors.New("the run is in another round")

// A Conversation is a run as its user talks with it.
type Conversation struct {
	runner *Runner
	id     string
}

// Conversation returns the conversation with the given id, which may not exist.
func (r *Runner) Conversation(id string) Conversation { return Conversation{r, id} }

// Say adds a message from the user. The agent reads it in its next step. If the run has ended with an answer, it goes on
// with a new round. The error is ErrEnded, ErrFull, a *QuestionError, wraps a *share.FullError if the node has no room for
// a further run of the user, or describes a problem with the text.
func (c Conversation) Say(ctx context.Context, in NewInput) (*State, error) {
	if err := checkInput(in.Text); err != nil && !in.Retry {
		return nil, err
	}
	for {
		st, err := c.sayOnce(ctx, in)
		if errors.Is(err, errOtherRound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.runner.push(ctx, st)
		return st, nil
	}
}

// AddInput is Say with a text and the id of a question.
func (c Conversation) AddInput(ctx context.Context, input, inReplyTo string) (*State, error) {
	return c.Say(ctx, NewInput{Text: input, InReplyTo: inReplyTo})
}

func (c Conversation) sayOnce(ctx context.Context, in NewInput) (*State, error) {
	before, err := c.runner.storage.get(ctx, c.id)
	if err != nil {
		return nil, err
	}
	begins := before.MayGoOn()
	if begins {
		if err := c.prepareRound(ctx, before); err != nil {
			return nil, err
		}
	}
	st, err := c.runner.storage.change(ctx, c.id, func(st *State) ([]entry, error) {
		if st.Round != before.Round || st.MayGoOn() != begins {
			return nil, errOtherRound
		}
		if begins {
			return nil, c.beginRound(st, in)
		}
		if in.Retry {
			return nil, ErrNotFailed
		}
		return nil, st.addInput(in)
	})
	if err != nil && begins && !errors.Is(err, errOtherRound) {
		c.runner.shares.release(c.id)
	}
	return st, err
}

// prepareRound makes room for the next round of a run, and adds it to the index. If the round does not begin after all,
// a sweep removes it from the index.
func (c Conversation) prepareRound(ctx context.Context, st *State) error {
	r := c.runner
	// Rules of the agent may depend on the record of earlier calls, so a run must not outlive it.
	err := r.options.Guard.Prolong(ctx, st.binding(&oagent.Agent{Name: st.Agent}))
	if err != nil && (!isEngagementGone(err) || st.CallsMade > 0) {
		if isEngagementGone(err) {
			err = ErrNotFound
		}
		return err
	}
	if err := r.shares.admit(&st.Assignment); err != nil {
		return err
	}
	if err := r.index.add(ctx, indexed{st.ID, st.Round + 1}); err != nil {
		r.shares.release(st.ID)
		return err
	}
	return nil
}

// beginRound makes a run go on after its answer.
func (c Conversation) beginRound(st *State, in NewInput) error {
	switch {
	case in.InReplyTo != "":
		return &QuestionError{}
	case in.Retry && !st.Failed:
		return ErrNotFailed
	}
	st.Round++
	st.Before = Spent{Turns: st.Turns, Time: st.Spent}
	st.Status, st.Ending, st.Failed = StatusAwaitingModel, nil, false
	st.Output = Output{}
	if in.Retry {
		st.Phase = phaseModel
		st.Turns++
	} else {
		st.Phase, st.Inputs = phaseInput, []input{{ID: rand.Text(), Text: in.Text}}
	}
	if in.Origin != nil && len(in.Origin) <= maxOrigin {
		st.Origin = in.Origin
	}
	st.Home = ""
	if in.Home {
		st.Home = c.runner.options.Node
	}
	return nil
}

// addInput adds an input to a run that has not ended.
func (s *State) addInput(in NewInput) (err error) {
	added := input{ID: rand.Text(), Text: in.Text}
	switch {
	case s.Status.IsFinal():
		return ErrEnded
	case len(s.Inputs) >= MaxInputs:
		return ErrFull
	}
	if added.InReplyTo, err = s.answers(in.InReplyTo); err != nil {
		return err
	}
	s.Inputs = append(s.Inputs, added)
	if added.InReplyTo != "" && s.Status == StatusAwaitingInput {
		s.Status = StatusAwaitingModel // it no longer waits for the user
	}
	return nil
}

// titleOf returns the title of a run that begins with an input: its first line, shortened.
func titleOf(input string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(input), "\n")
	return text.Cut(strings.ToValidUTF8(strings.TrimSpace(line), "\ufffd"), maxTitle)
}

// Rename changes the title of a run.
func (c Conversation) Rename(ctx context.Context, title string) (*State, error) {
	if title = titleOf(title); title == "" {
		return nil, errors.New("the title is empty")
	}
	return c.runner.storage.change(ctx, c.id, func(st *State) ([]entry, error) {
		st.Title = title
		return nil, nil
	})
}

// ErrBusy means that a run has not ended, so it cannot be deleted.
var ErrBusy = errors.New("the Engagement has not ended; cancel it first")

// Delete deletes a run that has ended, with the runs that it started, and what the agent remembers of it. The
// record of the calls remains with the Guard until it expires.
func (c Conversation) Delete(ctx context.Context) error {
	r := c.runner
	st, err := r.storage.get(ctx, c.id)
	switch {
	case err != nil:
		return err
	case !st.Status.IsFinal():
		return ErrBusy
	}
	var started []string
	err = r.storage.entries(ctx, c.id, func(e *entry) error {
		if e.Wait != nil && e.Wait.Kind == WaitTask && validID(e.Wait.ID) && !slices.Contains(started, e.Wait.ID) {
			started = append(started, e.Wait.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, child := range started {
		if err := r.Conversation(child).Delete(ctx); err != nil && !isNotFound(err) {
			return err
		}
	}
	if err := errors.Join(r.memory.remove(ctx, &st.Assignment), r.options.Store.Delete(ctx, r.storage.realm+spentKey+c.id)); err != nil {
		return err
	}
	return r.storage.delete(ctx, c.id, func(st *State) error { // a round may have begun
		if !st.Status.IsFinal() {
			return ErrBusy
		}
		return nil
	})
}

// hasForm reports whether an id has the form of those that NewID returns.
func hasForm(id string) bool { return len(id) == len(rand.Text()) && validID(id) }

// IsDeleted reports whether an Engagement is that of a run that was deleted or has expired. An Engagement that another
// program began has an id of another form.
func (c Conversation) IsDeleted(ctx context.Context) (bool, error) {
	if !hasForm(c.id) {
		return false, nil
	}
	_, err := c.runner.storage.get(ctx, c.id)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("reading the run %s: %w", c.id, err)
	}
	return false, err
}
