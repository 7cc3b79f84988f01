package review

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestReview_is_stored_as_one_object reads a record of a version in which a Review was not cut into parts, and writes it again.
func TestReview_is_stored_as_one_object(t *testing.T) {
	record := jsontext.Value(`{"id":"R1","reviewer":"boss","status":"pending","side":"input","rule":"/capabilities/pay","agent":"desk","engagement_id":"e1",` +
		`"key":"k1","user":{"id":"ann"},"name":"pay","inputs":{"sum":7},"asked_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-09T03:04:05Z",` +
		`"inspector":"pii","found":["email"],"original":true}`)
	r, err := decodeReview("", record)
	if err != nil {
		t.Fatal(err)
	}
	got := [...]any{r.ID, r.Key, r.User.ID, r.Name, r.HasOriginal}
	if want := [...]any{"R1", "k1", "ann", "pay", true}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	written, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := jsontext.Value(written); got.Canonicalize() != nil || record.Canonicalize() != nil || !bytes.Equal(got, record) {
		t.Errorf("wrote %s\nwant  %s", got, record)
	}
}
