package hosted_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestFallback runs an agent whose first model is unavailable for one message of three. The calls of both models are made,
// and the trace says which model wrote each message.
func TestFallback(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), nil)
	s.Models.Respond = func(r *modelserver.Request) modelserver.Step {
		results := 0
		for _, m := range r.Messages {
			if m.Role == "tool" {
				results++
			}
		}
		switch {
		case results == 1 && !r.Anthropic:
			return modelserver.Step{Text: "Let me ", FailMidStream: true, ErrorCode: "overloaded_error", Error: "overloaded"}
		case results == 2:
			return modelserver.Step{Text: "Both are on time."}
		}
		return sitetest.Calls("get-trip", `{"id":"7"}`)
	}
	other := httptest.NewServer(s.Models)
	t.Cleanup(other.Close)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", strings.Replace(s.Block(""), "retries 0", "retries 0\nfallback anthropic {\nbase_url "+other.URL+"\nmodel second\n}", 1))
	location := s.Begin("ann", "desk", "Are trips 7 and 8 on time?")
	if v := s.State("ann", location); v.Status != "complete" || v.Text != "Both are on time." || v.Usage.ToolCalls != 2 {
		t.Fatalf("state %+v", v)
	}
	var trace struct {
		Turns []struct {
			Number int
			Model  string
		}
	}
	a := s.As("ann", "GET", location+"/trace", "")
	if err := json.Unmarshal([]byte(a.Body), &trace); err != nil {
		t.Fatal(err)
	}
	models := make([]string, 0, len(trace.Turns))
	for _, turn := range trace.Turns {
		models = append(models, turn.Model)
	}
	if got := strings.Join(models, ","); got != ",test,second,test" {
		t.Errorf("the trace has the models %q: %s", got, a.Body)
	}
}
