package hosted_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_invalid_arguments checks that the gateway's own error is no data of the tool, and names the tool
// as the model does.
func TestHosting_invalid_arguments(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(sitetest.Calls("get-trip", `{"id":"7","extra":1}`), modelserver.Step{Text: "Done."}))
	s.State("ann", s.Begin("ann", "desk", "Go"))
	result := answers(s)[0]
	for word, want := range map[string]bool{"get-trip": true, "extra": true, "get_trip": false, "getTrip": false, "returned": false} {
		if got := strings.Contains(result, word); got != want {
			t.Errorf("%q is in the result: got %t, want %t: %s", word, got, want, result)
		}
	}
}

// TestHosting_canceled_call cancels a run during a call that changes something.
func TestHosting_canceled_call(t *testing.T) {
	entered := make(chan struct{})
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`)))
	s.API.Respond = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
		close(entered)
		<-r.Context().Done()
	}
	s.Start(storeInDir, s.Block(""))
	location := s.Begin("ann", "desk", "Go")
	sitetest.Await(t, "the call", entered)
	s.As("ann", "DELETE", location, "")
	sitetest.Eventually(t, "the end of the call in the record", func() bool {
		return strings.Contains(s.As("ann", "GET", location+"/audit", "").Body, `"aborted"`)
	})
	if audit := s.As("ann", "GET", location+"/audit", "").Body; !strings.Contains(audit, "canceled") {
		t.Errorf("record %s", audit)
	}
}

// TestHosting_review_of_a_canceled_run approves a review that a cancellation has ended.
func TestHosting_review_of_a_canceled_run(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", reviewedAgent), "reviews /reviews", reviewedTrip)
	location := s.Begin("ann", "desk", "Go")
	review := pending(s, "ann", location)
	s.As("ann", "DELETE", location, "")
	if a := s.As("boss", "POST", review+"/approve", ""); a.Status != http.StatusGone || !strings.Contains(a.Body, "canceled") {
		t.Errorf("approval: %d %s", a.Status, a.Body)
	}
}
