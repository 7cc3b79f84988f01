package calllog

import (
	"errors"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
)

// readAll returns all that users get of the kept calls.
func readAll(t *testing.T) func(st store.Store) (any, error) {
	return func(st store.Store) (any, error) {
		l := node("reader", st, Options{})
		exported, err := UserData{l}.Export(t.Context(), st, "ada")
		if err != nil {
			return nil, err
		}
		one, err := l.Get(t.Context(), "node-1.2")
		if err != nil {
			return nil, err
		}
		places, err := placesIn(t.Context(), st, time.Time{})
		if err != nil {
			return nil, err
		}
		h, err := headerOf(t.Context(), st, places[0])
		return map[string]any{"all": findAll(t, l, Query{Limit: 2}), "of_ada": exported, "one": one, "header": h}, err
	}
}

func TestStored_calls_are_read(t *testing.T) {
	samples.Store(t, "kept_calls_2", func(st store.Store) error {
		l := node("node-1", st, Options{Config: Config{Arguments: []string{"id"}, Results: true}})
		for i, call := range []Call{
			{
				User: "ada", Groups: []string{"staff", "a \"group\""}, Agent: "clerk", Protocol: "mcp", Toolset: "trips", Tool: "get_trip", Outcome: "ok",
				Request: "GET /trips/{id}", Status: 200, Size: 11, Took: 12.5, Trace: "0af7651916cd43dd8448eb211c80319c",
			},
			{
				User: "ada", Protocol: "otc", Toolset: "trips", Tool: "cancel_trip", Outcome: "not_allowed", Reason: "the rule \"business hours\" does not allow the call",
				Rule: "business hours", Took: 0.25, Engagement: "e-1", Review: "R1",
			},
			{Protocol: "mcp", Toolset: "trips", Outcome: "unknown_tool", Reason: "no tool has the name «getTrip»"},
		} {
			call.Site, call.Endpoint, call.Began = "example.com", "/"+call.Protocol, time.Date(2026, 11, 28, 12, 0, i, 123456789, time.UTC)
			l.Active().Begin(&call, []byte(`{"id":7,"secret":"x"}`))
			l.Active().Record(&call, nil, []byte("{\"trip\":\t1}"))
			if i > 0 {
				l.keeper.step()
			}
		}
		return nil
	}, readAll(t))
}

// TestStored_columns_are_read reads a record of the format that was replaced in November 2026.
func TestStored_columns_are_read(t *testing.T) {
	samples.Store(t, "kept_calls_1", nil, readAll(t))
}

// TestBlock_that_cannot_be_read_is_reported has a damaged batch, a damaged value and one of a newer version beside a call.
func TestBlock_that_cannot_be_read_is_reported(t *testing.T) {
	st := openFile(t)
	l := node("a", st, Options{})
	l.record(Call{User: "ada", Tool: "get"})
	l.keeper.step()
	for i, change := range []store.Change{
		{Value: append([]byte{version}, `{"calls":1,"last":1}`...), Entries: [][]byte{[]byte("damaged")}},
		{Value: []byte{version, '{'}},
		{Value: []byte{version + 1}, Entries: [][]byte{[]byte("newer")}},
	} {
		change.TTL = time.Hour
		if err := st.Put(t.Context(), blockKey(&Call{Ended: time.Now(), Node: "b"}, uint16(i)), change); err != nil {
			t.Fatal(err)
		}
	}
	reported := make(map[string]bool) // by key
	stored.OnUnreadable(func(kind, key string, err error) {
		if kind != "kept_calls" || err == nil {
			t.Errorf("reported %s %s: %v", kind, key, err)
		}
		reported[key] = true
	})
	t.Cleanup(func() { stored.OnUnreadable(func(string, string, error) {}) })
	options := l.Options()
	for name, read := range map[string]func() error{
		"find":   func() error { _, err := l.Find(t.Context(), Query{Limit: 10}); return err },
		"get":    func() error { _, err := l.Get(t.Context(), "b.1"); return err },
		"stats":  func() error { _, err := l.count(t.Context(), StatsQuery{Range: time.Hour}); return err },
		"export": func() error { _, err := UserData{l}.Export(t.Context(), st, "bob"); return err },
		"erase":  func() error { _, err := UserData{l}.Erase(t.Context(), st, "bob"); return err },
		"trim":   func() error { return l.keeper.trim(t.Context(), st, &options) },
	} {
		clear(reported)
		if err := read(); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if len(reported) != 3 {
			t.Errorf("%s reported %d blocks, want 3", name, len(reported))
		}
		if calls := findAll(t, l, Query{Limit: 10}); len(calls) != 1 {
			t.Errorf("after %s there are %d calls, want 1", name, len(calls))
		}
	}
}

// TestStored_calls_with_further_fields_are_read has a call of a version that has added a field.
func TestStored_calls_with_further_fields_are_read(t *testing.T) {
	st := openFile(t)
	line := `{"number":1,"node":"b","site":"s","endpoint":"/mcp","began":"2026-11-28T12:00:00Z","ended":"2026-11-28T12:00:01Z","added":{"a":1},` +
		`"protocol":"mcp","toolset":"","duration_ms":1,"user":"ada"}` + "\n"
	change := store.Change{Value: append([]byte{version}, `{"first":1,"last":1,"calls":1,"size":9,"added":1}`...), Entries: [][]byte{compressor().EncodeAll([]byte(line), nil)}, TTL: time.Hour}
	if err := st.Put(t.Context(), blockKey(&Call{Ended: time.Date(2026, 11, 28, 12, 0, 1, 0, time.UTC), Node: "b"}, 1), change); err != nil {
		t.Fatal(err)
	}
	ada := "ada"
	if calls := findAll(t, node("a", st, Options{}), Query{Owner: &ada, Limit: 10}); len(calls) != 1 || calls[0].ID != "b.1" {
		t.Errorf("found %+v, want the call b.1", calls)
	}
}
