package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store/lease"
)

// maxOpenList is the maximum size of one reviewer's list, in bytes of JSON. That is enough for
// MaxOpen reviews with names of the usual length, or for fewer with long names.
const maxOpenList = 768 << 10

// Summary is which call a review is about, and who decides it. It is also the entry in a reviewer's list of open reviews,
// which has no inputs and outputs.
type Summary struct {
	ID        string          `json:"id"`
	Reviewer  string          `json:"reviewer"` // a user's id or a reference to an agent, as written in the document
	Side      engagement.Side `json:"side"`     // engagement.SideOutput if the call was made and its result is held
	Rule      string          `json:"rule"`     // path in the document
	Agent     string          `json:"agent"`
	Key       string          `json:"key,omitzero"` // see engagement.Ref.Key; "" in a list that was written by a version without this field
	User      engagement.User `json:"user"`
	Name      string          `json:"name"` // the tool or agent called
	AskedAt   time.Time       `json:"asked_at"`
	ExpiresAt time.Time       `json:"expires_at"` // end of its validity

	// Editor is the id of the user who has changed the inputs as the reviewer of another review of the call. This user does not
	// decide the review; "" if there is none.
	Editor string `json:"editor,omitzero"`
}

// Compare orders summaries by age, oldest first.
func (s Summary) Compare(other Summary) int {
	return cmp.Or(s.AskedAt.Compare(other.AskedAt), cmp.Compare(s.ID, other.ID))
}

// lists keeps a list of open reviews for each reviewer in the store.
type lists struct{ lease.List[Summary] }

func newLists(o *Options) lists {
	return lists{lease.List[Summary]{
		Store: o.Store, TTL: o.TTL + reviewSlack, MaxSize: maxOpenList,
		IsOver: func(s *Summary) bool { return s.ExpiresAt.Before(o.Now()) },
	}}
}

// List returns the open reviews of a reviewer, oldest first. The reviewer is a user's id,
// or oagent:// and the name of an agent. It takes one read of the store. The list may contain
// a review that has just been decided.
func (q *Queue) List(ctx context.Context, reviewer string) ([]Summary, error) {
	open, err := q.lists.Get(ctx, openKey(reviewer))
	if err != nil {
		return nil, fmt.Errorf("reading a reviewer's list: %w", err)
	}
	slices.SortFunc(open, Summary.Compare)
	return open, nil
}

// add adds a review to the list of its reviewer, and reports whether it was not in the
// list before. The error is ErrBusy if the list is full.
func (l lists) add(ctx context.Context, r *Review) (added bool, err error) {
	return changed(l.Change(ctx, openKey(r.decider()), "", withReview(&r.Summary)))
}

// checkSpace returns ErrBusy if the list of the reviewer of a new review is full.
func (l lists) checkSpace(ctx context.Context, r *Review) error {
	_, err := changed(l.Check(ctx, openKey(r.decider()), withReview(&r.Summary)))
	return err
}

// remove removes a review from the list of its reviewer.
func (l lists) remove(ctx context.Context, reviewer, id string) error {
	_, err := changed(l.Change(ctx, openKey(reviewer), "", func(open []Summary) ([]Summary, error) {
		i := slices.IndexFunc(open, func(s Summary) bool { return s.ID == id })
		if i < 0 {
			return nil, engagement.ErrUnchanged
		}
		return slices.Delete(open, i, i+1), nil
	}))
	return err
}

// changed reports whether a change of a list was made, and explains its error.
func changed(err error) (bool, error) {
	switch {
	case errors.Is(err, engagement.ErrUnchanged):
		return false, nil
	case errors.Is(err, lease.ErrListFull):
		return false, ErrBusy
	case err != nil && !errors.Is(err, ErrBusy):
		return false, fmt.Errorf("changing a reviewer's list: %w", err)
	}
	return err == nil, err
}

// withReview adds a review to a list. The error is engagement.ErrUnchanged if the review
// is already in the list.
func withReview(added *Summary) func(open []Summary) ([]Summary, error) {
	return func(open []Summary) ([]Summary, error) {
		if slices.ContainsFunc(open, func(s Summary) bool { return s.ID == added.ID }) {
			return nil, engagement.ErrUnchanged
		}
		bound := share.NewBound(share.Options{Name: "open reviews", Limit: MaxOpen})
		for _, s := range open {
			bound.Give(share.OwnerOf(s.User.ID, ""), -1)
		}
		if bound.Take(share.OwnerOf(added.User.ID, ""), 1) != nil {
			return nil, ErrBusy
		}
		return append(open, *added), nil
	}
}

func openKey(reviewer string) string { return OpenPrefix + engagement.Digest(reviewer) }

// maxDecided is the number of decisions that the list of a reviewer keeps, the latest.
const maxDecided = 100

// Decided is an entry in a reviewer's list of decisions.
type Decided struct {
	Summary
	Status    string             `json:"status"` // engagement.ReviewApproved or engagement.ReviewDenied
	DecidedAt time.Time          `json:"decided_at"`
	DecidedBy engagement.Decider `json:"decided_by,omitzero"` // empty if an agent decided
	Comment   string             `json:"comment,omitzero"`
}

// decisions keeps a list of the latest decisions for each reviewer in the store. It is only for people to read, so
// errors of changes are ignored.
type decisions struct{ lease.List[Decided] }

func newDecisions(o *Options) decisions {
	return decisions{lease.List[Decided]{
		Store: o.Store, TTL: o.TTL, MaxSize: maxOpenList,
		IsOver: func(d *Decided) bool { return d.DecidedAt.Add(o.TTL).Before(o.Now()) },
	}}
}

func (d decisions) add(ctx context.Context, r *Review) {
	added := Decided{r.Summary, r.Status, r.DecidedAt, r.DecidedBy, r.Comment}
	for keep := maxDecided; keep > 0; keep /= 2 { // long comments leave room for fewer
		err := d.Change(ctx, decidedKey(cmp.Or(r.DecidedBy.User, r.decider())), "", func(all []Decided) ([]Decided, error) {
			return append(all[max(0, len(all)+1-keep):], added), nil
		})
		if !errors.Is(err, lease.ErrListFull) {
			return
		}
	}
}

func decidedKey(decider string) string { return DecidedPrefix + engagement.Digest(decider) }

// DecidedBy returns the latest decisions of a reviewer, the newest first.
func (q *Queue) DecidedBy(ctx context.Context, reviewer string) ([]Decided, error) {
	all, err := q.decisions.Get(ctx, decidedKey(reviewer))
	if err != nil {
		return nil, fmt.Errorf("reading a reviewer's decisions: %w", err)
	}
	slices.Reverse(all)
	return all, nil
}

// All returns the open reviews of all reviewers, oldest first, and their latest decisions, the newest first.
func (q *Queue) All(ctx context.Context) (open []Summary, decided []Decided, err error) {
	if open, err = readLists(ctx, OpenPrefix, &q.lists.List); err == nil {
		decided, err = readLists(ctx, DecidedPrefix, &q.decisions.List)
	}
	slices.SortFunc(open, Summary.Compare)
	slices.SortFunc(decided, func(a, b Decided) int { return b.DecidedAt.Compare(a.DecidedAt) })
	return open, decided, err
}

// readLists returns the entries of the lists below a prefix.
func readLists[E any](ctx context.Context, prefix string, list *lease.List[E]) (all []E, err error) {
	keys, err := list.Store.Keys(ctx, prefix, "", maxReviewers)
	if err != nil {
		return nil, fmt.Errorf("listing reviewers: %w", err)
	}
	for _, key := range keys {
		entries, err := list.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading the list of a reviewer: %w", err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

// maxReviewers is the number of reviewers whose lists All reads.
const maxReviewers = 1000
