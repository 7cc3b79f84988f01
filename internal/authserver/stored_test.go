package authserver

import (
	"context"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
)

// storeLedger is a Ledger in a store.
type storeLedger struct{ store.Store }

func (l storeLedger) Update(ctx context.Context, key string, _ share.Owner, change func(string) (string, time.Duration, error)) error {
	return l.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		value, lifetime, err := change(string(old.Value))
		return store.Change{Value: []byte(value), TTL: lifetime}, err
	})
}

func TestStored_session_is_read(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	of := func(st store.Store) *records {
		return &records{ledger: storeLedger{st}, sealer: seal.Derive([]string{"secret of the samples"}, "samples")}
	}
	samples.Store(t, "sessions", func(st store.Store) error {
		return of(st).put(t.Context(), sessionKey("sample"), "ada", &session{
			Client: "client", Resource: "https://example.com/mcp", Scopes: []string{"trips"}, User: User{Subject: "ada"}, Generation: 3, Replaced: at,
		}, time.Hour)
	}, func(st store.Store) (any, error) {
		found, err := st.Get(t.Context(), sessionKey("sample"))
		if err != nil {
			return nil, err
		}
		s := new(session)
		return s, of(st).read(sessionKey("sample"), string(found.Value), s)
	})
}
