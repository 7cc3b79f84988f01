package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	sweepInterval = 2 * time.Second
	sweepRecords  = 1000   // removed at once
	sweepEntries  = 10_000 // removed at once
)

// sweep removes expired data until the context ends. Of all nodes, one at a time does so. Each step is a short transaction,
// so that others are not blocked for long.
func (s *Store) sweep(ctx context.Context) {
	failed := false
	for {
		more := false
		err := s.connection.timed(ctx, func(ctx context.Context) error {
			return s.connection.pool.QueryRow(ctx, "SELECT sweep($1, $2, $3, $4)", sweepRecords, sweepEntries, queueLength, queueOwnTime).Scan(&more)
		})
		if err != nil && !failed && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
			s.options.Failed(fmt.Errorf("removing expired records failed, and is repeated: %w", err))
		}
		failed = err != nil                                              // one report for an interruption
		if !more && !pause(ctx, sweepInterval/2+rand.N(sweepInterval)) { //nolint:gosec // only spreads the sweeps
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}
