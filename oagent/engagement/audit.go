package engagement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/store"
)

// MaxPage is the maximum number of Engagements or entries that one call returns.
const MaxPage = 1000

// Get returns the summary of the Engagement with that key, or ErrNotFound. The
// caller decides who may see it.
func (s *Records) Get(ctx context.Context, key string) (*Summary, error) {
	var e *Summary
	err := s.Read(ctx, key, func(t *Tx) error {
		e = t.State.summary(key, t.Length())
		return nil
	})
	return e, err
}

// Page returns up to limit Engagements (MaxPage at most) in the order of their
// keys. It starts after the given key, or at the beginning if after is "". next is the key to
// pass as after for the next page; it is "" on the last page.
func (s *Records) Page(ctx context.Context, after string, limit int) (engagements []*Summary, next string, err error) {
	return s.page(ctx, keyPrefix, after, limit)
}

// PageOf is Page for the Engagements of one user. It reads no others.
func (s *Records) PageOf(ctx context.Context, user, after string, limit int) (engagements []*Summary, next string, err error) {
	engagements, next, err = s.page(ctx, keyPrefix+userDigits(user), after, limit)
	engagements = slices.DeleteFunc(engagements, func(e *Summary) bool { return e.User.ID != user })
	return engagements, next, err
}

// page returns the Engagements whose keys in the store have a prefix.
func (s *Records) page(ctx context.Context, prefix, after string, limit int) (engagements []*Summary, next string, err error) {
	if after != "" {
		after = keyPrefix + after
	}
	limit = min(limit, MaxPage)
	keys, err := s.store.Keys(ctx, prefix, after, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("listing Engagements: %w", err)
	}
	if len(keys) > limit { // there is another page
		keys = keys[:limit]
		next = strings.TrimPrefix(keys[limit-1], keyPrefix)
	}
	engagements = make([]*Summary, 0, len(keys))
	for _, key := range keys {
		record, err := s.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading an Engagement: %w", err)
		}
		state, err := decodeState(record.Value)
		if err != nil {
			return nil, "", err
		}
		engagements = append(engagements, state.summary(strings.TrimPrefix(key, keyPrefix), record.Length))
	}
	return engagements, next, nil
}

// Entries returns up to limit entries (MaxPage at most) of the record of an Engagement. from is
// the number of the first entry, counted from 0. Past the end of the record it returns none.
// Entries contain inputs and outputs as recorded.
func (s *Records) Entries(ctx context.Context, key string, from int64, limit int) ([]Entry, error) {
	if !IsKey(key) || from < 0 {
		return nil, ErrNotFound
	}
	if _, err := s.store.Get(ctx, keyPrefix+key); errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	entries, err := s.Log(ctx, key, from, max(1, min(limit, MaxPage)))
	if err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", err)
	}
	return entries, nil
}

// Log reads up to limit entries of the record of an Engagement, which exists.
func (s *Records) Log(ctx context.Context, key string, from int64, limit int) ([]Entry, error) {
	read, err := s.store.Read(ctx, keyPrefix+key, from, limit)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(read))
	for i, data := range read {
		if entries[i], err = decodeEntry(data); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Call reads the latest call of a name. It returns nil if the record no longer exists.
func (s *Records) Call(ctx context.Context, key string, of CallSummary) (*Payloads, error) {
	call, err := readCall(ctx, s.store, keyPrefix+key, of.Begun, of.Done)
	if errors.Is(err, errNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &call.Payloads, nil
}
