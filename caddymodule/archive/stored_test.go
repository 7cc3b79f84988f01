package archive

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

func TestStored_chain_is_read(t *testing.T) {
	samples.Store(t, "archive", func(st store.Store) error {
		return transaction(st, "sample", "node-1")(t.Context(), func(s *state, _ *lease.Lease) error {
			s.Cursors["file"] = cursor{Segment: 2, Index: 7, link: link{Seq: 9, Hash: "00ff"}}
			return nil
		})
	}, func(st store.Store) (any, error) {
		var read state
		errKept := errors.New("nothing is changed")
		err := transaction(st, "sample", "")(t.Context(), func(s *state, _ *lease.Lease) error {
			read = *s
			return errKept
		})
		if errors.Is(err, errKept) {
			err = nil
		}
		return read, err
	})
}

func TestStored_lines_are_verified(t *testing.T) {
	data := samples.File(t, "archive.jsonl", func() (lines []byte, err error) {
		var l link
		for _, user := range []string{"ada", "bob \"b\""} {
			entry, err := json.Marshal(audit.Entry{User: user, At: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)})
			if err != nil {
				return nil, err
			}
			lines = l.seal(lines, "node-1", entry)
		}
		return lines, nil
	})
	var v Verifier
	if err := v.Read("archive.jsonl", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if faults := v.Check(); len(faults) != 0 || len(v.Chains) != 1 {
		t.Errorf("got %d chains with the faults %v, want one without", len(v.Chains), faults)
	}
}
