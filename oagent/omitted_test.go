package oagent_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// messages returns the messages of a refusal: that for the agent, and that of the
// record.
func messages(t *testing.T, g *oagent.Guard, a *oagent.Agent, err error) (message, why string) {
	t.Helper()
	r, ok := engagement.AsRefusal(err)
	if !ok {
		t.Fatalf("not a refusal: %v", err)
	}
	b := binding(a)
	entries := audit(t, g, b.Key())
	return r.Message, entries[len(entries)-1].Why
}

// checkMessages checks that both messages of a refusal contain the words.
func checkMessages(t *testing.T, g *oagent.Guard, a *oagent.Agent, err error, words string) {
	t.Helper()
	message, why := messages(t, g, a, err)
	if !testkit.ContainsAll(message, words) || !testkit.ContainsAll(why, words) {
		t.Errorf("want %q in the message\n%s\nand in the record\n%s", words, message, why)
	}
}

const lookingBack = `
capabilities:
  size: {}
  act:
    input_restriction: {assertion: recent.size.outputs.id == "z"}
  look:
    input_restriction: {assertion: recent.size.inputs.id == "z"}
  search:
    input_restriction: {assertion: 'history.size.exists(s, s.outputs.id == "z")'}
`

// TestOmitted_value_reported checks that the refusal by an assertion that reads an omitted
// value names the value, the reason, and the limit.
func TestOmitted_value_reported(t *testing.T) {
	large := `{"id":"z","pad":"` + strings.Repeat("a", 70_000) + `"}`
	a := agent(t, lookingBack)
	for _, test := range []struct {
		name, call, inputs, outputs string
		options                     oagent.GuardOptions
		words                       string
	}{
		{"outputs", "act", `{}`, large, oagent.GuardOptions{}, `recent["size"].outputs large 64 KiB max_recorded`},
		{"inputs", "look", large, `{}`, oagent.GuardOptions{}, `recent["size"].inputs large 64 KiB max_recorded`},
		{"in a loop", "search", `{}`, large, oagent.GuardOptions{}, "large 64 KiB max_recorded"},
		{"another limit", "act", `{}`, `{"id":"zz"}`, oagent.GuardOptions{MaxPayload: 10}, "10 B max_recorded"},
		{"a full record", "act", `{}`, `{"id":"zzzzz"}`, oagent.GuardOptions{MaxRecord: 10}, `recent["size"].outputs record 10 B another Engagement`},
		{"no strict JSON", "act", `{}`, `{"id":"z","id":"z"}`, oagent.GuardOptions{}, `recent["size"].outputs JSON invalid duplicate`},
		{"no JSON", "act", `{}`, string(engagement.Omitted{Bytes: 4, Why: engagement.OmittedForm}.JSON()), oagent.GuardOptions{}, `recent["size"].outputs neither JSON _media_type _bytes`},
		{"a part", "act", `{}`, string(engagement.Omitted{Bytes: 4, Why: engagement.OmittedPart}.JSON()), oagent.GuardOptions{}, `recent["size"].outputs (206)`},
		{"a stream", "act", `{}`, string(engagement.Omitted{Bytes: 4, Why: engagement.OmittedStream}.JSON()), oagent.GuardOptions{}, `recent["size"].outputs stream`},
		{"an encoding", "act", `{}`, string(engagement.Omitted{Bytes: 4, Why: engagement.OmittedEncoding}.JSON()), oagent.GuardOptions{}, `recent["size"].outputs encoding`},
		{"too large to be inspected", "act", `{}`, string(engagement.Omitted{Bytes: 4, Why: engagement.OmittedAnswer, Limit: 1 << 20}.JSON()), oagent.GuardOptions{}, "1.0 MiB max_output"},
		{"of an earlier version", "act", `{}`, `{"_shed":4}`, oagent.GuardOptions{}, `recent["size"].outputs not record`},
		{"of another user", "act", `{}`, `{"_shed":"x","_why":{}}`, oagent.GuardOptions{}, `recent["size"].outputs not record`},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGuard(t, test.options)
			want(t, "size", outcomeOf(t, g, call(a, "size", test.inputs), test.outputs), "")
			_, err := g.Begin(t.Context(), call(a, test.call, `{}`))
			checkMessages(t, g, a, err, test.words)
			if message, _ := messages(t, g, a, err); strings.Contains(message, "missing") {
				t.Errorf("something is missing: %s", message)
			}
		})
	}
	t.Run("within a limit that was raised", func(t *testing.T) {
		g := newGuard(t, oagent.GuardOptions{MaxPayload: oagent.LargestMaxPayload})
		want(t, "size", outcomeOf(t, g, call(a, "size", large), large), "")
		for _, name := range []string{"act", "look", "search"} {
			want(t, name, outcomeOf(t, g, call(a, name, `{}`), `{}`), "")
		}
	})
	t.Run("the largest payloads have room in the store", func(t *testing.T) {
		largest := jsontext.Value(`{"pad":"` + strings.Repeat("a", oagent.LargestMaxPayload-len(`{"pad":""}`)) + `"}`)
		a := agent(t, "capabilities:\n  act:\n    output_restriction: {require_review: boss}\n")
		g := newGuard(t, oagent.GuardOptions{MaxPayload: 2 * oagent.LargestMaxPayload})
		c := call(a, "act", string(largest))
		want(t, "a review of both", outcomeOf(t, g, c, string(largest)), engagement.KindReviewPending)
		decide(t, g, pending(t, g).ID, true)
		ticket, err := g.Begin(t.Context(), c)
		if err != nil || ticket.Replayed == nil || len(ticket.Replayed.Outputs) != len(largest) {
			t.Errorf("the result that was held: %v", err)
		}
	})
	t.Run("a result that cannot be shown to a reviewer", func(t *testing.T) {
		a := agent(t, "capabilities:\n  act:\n    output_restriction: {require_review: boss}\n")
		g := newGuard(t, oagent.GuardOptions{})
		ticket, err := g.Begin(t.Context(), call(a, "act", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		err = ticket.Finish(t.Context(), engagement.Omitted{Bytes: 7, Why: engagement.OmittedPart}.JSON(), 206)
		checkMessages(t, g, a, err, "(206)")
	})
}

// TestLarge_number_reported checks that the refusal by an assertion that compares a number
// beyond 64 bits names the number and the conversion that is missing.
func TestLarge_number_reported(t *testing.T) {
	const big = `{"n":12345678901234567890,"l":[-12345678901234567890],"text":"abc","none":null}`
	for expression, words := range map[string]string{
		`recent.act.inputs.n > 5`:              `64 string double(recent["act"].inputs.n)`,
		`recent.act.inputs.n + 1 > 5`:          `64 recent["act"].inputs.n`,
		`recent.act.inputs.l[0] < 5`:           `64 recent["act"].inputs.l[0]`,
		`recent.act.inputs.l.exists(x, x > 5)`: "types digits double(…)",
		`recent.act.inputs.text > 5`:           "types string",
		`recent.act.inputs.none > 5`:           "types null",
		`recent.act.inputs.none.x > 5`:         `recent["act"].inputs.none.x missing`,
	} {
		t.Run(expression, func(t *testing.T) {
			a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: '"+expression+"'\n")
			g := newGuard(t, oagent.GuardOptions{})
			_, err := g.Begin(t.Context(), call(a, "act", big))
			checkMessages(t, g, a, err, words)
			if message, _ := messages(t, g, a, err); strings.Contains(message, "12345678901234567890") || strings.Contains(message, "abc") {
				t.Errorf("it quotes a value: %s", message)
			}
		})
	}
	a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: double(recent.act.inputs.n) > 5.0 && recent.act.inputs.n == \"12345678901234567890\"\n")
	want(t, "as a double, or as a text", outcomeOf(t, newGuard(t, oagent.GuardOptions{}), call(a, "act", big), `{}`), "")
}

// TestLarge_value_reported checks that the refusal by an assertion that reads a text or a list
// beyond the limit names the limit.
func TestLarge_value_reported(t *testing.T) {
	long := `{"text":"` + strings.Repeat("a", 70_000) + `","list":[` + strings.Repeat("1,", 10_000) + `1]}`
	for expression, word := range map[string]string{
		`recent.act.inputs.text == "a"`:      "large text 65536",
		`recent.act.inputs.list.size() == 1`: "large list",
	} {
		a := agent(t, "capabilities:\n  act:\n    input_restriction:\n      assertion: '"+expression+"'\n")
		_, err := newGuard(t, oagent.GuardOptions{MaxPayload: 1 << 20}).Begin(t.Context(), call(a, "act", long))
		if r, ok := engagement.AsRefusal(err); !ok || !testkit.ContainsAll(r.Message, word) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
