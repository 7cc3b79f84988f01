package otcadapter

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/ocp/tool"
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
		kind                tool.FailureKind
		status              int
		safe, put, post, no string // for GET, PUT and DELETE, POST and PATCH, and no known tool
	}{
		{tool.InvalidArguments, 0, correct, correct, correct, correct},
		{tool.UnknownTool, 0, "", "", "", ""},
		{tool.Refused, 400, correct, correct, correct, correct},
		{tool.Refused, 401, user, user, user, user},
		{tool.Refused, 402, user, user, user, user},
		{tool.Refused, 403, user, user, user, user},
		{tool.Refused, 404, find, find, find, find},
		{tool.Refused, 405, other, other, other, other},
		{tool.Refused, 406, other, other, other, other},
		{tool.Refused, 407, user, user, user, user},
		{tool.Refused, 408, same, look, look, look},
		{tool.Refused, 409, state, state, state, state},
		{tool.Refused, 410, find, find, find, find},
		{tool.Refused, 412, state, state, state, state},
		{tool.Refused, 413, correct, correct, correct, correct},
		{tool.Refused, 415, other, other, other, other},
		{tool.Refused, 418, correct, correct, correct, correct},
		{tool.Refused, 422, correct, correct, correct, correct},
		{tool.Refused, 425, same, look, look, look},
		{tool.Refused, 429, same, same, same, same},
		{tool.Failed, 500, same, same, look, look},
		{tool.Failed, 501, other, other, other, other},
		{tool.Failed, 502, same, same, look, look},
		{tool.Failed, 503, same, same, same, same},
		{tool.Failed, 504, same, same, look, look},
		{tool.Unreachable, 0, same, same, look, look},
		{tool.Unreachable, 502, same, same, look, look},
		{tool.Unreachable, 503, same, same, look, look},
		{tool.TimedOut, 0, same, same, look, look},
		{tool.TimedOut, 504, same, same, look, look},
		{tool.TooLarge, 200, less, took, took, took},
		{tool.Unreadable, 200, other, took, took, took},
		{tool.Redirected, 302, other, took, took, took},
		{tool.Restricted, 0, same, same, same, same},
		{tool.Canceled, 0, "", "", "", ""},
		{tool.Unanswered, 0, "", "", "", ""},
		{tool.Internal, 0, "", "", "", ""},
	}
	for _, c := range cases {
		for method, want := range map[string]string{
			"GET": c.safe, "HEAD": c.safe, "OPTIONS": c.safe, "PUT": c.put, "DELETE": c.put, "POST": c.post, "PATCH": c.post, "": c.no,
		} {
			failure := &tool.Failure{Kind: c.kind, Status: c.status, Message: "m", RetryAfter: 2 * time.Second}
			var called *tool.Tool
			if method != "" {
				called = &tool.Tool{Name: "Add", Method: method}
			}
			x := &responseEncoder{form: otcStandard, request: &callRequest{toolID: "Calculator.Add"}}
			said := instanceOf(t, x.appendError(nil, &tool.Outcome{Tool: called, Failure: failure}))
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
	said := instanceOf(t, x.appendError(nil, &tool.Outcome{Failure: &tool.Failure{Kind: tool.Restricted, Message: "m"}}))
	if len(said) != 2 || said["can_retry"] != false {
		t.Errorf("got %v", said)
	}
}
