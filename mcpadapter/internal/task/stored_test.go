package task

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

func TestStored_task_is_read(t *testing.T) {
	const key = recordPrefix + "sample"
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	samples.Store(t, "tasks", func(st store.Store) error {
		value, err := New(Options{}).encode(&Record{
			ID: "T1", Revision: "2025-11-25", Status: Completed, Created: at, Updated: at, Expires: at.AddDate(1000, 0, 0), // the reader checks it
			Tool: "get_trip", Arguments: "sealed", Repeatable: true, Lease: lease.Lease{Token: "t", Until: at, Seq: 2}, Result: jsontext.Value(`{"content":[]}`),
		})
		if err != nil {
			return err
		}
		return st.Put(t.Context(), key, store.Change{Value: value, TTL: time.Hour})
	}, func(st store.Store) (any, error) {
		found, err := st.Get(t.Context(), key)
		r, _, err := decode(key, found, err)
		return r, err
	})
}
