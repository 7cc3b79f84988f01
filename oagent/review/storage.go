package review

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// storage keeps each review under its id in the store.
type storage struct {
	store store.Store
	ttl   time.Duration // see Options.TTL
	now   func() time.Time
}

// put stores a review.
func (s storage) put(ctx context.Context, r *Review) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a review: %w", err)
	}
	if err := s.putOriginal(ctx, r); err != nil {
		return err
	}
	return s.store.Put(ctx, reviewPath+r.ID, store.Change{Value: value, TTL: s.ttl + reviewSlack, Owner: share.OwnerOf(r.User.ID, "")})
}

// read returns a review. The error is ErrNotFound if there is none.
func (s storage) read(ctx context.Context, id string) (*Review, error) {
	if !isReviewID(id) {
		return nil, ErrNotFound
	}
	record, err := s.store.Get(ctx, reviewPath+id)
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
	if len(id) != length {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// drop deletes an unused review. If that fails, the review expires.
func (s storage) drop(ctx context.Context, id string) {
	_ = s.store.Delete(ctx, reviewPath+id, originalPath+id)
}

// share moves the outputs of a released review to a short-lived key, where concurrent identical calls
// find them. If that fails, the outputs expire.
func (s storage) share(ctx context.Context, r *Review) {
	value, err := json.Marshal(r)
	if err == nil {
		err = s.store.Put(ctx, releasedPath+r.ID, store.Change{Value: value, TTL: sharedTTL, Async: true})
	}
	if err == nil {
		s.removeOutputs(ctx, r.ID)
	}
}

// readHeld reads a review with the result that it holds, or that it has released within sharedTTL.
func (s storage) readHeld(ctx context.Context, id string) (*Review, error) {
	r, err := s.read(ctx, id)
	if err != nil || r.Outputs != nil {
		return r, err
	}
	record, err := s.store.Get(ctx, releasedPath+id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, nil // a result without outputs
	case err != nil:
		return nil, fmt.Errorf("reading a released result: %w", err)
	}
	return decodeReview(id, record.Value)
}

// removeOutputs removes the outputs from a released review. If that fails, they expire.
func (s storage) removeOutputs(ctx context.Context, id string) {
	_ = s.change(ctx, id, func(r *Review) error {
		if r == nil || r.Outputs == nil {
			return engagement.ErrUnchanged
		}
		r.Outputs = nil
		return nil
	})
}

// change changes a stored review in a transaction. change gets nil if the review does
// not exist, and returns engagement.ErrUnchanged if there is nothing to write.
func (s storage) change(ctx context.Context, id string, change func(*Review) error) error {
	err := s.store.Update(ctx, reviewPath+id, func(old store.Record) (store.Change, error) {
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
		return store.Change{Value: value, TTL: s.ttl + reviewSlack}, err
	})
	if errors.Is(err, engagement.ErrUnchanged) {
		return nil
	}
	return err
}
