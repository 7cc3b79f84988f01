package run_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestState_is_stored_as_one_object reads a record of a version in which a State was not cut into parts, and writes it again.
func TestState_is_stored_as_one_object(t *testing.T) {
	stored := jsontext.Value(`{"id":"r1","agent":"desk","user":{"id":"ann"},"parent":"r0","root":"r0","depth":1,"home":"node-a",` +
		`"started_at":"2026-01-02T03:04:05Z","changed_at":"2026-01-02T03:05:05Z","title":"Trips","round":2,"before":{"turns":3,"time":40},` +
		`"origin":{"host":"a.example"},"status":"awaiting-model","phase":"model","inputs":[{"id":"i1","text":"More"}],"answer":"a","text":"b",` +
		`"cut":true,"is_value":true,"repaired":true,"called":true,"turns":4,"made":2,"usage":{"input_tokens":10,"output_tokens":5},"spent":900,"woken":true}`)
	st := new(run.State)
	if err := json.Unmarshal(stored, st); err != nil {
		t.Fatal(err)
	}
	got := [...]any{st.ID, st.User.ID, st.Turns, st.Before.Turns, int(st.Usage.OutputTokens), st.Text, st.IsValue}
	if want := [...]any{"r1", "ann", 4, 3, 5, "b", true}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	written, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if got := jsontext.Value(written); got.Canonicalize() != nil || stored.Canonicalize() != nil || !bytes.Equal(got, stored) {
		t.Errorf("wrote %s\nwant  %s", got, stored)
	}
}
