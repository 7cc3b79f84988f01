package once

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
)

func TestStored_calls_are_read(t *testing.T) {
	samples.Store(t, "otc_calls", func(st store.Store) error {
		content := keyedhash.Digest{1, 2, 3}
		for key, r := range map[string]record{
			"begun":      {state: stateBegun, content: content, lease: lease.Lease{Node: "ABCDEFGHIJKLM", Token: "NOPQRSTUVWXYZ", Until: time.UnixMilli(1_800_000_000_000)}},
			"done":       {state: stateDone, content: content, status: 200, retryable: true, body: []byte(`{"seats":1}`)},
			"not stored": {state: stateNotStored, content: content, status: 200, body: []byte(notStoredCredentials)},
		} {
			if err := st.Put(t.Context(), key, store.Change{Value: append(r.encode(), r.body...), TTL: time.Hour}); err != nil {
				return err
			}
		}
		return nil
	}, func(st store.Store) (any, error) {
		all := make(map[string]any)
		return all, store.Scan(t.Context(), st, "", func(key string, old store.Record) error {
			r, ok := decodeRecord(old.Value, new(lease.Lease))
			all[key] = map[string]any{
				"ok": ok, "state": string(r.state), "retryable": r.retryable, "status": r.status, "lease": r.lease, "content": r.content[:], "body": string(r.body),
			}
			return nil
		})
	})
}

// TestBegin_does_not_run_a_call_whose_record_it_cannot_read has the record of a newer node. The call may have run there.
func TestBegin_does_not_run_a_call_whose_record_it_cannot_read(t *testing.T) {
	st, r := openBolt(t), New(Options{})
	newer := (&record{state: stateDone, status: 200}).encode()
	newer[0]++
	if err := st.Put(t.Context(), "k", store.Change{Value: newer, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	e := &execution{Records: r, store: &openStore{st, lease.Terms{Duration: r.options.Lease}}, call: testCall{}, key: "k"}
	if err := e.begin(t.Context()); !errors.Is(err, stored.ErrUnreadable) {
		t.Errorf("got the error %v, want ErrUnreadable", err)
	}
	if found, err := st.Get(t.Context(), "k"); err != nil || !bytes.Equal(found.Value, newer) {
		t.Errorf("the record has become %q, error %v", found.Value, err)
	}
}
