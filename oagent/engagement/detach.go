package engagement

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// detachedTime is the time to record the result of a call whose client has disconnected.
const detachedTime = 5 * time.Second

// Detach returns a context for recording the result of a call, even if its client has
// disconnected.
func Detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return store.Detach(ctx, detachedTime)
}
