package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// maxOpenList is the maximum size of one reviewer's list, in bytes of JSON. That is enough for
// MaxOpen reviews with names of the usual length, or for fewer with long names.
const maxOpenList = 768 << 10

// Summary is an entry in a reviewer's list of open reviews. Inputs and outputs are only
// in the Review.
type Summary struct {
	ID        string          `json:"id"`
	Reviewer  string          `json:"reviewer"` // as in Review
	Side      engagement.Side `json:"side"`
	Rule      string          `json:"rule"`
	Agent     string          `json:"agent"`
	Key       string          `json:"key,omitzero"` // of the Engagement; "" if written by a version without this field
	User      engagement.User `json:"user"`
	Name      string          `json:"name"`
	AskedAt   time.Time       `json:"asked_at"`
	ExpiresAt time.Time       `json:"expires_at"`
}

func (r *Review) summary() Summary {
	return Summary{r.ID, r.Reviewer, r.Side, r.Rule, r.Agent, r.Key, r.User, r.Name, r.AskedAt, r.ExpiresAt}
}

// Compare orders summaries by age, oldest first.
func (s Summary) Compare(other Summary) int {
	return cmp.Or(s.AskedAt.Compare(other.AskedAt), cmp.Compare(s.ID, other.ID))
}

// lists keeps a list of open reviews for each reviewer in the store.
type lists struct {
	store store.Store
	ttl   time.Duration // see Options.TTL
	now   func() time.Time
}

// List returns the open reviews of a reviewer, oldest first. The reviewer is a user's id,
// or oagent:// and the name of an agent. It takes one read of the store. The list may contain
// a review that has just been decided.
func (q *Queue) List(ctx context.Context, reviewer string) ([]Summary, error) {
	return q.lists.open(ctx, reviewer)
}

func (l lists) open(ctx context.Context, reviewer string) ([]Summary, error) {
	record, err := l.store.Get(ctx, openKey(reviewer))
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
	open = l.withoutExpired(open)
	slices.SortFunc(open, Summary.Compare)
	return open, nil
}

func (l lists) withoutExpired(open []Summary) []Summary {
	now := l.now()
	return slices.DeleteFunc(open, func(s Summary) bool { return s.ExpiresAt.Before(now) })
}

// add adds a review to the list of its reviewer, and reports whether it was not in the
// list before.
func (l lists) add(ctx context.Context, r *Review) (added bool, err error) {
	return l.change(ctx, r.decider(), func(open []Summary) ([]Summary, error) {
		return l.withReview(open, r)
	})
}

// withReview returns the list with the review added. The error is engagement.ErrUnchanged if the review
// is already in the list.
func (l lists) withReview(open []Summary, r *Review) ([]Summary, error) {
	open = l.withoutExpired(open)
	switch {
	case slices.ContainsFunc(open, func(s Summary) bool { return s.ID == r.ID }):
		return nil, engagement.ErrUnchanged
	case len(open) >= MaxOpen, countOf(open, r.User) >= MaxOpenOfUser:
		return nil, ErrBusy
	}
	return append(open, r.summary()), nil
}

// countOf returns the number of reviews about the user's calls.
func countOf(open []Summary, user engagement.User) (n int) {
	for _, s := range open {
		if s.User.ID == user.ID {
			n++
		}
	}
	return n
}

// checkSpace returns ErrBusy if the list of the reviewer of a new review is full.
func (l lists) checkSpace(ctx context.Context, r *Review) error {
	record, err := l.store.Get(ctx, openKey(r.decider()))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a reviewer's list: %w", err)
	}
	open, err := decodeOpen(record.Value)
	if err == nil {
		open, err = l.withReview(open, r)
	}
	if err != nil {
		return err
	}
	_, err = encodeOpen(open, len(record.Value))
	return err
}

// remove removes a review from the list of its reviewer.
func (l lists) remove(ctx context.Context, reviewer, id string) error {
	_, err := l.change(ctx, reviewer, func(open []Summary) ([]Summary, error) {
		before := len(open)
		open = slices.DeleteFunc(open, func(s Summary) bool { return s.ID == id })
		if len(open) == before {
			return nil, engagement.ErrUnchanged
		}
		return open, nil
	})
	return err
}

// change changes the list of a reviewer, and reports whether it changed.
func (l lists) change(ctx context.Context, reviewer string, change func([]Summary) ([]Summary, error)) (changed bool, err error) {
	err = l.store.Update(ctx, openKey(reviewer), func(old store.Record) (store.Change, error) {
		open, err := decodeOpen(old.Value)
		if err != nil {
			return store.Change{}, err
		}
		next, err := change(open)
		switch {
		case err != nil:
			return store.Change{}, err
		case len(next) == 0:
			return store.Change{Delete: true}, nil
		}
		value, err := encodeOpen(next, len(old.Value))
		return store.Change{Value: value, TTL: l.ttl + reviewSlack}, err
	})
	if errors.Is(err, engagement.ErrUnchanged) {
		return false, nil
	}
	return err == nil, err
}

func openKey(reviewer string) string { return openPath + engagement.Digest(reviewer) }

// encodeOpen encodes a list for the store. before is its previous size in bytes. The error is
// ErrBusy if the list grows beyond maxOpenList.
func encodeOpen(open []Summary, before int) ([]byte, error) {
	value, err := json.Marshal(open)
	if err == nil && len(value) > maxOpenList && len(value) > before {
		err = ErrBusy
	}
	return value, err
}

func decodeOpen(value []byte) ([]Summary, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var open []Summary
	if err := json.Unmarshal(value, &open); err != nil {
		return nil, fmt.Errorf("invalid record of a reviewer's list: %w", err)
	}
	return open, nil
}
