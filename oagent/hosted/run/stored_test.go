package run

import (
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
)

// storageOf returns the storage of samples.
func storageOf(st store.Store) *storage {
	return &storage{store: st, ttl: time.Hour, now: func() time.Time { return time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) }}
}

var storedRun = State{Assignment: Assignment{ID: "RUN1", Agent: "desk", User: engagement.User{ID: "ada"}}, Title: "A trip", Status: StatusAwaitingModel}

func TestStored_run_is_read(t *testing.T) {
	samples.Store(t, "runs", func(st store.Store) error {
		s, of := storageOf(st), storedRun
		if err := s.create(t.Context(), &of); err != nil {
			return err
		}
		_, err := s.change(t.Context(), of.ID, func(st *State) ([]entry, error) {
			st.Status, st.Text = StatusComplete, "Done."
			return []entry{
				{Kind: entryMessage, Message: &model.Message{Role: model.RoleUser, Text: "Book a \"trip\"."}},
				{Kind: entryMessage, Message: &model.Message{Role: model.RoleAssistant, Text: "Done."}, Usage: &model.Usage{InputTokens: 7}},
			}, nil
		})
		return err
	}, func(st store.Store) (any, error) {
		s := storageOf(st)
		state, err := s.get(t.Context(), storedRun.ID)
		if err != nil {
			return nil, err
		}
		var entries []entry
		err = s.entries(t.Context(), storedRun.ID, func(e *entry) error {
			entries = append(entries, *e)
			return nil
		})
		return map[string]any{"state": state, "entries": entries}, err
	})
}

func TestStored_conversation_is_read(t *testing.T) {
	samples.Store(t, "conversations", func(st store.Store) error {
		of := storedRun
		of.Text = "Done."
		return memory{storageOf(st)}.retain(t.Context(), &of, []model.Message{{Role: model.RoleUser, Text: "Book a trip."}})
	}, func(st store.Store) (any, error) {
		return memory{storageOf(st)}.get(t.Context(), storedRun.Agent, storedRun.User)
	})
}

// TestMemory_leaves_what_a_newer_version_retained wants a conversation that cannot be read to stay as it is.
func TestMemory_leaves_what_a_newer_version_retained(t *testing.T) {
	const newer = `{"v":2,"runs":[]}`
	st := samples.Open(t)
	m, of, key := memory{storageOf(st)}, storedRun, memoryOf(storedRun.Agent, storedRun.User)
	if err := st.Put(t.Context(), key, store.Change{Value: []byte(newer), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := m.retain(t.Context(), &of, nil); err == nil {
		t.Error("a run was added to what cannot be read")
	}
	if found, err := st.Get(t.Context(), key); err != nil || string(found.Value) != newer {
		t.Errorf("the record has become %q, error %v", found.Value, err)
	}
}
