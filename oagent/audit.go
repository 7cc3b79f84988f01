package oagent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/internal/store"
)

// MaxAudit is the maximum number of entries that one call returns.
const MaxAudit = 1000

// Engagement returns the summary of the Engagement with that key, or ErrNoEngagement. The
// caller decides who may see it.
func (g *Guard) Engagement(ctx context.Context, key string) (*Engagement, error) {
	var e *Engagement
	err := g.look(ctx, key, func(t *turn) error {
		e = t.state.engagement(key, t.record.length)
		return nil
	})
	return e, err
}

// Engagements is EngagementPage without the cursor.
func (g *Guard) Engagements(ctx context.Context, after string, limit int) ([]*Engagement, error) {
	engagements, _, err := g.EngagementPage(ctx, after, limit)
	return engagements, err
}

// EngagementPage returns up to limit Engagements (MaxAudit at most) in the order of their
// keys. It starts after the given key, or at the beginning if after is "". next is the key to
// pass as after for the next page; it is "" on the last page. It is meant for operators'
// lists: with Redis it scans the whole database.
func (g *Guard) EngagementPage(ctx context.Context, after string, limit int) (engagements []*Engagement, next string, err error) {
	if after != "" {
		after = engagementPath + after
	}
	limit = min(limit, MaxAudit)
	keys, err := g.store.Keys(ctx, engagementPath, after, limit)
	if err != nil {
		return nil, "", fmt.Errorf("listing Engagements: %w", err)
	}
	engagements = make([]*Engagement, 0, len(keys))
	for _, key := range keys {
		record, err := g.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading an Engagement: %w", err)
		}
		s, err := decodeState(record.Value)
		if err != nil {
			return nil, "", err
		}
		engagements = append(engagements, s.engagement(strings.TrimPrefix(key, engagementPath), record.Length))
	}
	if len(keys) == limit {
		next = strings.TrimPrefix(keys[len(keys)-1], engagementPath)
	}
	return engagements, next, nil
}

// Audit returns up to limit entries (MaxAudit at most) of the record of an Engagement. from is
// the number of the first entry, counted from 0. Past the end of the record it returns none.
// Entries contain inputs and outputs as recorded.
func (g *Guard) Audit(ctx context.Context, key string, from int64, limit int) ([]Entry, error) {
	if !isKey(key) || from < 0 {
		return nil, ErrNoEngagement
	}
	if _, err := g.store.Get(ctx, engagementPath+key); errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoEngagement
	}
	read, err := g.store.Read(ctx, engagementPath+key, from, max(1, min(limit, MaxAudit)))
	if err != nil {
		return nil, fmt.Errorf("reading the record of an Engagement: %w", err)
	}
	entries := make([]Entry, len(read))
	for i, data := range read {
		if entries[i], err = decodeEntry(data); err != nil {
			return nil, err
		}
	}
	return entries, nil
}
