package login

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// storeWait limits one change of a record.
const storeWait = 10 * time.Second

// ledger keeps the records of the authorization server in the store of the agents app.
type ledger struct {
	open   func(context.Context) (store.Store, error)
	prefix string // of all keys
}

// Update changes a record. It does not end with the request: it would be unknown then whether a code was used.
func (l *ledger) Update(ctx context.Context, key string, owner share.Owner, change func(string) (string, time.Duration, error)) error {
	ctx, cancel := store.Detach(ctx, storeWait)
	defer cancel()
	st, err := l.open(ctx)
	if err != nil {
		return err
	}
	return st.Update(ctx, l.prefix+key, func(old store.Record) (store.Change, error) {
		value, lifetime, err := change(string(old.Value))
		if err != nil || value == "" {
			return store.Change{Delete: true}, err
		}
		return store.Change{Value: []byte(value), TTL: lifetime, Owner: owner}, nil
	})
}
