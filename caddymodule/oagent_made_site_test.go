package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// fullStoreSite runs a guarded site whose store records that a call begins and has no
// room for its result.
func fullStoreSite(t *testing.T) (s *site, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	api := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"note":"`+strings.Repeat("x", 60<<10)+`"}`)
	})
	s = newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  create-trip: {user_identity: false, output_restriction: {assertion: "true"}}
  list-trips: {user_identity: false, output_restriction: {assertion: "true"}}
`))
	s.start("agents {\n\tstore bolt DIR/store.db {\n\t\tmax_size 40KiB\n\t}\n}", guardedBlock("", api))
	return s, reached
}

// otcNamed calls a tool over OTC with a call_id.
func (s *site) otcNamed(tool, input, callID string) (success bool, failure otcFailure) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+"/otc/call", strings.NewReader(fmt.Sprintf(
		`{"request":{"call_id":%q,"tool_id":"Trips.%s","input":%s}}`, callID, tool, input)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a := s.do(r)
	var response struct {
		Success bool
		Output  struct{ Error otcFailure }
	}
	if err := json.Unmarshal([]byte(a.body), &response); err != nil {
		s.t.Fatalf("%v: %d %s", err, a.status, a.body)
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
		s := s.with(t)
		a := s.request("POST", "/trips", `{"to":"Bern"}`)
		p := s.problem(a)
		if p.Kind != "store" || !p.Made || p.RetryAfter != 0 || a.header.Get("Retry-After") != "" || a.status != http.StatusInternalServerError {
			t.Errorf("status %d, Retry-After %q, problem %+v", a.status, a.header.Get("Retry-After"), p)
		}
	})
	t.Run("MCP", func(t *testing.T) {
		s := s.with(t)
		a := s.do(s.callRequest("createTrip", `{"to":"Bern"}`))
		var message struct {
			Result struct {
				IsError bool
				Meta    map[string]struct {
					Status       int
					Retryable    *bool
					RetryAfterMS *int64 `json:"retryAfterMs"`
				} `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(a.body), &message); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		meta := message.Result.Meta["io.github.fairwayhq/http"]
		if !message.Result.IsError || meta.Status != 500 || meta.Retryable == nil || *meta.Retryable || meta.RetryAfterMS != nil {
			t.Errorf("got %.600s", a.body)
		}
	})
	for _, tool := range []string{"createTrip", "listTrips"} {
		t.Run("OTC/"+tool, func(t *testing.T) {
			s := s.with(t)
			before := reached.Load()
			for attempt := range 3 {
				success, failure := s.otcNamed(tool, inputOf(tool), "once-"+tool)
				if success || failure.CanRetry == nil || *failure.CanRetry || failure.RetryAfter != nil || strings.Contains(failure.Prompt, "same input") {
					t.Errorf("attempt %d: success %t, %+v", attempt, success, failure)
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
