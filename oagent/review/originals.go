package review

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// Some inputs have values that neither the record of the Engagement nor the Review may have. Both have the inputs with these values
// masked. The original inputs are in a record of their own, encrypted, until the review is decided or expires.

// originalPath is the prefix of the store's keys of original inputs.
const originalPath = "original/"

// Originals encrypts original inputs. It is safe for concurrent use.
type Originals struct {
	Keep bool // someone may read them, so that reviews store them

	sealer  *seal.Sealer
	digests [][]byte // the keys of digests; Digest uses the first one
}

// NewOriginals returns the Originals of a secret. Further secrets are those before it: what they encrypted can be read.
func NewOriginals(secrets []string) *Originals {
	return &Originals{sealer: seal.Derive(secrets, "fairway review original"), digests: seal.Keys(secrets, "fairway review digest")}
}

// Digest returns a digest of inputs. Without the secret, it is of no use to guess them.
func (o *Originals) Digest(inputs jsontext.Value) string {
	return digest(o.digests[0], inputs)
}

// HasDigest reports whether a digest is of these inputs, also with a previous secret.
func (o *Originals) HasDigest(of string, inputs jsontext.Value) bool {
	return slices.ContainsFunc(o.digests, func(key []byte) bool { return digest(key, inputs) == of })
}

func digest(key []byte, inputs jsontext.Value) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(inputs)
	return hex.EncodeToString(mac.Sum(nil))
}

// Seal encrypts inputs for a place.
func (o *Originals) Seal(inputs jsontext.Value, place string) string {
	return o.sealer.Seal(inputs, place)
}

// Unseal decrypts inputs that Seal has encrypted for the same place.
func (o *Originals) Unseal(sealed, place string) (jsontext.Value, error) {
	return o.sealer.Unseal(sealed, place)
}

// Original returns the original inputs of a pending review. It records who reads them in the Engagement before. The error is
// ErrNotFound if there are none, and ErrDecided after the decision.
func (q *Queue) Original(ctx context.Context, r *Review, by engagement.Decider, originals *Originals) (jsontext.Value, error) {
	if q.isOver(r) {
		return nil, ErrDecided
	}
	key := originalPath + r.ID
	sealed, err := q.options.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading an original: %w", err)
	}
	inputs, err := originals.Unseal(string(sealed.Value), key)
	if err != nil {
		return nil, fmt.Errorf("the original of the review %s %w", r.ID, err)
	}
	full := false
	err = q.options.Records.Change(ctx, r.Key, nil, func(t *engagement.Tx) error {
		if full = t.Length() >= engagement.MaxEntries; full {
			return engagement.ErrUnchanged
		}
		t.Log(engagement.Entry{Event: engagement.EntryOriginal, Name: r.Name, Side: r.Side, Review: r.ID, By: r.Reviewer, DecidedBy: by})
		t.Durable = true
		return nil
	})
	switch {
	case errors.Is(err, engagement.ErrNotFound):
		return nil, ErrDecided
	case err == nil && full:
		return nil, errors.New("the record of the Engagement is full")
	}
	return inputs, err
}

// putOriginal stores the original inputs of a review, if it has some.
func (q *Queue) putOriginal(ctx context.Context, r *Review) error {
	if r.Original == nil {
		return nil
	}
	key := originalPath + r.ID
	value := []byte(r.Originals.Seal(r.Original, key))
	return q.options.Store.Put(ctx, key, store.Change{Value: value, TTL: max(r.ExpiresAt.Sub(q.options.Now()), time.Second), Owner: share.OwnerOf(r.User.ID, "")})
}

// dropOriginal deletes the original inputs of a review, if it has some.
func (q *Queue) dropOriginal(ctx context.Context, r *Review) error {
	if !r.HasOriginal {
		return nil
	}
	if err := q.options.Store.Delete(ctx, originalPath+r.ID); err != nil {
		return fmt.Errorf("deleting an original: %w", err)
	}
	return nil
}
