package respond

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
)

func TestDocument_members(t *testing.T) {
	d := NewProblem("https://example.com/kinds#late", `Not "now"`, http.StatusServiceUnavailable, "Try again\nlater.")
	d.AddString("agent", "desk")
	d.AddString("review", "")
	d.AddInt("retry_after", 2)
	d.AddBool("made", false)
	w := httptest.NewRecorder()
	d.Write(w)

	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	want := map[string]any{
		"type": "https://example.com/kinds#late", "title": `Not "now"`, "status": 503.0, "detail": "Try again\nlater.",
		"agent": "desk", "retry_after": 2.0, "made": false,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", w.Code)
	}
	for name, want := range map[string]string{
		"Content-Type": problemType, "Cache-Control": "no-store", "Content-Length": strconv.Itoa(w.Body.Len()),
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestWrite_untyped(t *testing.T) {
	w := httptest.NewRecorder()
	WriteProblem(w, http.StatusNotFound, "Not found", "There is no such path.")
	const want = `{"type":"about:blank","title":"Not found","status":404,"detail":"There is no such path."}`
	if got := w.Body.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
