package hosted_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestSummary_of_a_long_conversation talks with an agent for longer than its limits allow, with summaries and with summaries that
// fail. Texts of the conversation never reach the log.
func TestSummary_of_a_long_conversation(t *testing.T) {
	for name, fails := range map[string]bool{"written": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "limits {\ncontext 1500\nturns 5\n}\nlimits desk {\nsummarize on\n}", func(r *modelserver.Request) modelserver.Step {
				switch {
				case !strings.HasPrefix(r.System, "You shorten a conversation"):
					return modelserver.Step{Text: "private " + strings.Repeat("word ", 200)}
				case fails:
					return modelserver.Step{Status: http.StatusBadRequest, Error: "no"}
				}
				return modelserver.Step{Text: "private summary", InputTokens: 1000, OutputTokens: 100}
			})
			location := s.Begin("ann", "desk", "private input")
			s.State("ann", location)
			for i := range 10 {
				if v := say(s, "ann", location, fmt.Sprint("private input ", i)); v.Status != "complete" {
					t.Fatalf("state %+v", v)
				}
			}
			requests := s.Models.Requests()
			begins := requests[len(requests)-1].Messages[0].Text
			if !strings.Contains(begins, "left out earlier messages") || strings.Contains(begins, "private summary") == fails {
				t.Errorf("the last request begins with %.300q", begins)
			}
			type turn struct {
				Summary bool
				Usage   struct {
					Input int64 `json:"input_tokens"`
				}
			}
			trace := sitetest.Decode[struct{ Turns []turn }](t, s.As("ann", "GET", location+"/trace", ""))
			summaries, input := 0, int64(0)
			for _, turn := range trace.Turns {
				input += turn.Usage.Input
				if turn.Summary {
					summaries++
				}
			}
			if (summaries == 0) != fails {
				t.Errorf("the trace has %d summaries", summaries)
			}
			var state struct {
				Usage struct {
					Turns int
					Input int64 `json:"input_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(s.As("ann", "GET", location, "").Body), &state); err != nil || state.Usage.Input != input || state.Usage.Turns != 11 {
				t.Errorf("usage %+v, error %v; the turns of the trace have %d tokens of input", state.Usage, err, input)
			}
			log := s.Log()
			if strings.Contains(log, "private") || strings.Contains(log, "without a summary") != fails {
				t.Errorf("log %s", log)
			}
		})
	}
}
