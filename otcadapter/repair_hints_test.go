package otcadapter

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
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
		kind                tools.FailureKind
		status              int
		safe, put, post, no string // for GET, PUT and DELETE, POST and PATCH, and no known tool
	}{
		{tools.InvalidArguments, 0, correct, correct, correct, correct},
		{tools.UnknownTool, 0, "", "", "", ""},
		{tools.Refused, 400, correct, correct, correct, correct},
		{tools.Refused, 401, user, user, user, user},
		{tools.Refused, 402, user, user, user, user},
		{tools.Refused, 403, user, user, user, user},
		{tools.Refused, 404, find, find, find, find},
		{tools.Refused, 405, other, other, other, other},
		{tools.Refused, 406, other, other, other, other},
		{tools.Refused, 407, user, user, user, user},
		{tools.Refused, 408, same, look, look, look},
		{tools.Refused, 409, state, state, state, state},
		{tools.Refused, 410, find, find, find, find},
		{tools.Refused, 412, state, state, state, state},
		{tools.Refused, 413, correct, correct, correct, correct},
		{tools.Refused, 415, other, other, other, other},
		{tools.Refused, 418, correct, correct, correct, correct},
		{tools.Refused, 422, correct, correct, correct, correct},
		{tools.Refused, 425, same, look, look, look},
		{tools.Refused, 429, same, same, same, same},
		{tools.Failed, 500, same, same, look, look},
		{tools.Failed, 501, other, other, other, other},
		{tools.Failed, 502, same, same, look, look},
		{tools.Failed, 503, same, same, same, same},
		{tools.Failed, 504, same, same, look, look},
		{tools.Unreachable, 0, same, same, look, look},
		{tools.Unreachable, 502, same, same, look, look},
		{tools.Unreachable, 503, same, same, look, look},
		{tools.TimedOut, 0, same, same, look, look},
		{tools.TimedOut, 504, same, same, look, look},
		{tools.TooLarge, 200, less, took, took, took},
		{tools.Unreadable, 200, other, took, took, took},
		{tools.Redirected, 302, other, took, took, took},
		{tools.Restricted, 0, same, same, same, same},
		{tools.Canceled, 0, "", "", "", ""},
		{tools.Unanswered, 0, "", "", "", ""},
		{tools.Internal, 0, "", "", "", ""},
	}
	for _, c := range cases {
		for method, want := range map[string]string{
			"GET": c.safe, "HEAD": c.safe, "OPTIONS": c.safe, "PUT": c.put, "DELETE": c.put, "POST": c.post, "PATCH": c.post, "": c.no,
		} {
			failure := &tools.Failure{Kind: c.kind, Status: c.status, Message: "m", RetryAfter: 2 * time.Second}
			var called *tools.Tool
			if method != "" {
				called = &tools.Tool{Name: "Add", Plan: tools.Plan{Method: method}}
			}
			x := &responseEncoder{form: otcStandard, request: &callRequest{toolID: "Calculator.Add"}}
			said := instanceOf(t, x.appendError(nil, &tools.Outcome{Tool: called, Failure: failure}))
			prompt, _ := said["additional_prompt_content"].(string)
			_, waits := said["retry_after_ms"]
			if !testkit.ContainsAll(prompt, want) || (prompt == "") != (want == "") {
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
	said := instanceOf(t, x.appendError(nil, &tools.Outcome{Failure: &tools.Failure{Kind: tools.Restricted, Message: "m"}}))
	if len(said) != 2 || said["can_retry"] != false {
		t.Errorf("got %v", said)
	}
}
