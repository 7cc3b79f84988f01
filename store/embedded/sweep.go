package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

const (
	sweepInterval = 30 * time.Second
	evictFraction = 8 // at most this fraction of an owner's evictable records is evicted at a time (1/8)
)

// sweepUntilClosed removes expired records periodically.
func (s *Store) sweepUntilClosed() {
	ticker := time.NewTicker(s.options.sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.closing:
			return
		}
		if err := s.sweep(); err != nil && !errors.Is(err, store.ErrClosed) {
			s.options.Failed(fmt.Errorf("removing expired records failed, and is repeated: %w", err))
		}
	}
}

// sweep makes small changes, so that other writers are not blocked for long.
func (s *Store) sweep() error {
	ctx := context.Background()
	for from := []byte{classDurable}; from != nil; {
		var due []string
		err := s.file.view(func(tx *bbolt.Tx) error {
			due, from = expired(tx, time.Now().UnixMilli(), from)
			return nil
		})
		if err == nil && len(due) > 0 {
			err = s.do(ctx, "", nil, func(c *committer) (bool, error) {
				for _, key := range due {
					c.replace(key, removeExpired)
				}
				return false, nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
