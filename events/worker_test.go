package events

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

func TestStored_starts_are_read(t *testing.T) {
	const key = "events/shop/starts"
	samples.Store(t, "event_starts", func(st store.Store) error {
		value, err := json.Marshal(progress{Cursor: "500000.2", Lease: lease.Lease{Node: "a", Token: "b", Until: time.Unix(1_800_000_000, 0).UTC(), Tries: 1, Seq: 3}})
		if err != nil {
			return err
		}
		return st.Put(t.Context(), key, store.Change{Value: value, TTL: time.Hour})
	}, func(st store.Store) (any, error) {
		var read progress
		r, err := st.Get(t.Context(), key)
		if err == nil {
			err = stored.Decode("events", key, r.Value, &read)
		}
		return read, err
	})
}
