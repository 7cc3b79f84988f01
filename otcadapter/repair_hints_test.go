package otcadapter

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/ocp"
)

// TestRepairHints is the table of what a client and a model get for each failure, by
// the method of the tool. The members of an error must say one thing: what can be
// retried is to be called again with the same input, and nothing else is.
func TestRepairHints(t *testing.T) {
	const (
		same    = "again same input 2s"
		look    = "unknown repeat"
		took    = "responded repeat"
		correct = "Correct input"
		find    = "does not exist"
		state   = "state allow"
		user    = "not repeat user"
		other   = "repeat use"
		less    = "less"
	)
	cases := []struct {
		kind                ocp.FailureKind
		status              int
		safe, put, post, no string // for GET, PUT and DELETE, POST and PATCH, and no known tool
	}{
		{ocp.InvalidArguments, 0, correct, correct, correct, correct},
		{ocp.UnknownTool, 0, "", "", "", ""},
		{ocp.Refused, 400, correct, correct, correct, correct},
		{ocp.Refused, 401, user, user, user, user},
		{ocp.Refused, 402, user, user, user, user},
		{ocp.Refused, 403, user, user, user, user},
		{ocp.Refused, 404, find, find, find, find},
		{ocp.Refused, 405, other, other, other, other},
		{ocp.Refused, 406, other, other, other, other},
		{ocp.Refused, 407, user, user, user, user},
		{ocp.Refused, 408, same, look, look, look},
		{ocp.Refused, 409, state, state, state, state},
		{ocp.Refused, 410, find, find, find, find},
		{ocp.Refused, 412, state, state, state, state},
		{ocp.Refused, 413, correct, correct, correct, correct},
		{ocp.Refused, 415, other, other, other, other},
		{ocp.Refused, 418, correct, correct, correct, correct},
		{ocp.Refused, 422, correct, correct, correct, correct},
		{ocp.Refused, 425, same, look, look, look},
		{ocp.Refused, 429, same, same, same, same},
		{ocp.Failed, 500, same, same, look, look},
		{ocp.Failed, 501, other, other, other, other},
		{ocp.Failed, 502, same, same, look, look},
		{ocp.Failed, 503, same, same, same, same},
		{ocp.Failed, 504, same, same, look, look},
		{ocp.Unreachable, 0, same, same, look, look},
		{ocp.Unreachable, 502, same, same, look, look},
		{ocp.Unreachable, 503, same, same, look, look},
		{ocp.TimedOut, 0, same, same, look, look},
		{ocp.TimedOut, 504, same, same, look, look},
		{ocp.TooLarge, 200, less, took, took, took},
		{ocp.Unreadable, 200, other, took, took, took},
		{ocp.Redirected, 302, other, took, took, took},
		{ocp.Restricted, 0, same, same, same, same},
		{ocp.Canceled, 0, "", "", "", ""},
		{ocp.Unanswered, 0, "", "", "", ""},
		{ocp.Internal, 0, "", "", "", ""},
	}
	for _, c := range cases {
		for method, want := range map[string]string{
			"GET": c.safe, "HEAD": c.safe, "OPTIONS": c.safe, "PUT": c.put, "DELETE": c.put, "POST": c.post, "PATCH": c.post, "": c.no,
		} {
			failure := &ocp.Failure{Kind: c.kind, Status: c.status, Message: "m", RetryAfter: 2 * time.Second}
			var tool *ocp.Tool
			if method != "" {
				tool = &ocp.Tool{Name: "Add", Method: method}
			}
			x := &responseEncoder{form: otcStandard, request: &callRequest{toolID: "Calculator.Add"}}
			said := instanceOf(t, x.appendError(nil, &ocp.Outcome{Tool: tool, Failure: failure}))
			prompt, _ := said["additional_prompt_content"].(string)
			_, waits := said["retry_after_ms"]
			if !keyword.All(prompt, want) || (prompt == "") != (want == "") {
				t.Errorf("%s %d of %q says %q, want %q", c.kind, c.status, method, prompt, want)
			}
			if again := want == same; said["can_retry"] != again || waits != again || strings.Contains(prompt, "same input") != again {
				t.Errorf("%s %d of %q contradicts itself: %v", c.kind, c.status, method, said)
			}
		}
	}
}

// TestRepairHints_of_a_limit_of_an_agent wants a limit that does not pass to be final.
func TestRepairHints_of_a_limit_of_an_agent(t *testing.T) {
	x := &responseEncoder{form: otcStandard, request: &callRequest{toolID: "Calculator.Add"}}
	said := instanceOf(t, x.appendError(nil, &ocp.Outcome{Failure: &ocp.Failure{Kind: ocp.Restricted, Message: "m"}}))
	if len(said) != 2 || said["can_retry"] != false {
		t.Errorf("got %v", said)
	}
}
