package once

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// deafStore does not return the response to its first change, and fails until it is repaired. commit makes the first change.
type deafStore struct {
	store.Store
	commit   func()
	repaired chan struct{}
}

func (s *deafStore) Update(ctx context.Context, key string, change func(store.Record) (store.Change, error)) error {
	select {
	case <-s.repaired:
		return s.Store.Update(ctx, key, change)
	default:
	}
	if s.commit == nil {
		c, err := change(store.Record{})
		if err != nil {
			return err
		}
		s.commit = func() { _ = s.Put(context.Background(), key, c) }
	}
	return errBroken
}

// TestBegin_claim_that_is_written_after_an_error does not keep the call from running: on this node at once, on others when
// this one reaches the store again.
func TestBegin_claim_that_is_written_after_an_error(t *testing.T) {
	st := openBolt(t)
	for node, test := range map[string]struct {
		r     func(*Records) *Records
		ready func() bool
	}{
		"this": {func(r *Records) *Records { return r }, func() bool { return true }},
		"another": {func(*Records) *Records { return New(Options{}) }, func() bool {
			_, err := st.Get(t.Context(), "k")
			return errors.Is(err, store.ErrNotFound)
		}},
	} {
		t.Run(node, func(t *testing.T) {
			deaf := &deafStore{Store: st, repaired: make(chan struct{})}
			r := New(Options{})
			begin := func(r *Records, st store.Store) (*execution, error) {
				e := &execution{Records: r, store: &openStore{st, lease.Terms{Duration: time.Hour}}, call: testCall{}, key: "k"}
				return e, e.begin(t.Context())
			}
			if _, err := begin(r, deaf); !errors.Is(err, errBroken) {
				t.Fatalf("error %v", err)
			}
			deaf.commit()
			if node == "another" {
				close(deaf.repaired)
			}
			testkit.Eventually(t, "the release of the claim", test.ready)
			if e, err := begin(test.r(r), st); err != nil || e.found != nil {
				t.Errorf("found %+v, error %v", e.found, err)
			}
			if err := st.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
