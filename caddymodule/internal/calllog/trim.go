package calllog

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// kept is what trim knows of a segment.
type kept struct {
	size int64
	// The user who made at least half of the calls, if owned is set. "" is the user of callers without authentication.
	user  string
	owned bool
}

// trim deletes calls of all nodes until the size of all segments is below the limit, the oldest ones first. A user whose
// segments have more than half of the limit loses calls before others do.
func (k *keeper) trim(ctx context.Context, records store.Store, options *Options) error {
	places, err := placesIn(ctx, records, time.Time{})
	if err != nil {
		return err
	}
	all, final, total, ofUser := make([]*kept, len(places)), make(map[string]*kept, len(places)), int64(0), make(map[string]int64)
	oldest := time.Now().Add(-2 * segmentAge).UnixMicro()
	for i, p := range places {
		if all[i] = k.known[p.key]; all[i] != nil {
			final[p.key] = all[i]
		} else {
			from := &source{place: p, records: records}
			if err := from.read(ctx); err != nil && !errors.Is(err, errDamaged) {
				return err
			}
			all[i] = from.measure()
			if p.start < oldest || from.calls() >= segmentCalls {
				final[p.key] = all[i]
			}
		}
		total += all[i].size
		if all[i].owned {
			ofUser[all[i].user] += all[i].size
		}
	}
	k.known = final
	for i, p := range places { // the oldest first
		s := all[i]
		if total <= options.MaxSize {
			return nil
		}
		if !s.owned || ofUser[s.user] <= options.MaxSize/2 {
			continue
		}
		before := s.size
		if err := k.deleteOf(ctx, records, p, s, time.Duration(options.Keep)); err != nil {
			return err
		}
		total -= before - s.size
		ofUser[s.user] -= before
	}
	for i, p := range places {
		if total <= options.MaxSize {
			return nil
		}
		if err := records.Delete(ctx, p.key); err != nil {
			return err
		}
		total -= all[i].size
		delete(k.known, p.key)
	}
	return nil
}

// deleteOf deletes the calls of the owner of a segment.
func (k *keeper) deleteOf(ctx context.Context, records store.Store, p place, s *kept, keep time.Duration) error {
	from := &source{place: p, records: records}
	if err := from.read(ctx); err != nil && !errors.Is(err, errDamaged) {
		return err
	}
	size, err := deleteRows(ctx, records, from, from.rowsOf(s.user), keep)
	if err != nil {
		return err
	}
	s.size, s.owned = size, false
	k.known[p.key] = s
	return nil
}

// measure returns the size of a segment that was read, and who made at least half of its calls.
func (s *source) measure() *kept {
	m := &kept{size: s.size + s.stored}
	if s.decodeRows() != nil {
		return m
	}
	calls := make(map[uint16]int)
	for i := range s.rows {
		name := s.rows[i].names[columnUser]
		if calls[name]++; 2*calls[name] >= len(s.rows) {
			m.user, m.owned = s.names[name], true
		}
	}
	return m
}
