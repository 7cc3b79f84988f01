package oagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/store"
)

// maxOpenList is the maximum size of one reviewer's list, in bytes of JSON. That is enough for
// maxOpen reviews with names of the usual length, or for fewer with long names.
const maxOpenList = 768 << 10

// ReviewSummary is an entry in a reviewer's list of open reviews. Inputs and outputs are only
// in the Review.
type ReviewSummary struct {
	ID        string    `json:"id"`
	Reviewer  string    `json:"reviewer"` // as in Review
	Side      Side      `json:"side"`
	Rule      string    `json:"rule"`
	Agent     string    `json:"agent"`
	Key       string    `json:"key,omitzero"` // of the Engagement; "" if written by a version without this field
	User      User      `json:"user"`
	Name      string    `json:"name"`
	AskedAt   time.Time `json:"asked_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (r *Review) summary() ReviewSummary {
	return ReviewSummary{r.ID, r.Reviewer, r.Side, r.Rule, r.Agent, r.Key, r.User, r.Name, r.AskedAt, r.ExpiresAt}
}

// Compare orders summaries by age, oldest first.
func (s ReviewSummary) Compare(other ReviewSummary) int {
	return cmp.Or(s.AskedAt.Compare(other.AskedAt), cmp.Compare(s.ID, other.ID))
}

// Reviews returns the open reviews of a reviewer, oldest first. The reviewer is a user's id,
// or oagent:// and the name of an agent. It takes one read of the store. The list may contain
// a review that was decided moments ago.
func (g *Guard) Reviews(ctx context.Context, reviewer string) ([]ReviewSummary, error) {
	record, err := g.store.Get(ctx, openKey(reviewer))
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
	open = g.withoutExpired(open)
	slices.SortFunc(open, ReviewSummary.Compare)
	return open, nil
}

func (g *Guard) withoutExpired(open []ReviewSummary) []ReviewSummary {
	now := g.options.Now()
	return slices.DeleteFunc(open, func(s ReviewSummary) bool { return s.ExpiresAt.Before(now) })
}

// openFor adds a review to the list of its reviewer, and reports whether it was not in the
// list before.
func (g *Guard) openFor(ctx context.Context, r *Review) (added bool, err error) {
	return g.changeOpen(ctx, r.decider(), func(open []ReviewSummary) ([]ReviewSummary, error) {
		return g.withReview(open, r)
	})
}

// withReview returns the list with the review added. The error is errUnchanged if the review
// is already in the list.
func (g *Guard) withReview(open []ReviewSummary, r *Review) ([]ReviewSummary, error) {
	open = g.withoutExpired(open)
	switch {
	case slices.ContainsFunc(open, func(s ReviewSummary) bool { return s.ID == r.ID }):
		return nil, errUnchanged
	case len(open) >= maxOpen, countOf(open, r.User) >= maxOpenOfUser:
		return nil, errBusyReviewer
	}
	return append(open, r.summary()), nil
}

// countOf returns the number of reviews about the user's calls.
func countOf(open []ReviewSummary, user User) (n int) {
	for _, s := range open {
		if s.User.ID == user.ID {
			n++
		}
	}
	return n
}

// checkRoom returns errBusyReviewer if the list of the reviewer of a new review is full.
func (g *Guard) checkRoom(ctx context.Context, r *Review) error {
	record, err := g.store.Get(ctx, openKey(r.decider()))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a reviewer's list: %w", err)
	}
	open, err := decodeOpen(record.Value)
	if err == nil {
		open, err = g.withReview(open, r)
	}
	if err != nil {
		return err
	}
	_, err = encodeOpen(open, len(record.Value))
	return err
}

// closeReview removes a review from the list of its reviewer.
func (g *Guard) closeReview(ctx context.Context, reviewer, id string) error {
	_, err := g.changeOpen(ctx, reviewer, func(open []ReviewSummary) ([]ReviewSummary, error) {
		before := len(open)
		open = slices.DeleteFunc(open, func(s ReviewSummary) bool { return s.ID == id })
		if len(open) == before {
			return nil, errUnchanged
		}
		return open, nil
	})
	return err
}

// changeOpen changes the list of a reviewer, and reports whether it changed.
func (g *Guard) changeOpen(ctx context.Context, reviewer string, change func([]ReviewSummary) ([]ReviewSummary, error)) (changed bool, err error) {
	err = g.store.Update(ctx, openKey(reviewer), func(old store.Record) (store.Change, error) {
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
		return store.Change{Value: value, TTL: g.options.ReviewTTL + reviewSlack}, err
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, err
}

func openKey(reviewer string) string { return openPath + digest(reviewer) }

// encodeOpen encodes a list for the store. before is its previous size in bytes. The error is
// errBusyReviewer if the list grows beyond maxOpenList.
func encodeOpen(open []ReviewSummary, before int) ([]byte, error) {
	value, err := json.Marshal(open)
	if err == nil && len(value) > maxOpenList && len(value) > before {
		err = errBusyReviewer
	}
	return value, err
}

func decodeOpen(value []byte) ([]ReviewSummary, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var open []ReviewSummary
	if err := json.Unmarshal(value, &open); err != nil {
		return nil, fmt.Errorf("the list of a reviewer cannot be read: %w", err)
	}
	return open, nil
}
