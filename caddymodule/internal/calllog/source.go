package calllog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// source has calls of one node: a segment, or the calls that wait for the store.
type source struct {
	place
	*columns // nil until read

	records store.Store // nil if the calls are pending
	stored  int64       // bytes of the columns in the store
	pending []Call
}

// newPending returns the source of calls that wait for the store.
func newPending(node string, calls []Call) *source {
	c := new(columns)
	for i := range calls {
		c.add(&calls[i])
	}
	return &source{place: place{node: node}, columns: c, pending: calls}
}

// read reads the columns. A segment that does not exist any more has no rows.
func (s *source) read(ctx context.Context) error {
	if s.columns != nil {
		return nil
	}
	record, err := s.records.Get(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.columns = new(columns)
		return nil
	case err != nil:
		return err
	}
	s.stored = int64(len(record.Value))
	if s.columns, err = decodeColumns(record.Value); err != nil {
		s.columns = new(columns)
	}
	return err
}

// details returns the JSON of the calls of these rows, which are in ascending order.
func (s *source) details(ctx context.Context, rows []int) (lines [][]byte, err error) {
	if s.records == nil {
		for _, i := range rows {
			lines = append(lines, s.pending[i].appendJSON(nil))
		}
		return lines, nil
	}
	var batch [][]byte
	for read := -1; len(rows) > 0; rows = rows[1:] {
		number, position := s.batchOf(rows[0])
		if number != read {
			entries, err := s.records.Read(ctx, s.key, int64(number), 1)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				return lines, nil // the segment was deleted
			}
			if batch, err = decodeBatch(entries[0]); err != nil {
				return nil, err
			}
			read = number
		}
		if position >= len(batch) {
			return nil, errDamaged
		}
		lines = append(lines, batch[position])
	}
	return lines, nil
}

// at returns the position of a row.
func (s *source) at(row int) position {
	return position{s.rows[row].ended, s.node, s.rows[row].number}
}

// placesIn returns the places of the segments that may have calls since a time, in the order of their keys.
func placesIn(ctx context.Context, records store.Store, from time.Time) ([]place, error) {
	after := KeyPrefix
	if !from.IsZero() {
		after += timeKey(from.Add(-2 * segmentAge)) // a segment has no calls after its age, and the next begins later
	}
	var places []place
	for {
		keys, err := records.Keys(ctx, KeyPrefix, after, store.MaxRead)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if p, ok := placeOf(key); ok {
				places = append(places, p)
			}
		}
		if len(keys) < store.MaxRead {
			break
		}
		after = keys[len(keys)-1]
	}
	next := make(map[string]int64) // by node: start of its next segment
	for i := range slices.Backward(places) {
		p := &places[i]
		p.until = p.start + 2*segmentAge.Microseconds()
		if next[p.node] > 0 {
			p.until = min(p.until, next[p.node]+time.Millisecond.Microseconds())
		}
		next[p.node] = p.start
	}
	return places, nil
}
