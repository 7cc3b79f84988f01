package review

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// put stores a review.
func (q *Queue) put(ctx context.Context, r *Review) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a review: %w", err)
	}
	if err := q.putOriginal(ctx, r); err != nil {
		return err
	}
	return q.options.Store.Put(ctx, reviewPath+r.ID, store.Change{Value: value, TTL: q.options.TTL + reviewSlack, Owner: share.OwnerOf(r.User.ID, "")})
}

// read returns a review. The error is ErrNotFound if there is none.
func (q *Queue) read(ctx context.Context, id string) (*Review, error) {
	if !isReviewID(id) {
		return nil, ErrNotFound
	}
	record, err := q.options.Store.Get(ctx, reviewPath+id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a review: %w", err)
	}
	return decodeReview(id, record.Value)
}

func decodeReview(id string, value []byte) (*Review, error) {
	r := new(Review)
	return r, stored.Decode("reviews", reviewPath+id, value, r)
}

// isReviewID reports whether the text has the form of rand.Text.
func isReviewID(id string) bool {
	const length = 26
	return len(id) == length && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Drop deletes an unused review. If that fails, the review expires.
func (q *Queue) Drop(ctx context.Context, id string) {
	_ = q.options.Store.Delete(ctx, reviewPath+id, originalPath+id)
}

// ShareReleased moves the outputs of a released review to a key where concurrent identical calls
// find them for sharedTTL. If that fails, the outputs expire.
func (q *Queue) ShareReleased(ctx context.Context, r *Review) {
	value, err := json.Marshal(r)
	if err == nil {
		err = q.options.Store.Put(ctx, releasedPath+r.ID, store.Change{Value: value, TTL: sharedTTL, Async: true})
	}
	if err != nil {
		return
	}
	_ = q.change(ctx, r.ID, func(current *Review) error {
		if current == nil || current.Outputs == nil {
			return engagement.ErrUnchanged
		}
		current.Outputs = nil
		return nil
	})
}

// Held returns a review with the result that it holds, or that it has released within sharedTTL.
func (q *Queue) Held(ctx context.Context, id string) (*Review, error) {
	r, err := q.read(ctx, id)
	if err != nil || r.Outputs != nil {
		return r, err
	}
	record, err := q.options.Store.Get(ctx, releasedPath+id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, nil // a result without outputs
	case err != nil:
		return nil, fmt.Errorf("reading a released result: %w", err)
	}
	return decodeReview(id, record.Value)
}

// change changes a stored review in a transaction. change gets nil if the review does
// not exist, and returns engagement.ErrUnchanged if there is nothing to write.
func (q *Queue) change(ctx context.Context, id string, change func(*Review) error) error {
	err := q.options.Store.Update(ctx, reviewPath+id, func(old store.Record) (store.Change, error) {
		var r *Review
		var err error
		if old.Value != nil {
			if r, err = decodeReview(id, old.Value); err != nil {
				return store.Change{}, err
			}
		}
		if err := change(r); err != nil {
			return store.Change{}, err
		}
		value, err := json.Marshal(r)
		return store.Change{Value: value, TTL: q.options.TTL + reviewSlack}, err
	})
	if errors.Is(err, engagement.ErrUnchanged) {
		return nil
	}
	return err
}
