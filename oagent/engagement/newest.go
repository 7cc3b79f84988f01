package engagement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// TimeIndexPrefix is the prefix of the store's keys of the index of Engagements by time. A key ends with the hour
// of a change, counted backwards so that the newest hour comes first, and the key of the Engagement. The first change
// of an Engagement in an hour adds a key. Keys of earlier hours are ignored, and expire.
const TimeIndexPrefix = "engagement-at/"

// maxIndexScan is the number of records after which Newest returns a page, even if it has fewer Engagements.
const maxIndexScan = 5000

// hourLength is an hour in milliseconds.
const hourLength = int64(time.Hour / time.Millisecond)

// hourOf returns the part of a key of the index for a time in milliseconds.
func hourOf(last int64) string {
	return fmt.Sprintf("%08x", math.MaxUint32-uint32(last/hourLength)) //nolint:gosec // hours since 1970
}

// indexTime adds a change of an Engagement, the first in its hour, to the index. The index is only for lists, so an
// error is ignored.
func (s *Records) indexTime(ctx context.Context, key string, t *Tx, ttl time.Duration) {
	_ = s.store.Put(context.WithoutCancel(ctx), TimeIndexPrefix+hourOf(t.State.Last)+"/"+key, store.Change{
		TTL: min(ttl+time.Hour, store.MaxTTL), Async: true, Evictable: true,
		Owner: cmp.Or(t.State.Owner, share.OwnerOf(t.State.User.ID, "")),
	})
}

// endOfHour ends the position after all Engagements of an hour.
const endOfHour = ".~"

// afterHour makes the key of an hour sort after all keys of the hour.
const afterHour = "/~"

// Position returns the position of an Engagement in the list of Newest. Positions sort like the list.
func (e *Summary) Position() string {
	last := e.LastAt.UnixMilli()
	return fmt.Sprintf("%s.%016x.%s", hourOf(last), math.MaxInt64-last, e.Key)
}

// Newest returns up to limit Engagements for which shown returns true, the one with the latest change first. If user
// is not "", it returns only those of that user. It starts after the given position, or at the newest if after is "".
// next is the position of the next page; it is "" on the last page. A page can have fewer Engagements and a next page.
// The error is ErrNotFound if the position is invalid.
func (s *Records) Newest(ctx context.Context, user, after string, limit int, shown func(*Summary) bool) (found []*Summary, next string, err error) {
	size := len(hourOf(0))
	if after != "" && len(after) <= size {
		return nil, "", ErrNotFound
	}
	start := TimeIndexPrefix + after[:min(len(after), size)]
	if strings.HasSuffix(after, endOfHour) {
		start += afterHour
	}
	for scanned := 0; ; {
		keys, err := s.hour(ctx, start)
		if err != nil || len(keys) == 0 {
			return found, "", err
		}
		hour := keys[0][len(TimeIndexPrefix):][:size]
		inHour, err := s.changedIn(ctx, hour, user, keys)
		if err != nil {
			return nil, "", err
		}
		for _, e := range inHour {
			switch {
			case e.Position() <= after || !shown(e):
			case len(found) == limit:
				return found, found[limit-1].Position(), nil
			default:
				found = append(found, e)
			}
		}
		start = TimeIndexPrefix + hour + afterHour
		if scanned+len(keys) >= maxIndexScan {
			return found, hour + endOfHour, nil
		}
		scanned += len(keys)
	}
}

// hour returns the keys of the first hour in the index after a key.
func (s *Records) hour(ctx context.Context, start string) (keys []string, err error) {
	for {
		page, err := s.store.Keys(ctx, TimeIndexPrefix, start, MaxPage)
		if err != nil {
			return nil, fmt.Errorf("listing Engagements: %w", err)
		}
		end := len(TimeIndexPrefix) + len(hourOf(0))
		for _, key := range page {
			if len(key) <= end || len(keys) > 0 && key[:end] != keys[0][:end] {
				return keys, nil
			}
			keys = append(keys, key)
		}
		if len(page) < MaxPage {
			return keys, nil
		}
		start = page[len(page)-1]
	}
}

// changedIn returns the Engagements of a user, or of all, whose latest change was in that hour, the newest first.
func (s *Records) changedIn(ctx context.Context, hour, user string, keys []string) (found []*Summary, err error) {
	for _, indexed := range keys {
		key := indexed[len(TimeIndexPrefix)+len(hour)+1:]
		if user != "" && !strings.HasPrefix(key, userDigits(user)) {
			continue
		}
		e, err := s.summaryOf(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if hourOf(e.LastAt.UnixMilli()) == hour && (user == "" || e.User.ID == user) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *Summary) int { return cmp.Compare(a.Position(), b.Position()) })
	return found, nil
}

// summaryOf reads the summary of an Engagement without the cache. The error is store.ErrNotFound if there is none.
func (s *Records) summaryOf(ctx context.Context, key string) (*Summary, error) {
	record, err := s.store.Get(ctx, keyPrefix+key)
	if err != nil {
		return nil, fmt.Errorf("reading an Engagement: %w", err)
	}
	state, err := decodeState(keyPrefix+key, record.Value)
	if err != nil {
		return nil, err
	}
	return state.summary(key, record.Length), nil
}
