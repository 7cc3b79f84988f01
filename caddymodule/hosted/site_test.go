package hosted_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// hosted runs a site that hosts the agent of the document. OPTIONS are further options of oagent.
func hosted(t *testing.T, agent, options string, respond func(*modelserver.Request) modelserver.Step) *sitetest.HostedSite {
	t.Helper()
	s := sitetest.NewHostedSite(t, agent, respond)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", s.Block(options))
	return s
}

const tripAgent = `
  get-trip: {user_identity: false}
  create-trip: {user_identity: false}
`

func TestHosting(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent)+"exposes: {last: recent._name}\n", "", sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Trip 7 is on time."}))
	location := s.Begin("ann", "desk", "Is trip 7 on time?")
	v := s.State("ann", location)
	got := [...]any{v.Status, v.Text, v.Usage.Turns, v.Usage.ToolCalls, string(v.Exposes)}
	if want := [...]any{"complete", "Trip 7 is on time.", 2, 1, `{"last":"get-trip"}`}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	received := s.API.Received()
	if len(received) != 1 || received[0].Method != "GET" || received[0].URL.Path != "/trips/7" {
		t.Errorf("the API received %v", received)
	}
	requests := s.Models.Requests()
	if len(requests) != 2 {
		t.Fatalf("the model received %d requests, want 2", len(requests))
	}
	if last := requests[1].Messages[len(requests[1].Messages)-1]; last.Role != "tool" || !strings.Contains(last.Text, `"path":"/trips/7"`) {
		t.Errorf("the result of the call is %+v", last)
	}
	a := s.As("ann", "GET", v.Audit, "")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `"get-trip"`) {
		t.Errorf("audit record: status %d, %s", a.Status, a.Body)
	}
}
