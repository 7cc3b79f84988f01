package oagent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// fullStoreSite runs a guarded site whose store records that a call begins and has no
// room for its result.
func fullStoreSite(t *testing.T) (s *sitetest.Site, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"note":"`+strings.Repeat("x", 60<<10)+`"}`)
	})
	s = sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, output_restriction: {assertion: "true"}}
  list-trips: {user_identity: false, output_restriction: {assertion: "true"}}
`))
	s.Start("agents {\n\tstore bolt DIR/store.db {\n\t\tmax_size 40KiB\n\t}\n}", sitetest.GuardedBlock("", api))
	return s, reached
}

// otcNamed calls a tool over OTC with a call_id.
func otcNamed(s *sitetest.Site, tool, input, callID string) (success bool, failure otcFailure) {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(fmt.Sprintf(
		`{"request":{"call_id":%q,"tool_id":"Trips.%s","input":%s}}`, callID, tool, input)))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a := s.Do(r)
	var response struct {
		Success bool
		Output  struct{ Error otcFailure }
	}
	if err := json.Unmarshal([]byte(a.Body), &response); err != nil {
		s.T.Fatalf("%v: %d %s", err, a.Status, a.Body)
	}
	return response.Success, response.Output.Error
}

type otcFailure struct {
	Message    string
	CanRetry   *bool  `json:"can_retry"`
	RetryAfter *int64 `json:"retry_after_ms"`
	Prompt     string `json:"additional_prompt_content"`
}

func TestOAgentMade_a_call_is_not_offered_again_when_the_store_fails_after_it(t *testing.T) {
	s, reached := fullStoreSite(t)
	t.Run("REST", func(t *testing.T) {
		s := s.With(t)
		a := s.Request("POST", "/trips", `{"to":"Bern"}`)
		p := s.Problem(a)
		got := [...]any{p.Kind, p.Made, p.RetryAfter, a.Header.Get("Retry-After"), a.Status}
		if want := [...]any{"store", true, 0, "", http.StatusInternalServerError}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if call := a.Header.Get("Fairway-Call"); call == "" || !strings.HasSuffix(p.Detail, "the operator finds this call as "+call) {
			t.Errorf("the message does not end with the id %q of the header: %s", call, p.Detail)
		}
	})
	t.Run("MCP", func(t *testing.T) {
		s := s.With(t)
		a := s.Do(s.CallRequest("createTrip", `{"to":"Bern"}`))
		var message struct {
			Result struct {
				IsError bool
				Meta    struct {
					HTTP struct {
						Status       int
						Retryable    *bool
						RetryAfterMS *int64 `json:"retryAfterMs"`
					} `json:"io.github.fairwayhq/http"`
					Call string `json:"io.github.fairwayhq/call"`
				} `json:"_meta"`
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(a.Body), &message); err != nil {
			t.Fatalf("%v: %s", err, a.Body)
		}
		meta := message.Result.Meta.HTTP
		if !message.Result.IsError || meta.Status != 500 {
			t.Errorf("got the status %d, want an error with 500: %.600s", meta.Status, a.Body)
		}
		if call := message.Result.Meta.Call; call == "" || !strings.HasSuffix(message.Result.Content[0].Text, "the operator finds this call as "+call) {
			t.Errorf("the message does not end with the id %q of the call: %.600s", call, a.Body)
		}
		if s.HasLogged(`"msg":"decision"`, "the operator finds this call as") {
			t.Error("the reason in the log of decisions has the id, so equal reasons differ")
		}
		if meta.Retryable == nil || *meta.Retryable || meta.RetryAfterMS != nil {
			t.Errorf("got %+v, want a failure that must not be repeated: %.600s", meta, a.Body)
		}
	})
	for _, tool := range []string{"createTrip", "listTrips"} {
		t.Run("OTC/"+tool, func(t *testing.T) {
			s := s.With(t)
			before := reached.Load()
			for attempt := range 3 {
				success, failure := otcNamed(s, tool, inputOf(tool), "once-"+tool)
				if success || failure.CanRetry == nil || *failure.CanRetry {
					t.Errorf("attempt %d: success %t, %+v; want a failure that must not be repeated", attempt, success, failure)
				}
				if failure.RetryAfter != nil || strings.Contains(failure.Prompt, "same input") {
					t.Errorf("attempt %d: got the prompt %q and the time %v, want no retry", attempt, failure.Prompt, failure.RetryAfter)
				}
			}
			if n := reached.Load() - before; n != 1 {
				t.Errorf("the API was called %d times with one call_id", n)
			}
		})
	}
}

func inputOf(tool string) string {
	if tool == "createTrip" {
		return `{"to":"Bern"}`
	}
	return `{}`
}
