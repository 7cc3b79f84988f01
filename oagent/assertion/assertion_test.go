package assertion_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/assertion"
)

// An engagement is JSON of user, recent and history, as assertions see it.
type engagement map[string]any

func (e engagement) ResolveName(name string) (any, bool) {
	value, ok := e[name]
	return value, ok
}

func (e engagement) Parent() assertion.Variables { return nil }

func read(members map[string]string) engagement {
	e := engagement{"started_at": types.Timestamp{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	for name, value := range members {
		e[name] = &celenv.Node{Raw: []byte(value), Exact: true}
	}
	return e
}

// sample is an Engagement in which refund is about to be invoked.
func sample() engagement {
	return read(map[string]string{
		"user": `{"id":"u1"}`,
		"recent": `{"_name":"refund",
			"search-faqs":{"inputs":{"path":"public/a"},"outputs":{"hits":[{"score":0.5}],"big":12345678901234567890}},
			"refund":{"inputs":{"id":7,"amount":20},"outputs":null},
			"trains.get-trip":{"inputs":{},"outputs":{"on-time":true}}}`,
		"history": `{"_total":4,"_list":["search-faqs","get-booking","trains.get-trip","refund"],
			"search-faqs":[{"inputs":{"path":"public/a"},"outputs":{}}],
			"get-booking":[{"inputs":{"id":7},"outputs":{"state":"cancelled"}}],
			"refund":[{"inputs":{"id":7,"amount":20},"outputs":null}]}`,
	})
}

var capabilities = []string{"search-faqs", "search", "get-booking", "refund", "trains.get-trip", "in", "never"}

// Outcomes that a test expects of an assertion. Any other text is a list of words in the error
// of the compiler.
const (
	holds     = ""           // the assertion is true
	unmet     = "unmet"      // the assertion is false
	missing   = "missing "   // a value is missing; its path follows
	undecided = "undecided " // the evaluation fails; words in its cause follow
)

// checkFailure checks that an error is the expected outcome.
func checkFailure(t *testing.T, err error, want string) {
	t.Helper()
	failure, evaluated := errors.AsType[*assertion.Error](err)
	var ok bool
	if path, is := strings.CutPrefix(want, missing); is {
		ok = evaluated && failure.Missing == path && strings.Contains(err.Error(), path)
	} else if words, is := strings.CutPrefix(want, undecided); is {
		ok = evaluated && failure.Missing == "" && failure.Cause != nil && testkit.ContainsAll(failure.Cause.Error(), words)
	} else {
		switch want {
		case holds:
			ok = err == nil
		case unmet:
			ok = evaluated && failure.Missing == "" && failure.Cause == nil
		default:
			ok = err != nil && !evaluated && testkit.ContainsAll(err.Error(), want)
		}
	}
	if !ok {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestOAgentAssertion(t *testing.T) {
	for _, test := range []struct {
		name, expression, want string
	}{
		{"name", `recent._name == "refund"`, holds},
		{"total", `history._total < 5`, holds},
		{"total false", `history._total < 4`, unmet},
		{"list", `history._list[3] == "refund" && size(history._list) == 4`, holds},
		{"started", `started_at < timestamp("2026-06-01T00:00:00Z")`, holds},
		{"user", `user.id == "u1" && !has(user.email)`, holds},
		{"hyphens", `recent.search-faqs.inputs["path"].startsWith("public")`, holds},
		{"hyphens as a key", `recent["search-faqs"].inputs.path.startsWith("public")`, holds},
		{"hyphens escaped", "recent.`search-faqs`.inputs.path.startsWith(\"public\")", holds},
		{"underscores", `recent.search_faqs.inputs.path.startsWith("public")`, holds},
		{"longest", `recent.search-faqs.inputs.path != "" && !has(recent.search)`, holds},
		{"toolset", "recent.trains.get-trip.outputs.`on-time`", holds},
		{"reserved word", `!has(recent.in)`, holds},
		{"history of hyphens", `history.get-booking[0].outputs.state == "cancelled"`, holds},
		{"history of underscores", `history.get_booking.map(b, b.inputs.id) == [7]`, holds},
		{"history and recent", `history.get-booking.exists(b, b.inputs.id == recent.refund.inputs.id)`, holds},
		{"size", `history.refund.size() == 1 && size(history.search-faqs) == 1`, holds},
		{"presence", `has(recent.search-faqs) && has(recent.search-faqs.outputs.hits)`, holds},
		{"in", `"search-faqs" in recent && "search-faqs" in history`, holds},
		{"history before the first call", `history.never == [] && size(history.never) <= 20 && !history.never.exists(n, n.outputs.ok) && history.never.map(n, n.inputs.id) == []`, holds},
		{"history before the first call, whether it was made", `!has(history.never) && !("never" in history) && history.?never.orValue([1]) == [1] && !history.?never.hasValue()`, holds},
		{"history before the first call, in a loop", `[1].all(i, history.never.size() < i)`, holds},
		{"history in a loop of that name", `[{"never": [1]}].all(history, history.never == [1])`, holds},
		{"history before the first call, an entry", `history.never[0].outputs.ok`, missing + `history["never"][0]`},
		{"history of a name that is made up", `size(history[recent._name + "x"]) == 0`, undecided + "such key"},
		{"optional", `recent.?never.outputs.ok.orValue(true)`, holds},
		{"optional hyphens", `recent.?search-faqs.inputs.path.orValue("") == "public/a"`, holds},
		{"whole and fraction", `recent.refund.inputs.amount <= 20.0 && recent.search-faqs.outputs.hits[0].score == 0.5`, holds},
		{"big number", `recent.search-faqs.outputs.big == "12345678901234567890"`, holds},
		{"subtraction", `history._total-1 == 3 && history._total -1 == 3`, holds},
		{"literals", `"recent.search-faqs" + r'\' == 'recent.search-faqs\\' && size(b'recent.search-faqs') == 18 // recent.nothing-at-all`, holds},
		{"text", `'''recent.search-faqs "''' == "recent.search-faqs \"" // recent.nothing-at-all`, holds},
		{"extensions", `recent.search-faqs.inputs.path.split("/")[0].upperAscii() == "PUBLIC" && math.greatest(1, 2) == 2 && lists.range(2) == [0, 1] && base64.encode(b"a") == "YQ=="`, holds},
		{"pending outputs", `recent.refund.outputs == null`, holds},
		{"false", `false`, unmet},

		{"missing member", `recent.refund.outputs.status == "ok"`, missing + `recent["refund"].outputs.status`},
		{"missing input", `recent["refund"].inputs.reason.startsWith("x")`, missing + `recent["refund"].inputs.reason`},
		{"missing name", `recent.never.outputs.ok`, missing + `recent["never"]`},
		{"missing email", `user.email.endsWith("@example.com")`, missing + `user.email`},
		{"missing item", `history.refund[3].inputs.id == 7`, missing + `history["refund"][3]`},
		{"missing key", "recent.search-faqs.outputs[\"a b\"] == 1", missing + `recent["search-faqs"].outputs["a b"]`},
		{"missing second", `recent.refund.inputs.id == 7 && recent.refund.inputs.to == 1`, missing + `recent["refund"].inputs.to`},
		{"missing behind or", `(recent.refund.inputs.a == 1 || recent.refund.inputs.id == 7) && recent.refund.inputs.b == 1`, missing + `recent["refund"].inputs.b`},
		{"missing in a loop", `history.get-booking.all(b, b.outputs.status == "ok")`, missing + "b.outputs.status"},
		{"computed key", `recent.refund.inputs[recent._name] == 1`, undecided + "key: refund"},
		{"not a bool", `recent.refund.inputs.id`, undecided + "true false int"},
		{"overload", `recent.refund.inputs.id.startsWith("a")`, undecided + "overload"},
		{"division", `1 / (history._total - 4) == 1`, undecided + "division zero"},
		{"cost", `lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a * b * c >= 0)))`, undecided},

		{"compile/syntax", `recent.refund.inputs.id == `, "1, 28: Syntax"},
		{"compile/place behind a name", `recent.search-faqs.inputs.path == "" && nothing`, "1, 41: variable nothing"},
		{"compile/place in lines", "recent.search-faqs.inputs.path == '' &&\n  recent.search-faqs.inputs.path == nothing", "2, 37: variable nothing"},
		{
			"compile/variable", `usr.id == "a" && nothing`,
			"1, 1: variable usr user? started_at recent history 18: nothing",
		},
		{"compile/variable inputs", `inputs.id == 1`, "variable inputs recent.<tool>.inputs"},
		{"compile/variable output", `output.id == 1`, "variable output guardrail recent.<tool>.outputs"},
		{"compile/variable of a tool", `refund.inputs.id == 1`, "variable refund recent.refund history.refund"},
		{"compile/function", `frob(user.id)`, "function frob"},
		{"compile/type", `history._total < 3 ? 1 : 2`, "true false int"},
		{"compile/unknown name", `recent.serch-faqs.inputs.path == ""`, "1, 8: recent serch-faqs capability search-faqs?"},
		{"compile/unknown identifier", `recent.refunds.inputs.path == ""`, "recent refunds capability refund?"},
		{"compile/unknown key", `history["refunds"].size() == 1`, "history refunds capability refund?"},
		{"compile/unknown in", `"refunds" in history`, "history refunds capability refund?"},
		{"compile/unknown part", `recent.refund.input.id == 1`, `recent["refund"] input inputs outputs`},
		{"compile/unknown own", `recent._total == 1`, "recent _total _name"},
		{"compile/user", `user.name == ""`, "user name id email"},
		{"compile/list", `history.refund.inputs.id == 1`, `list history["refund"][0].inputs`},
		{"compile/entry", `history.refund[0].input.id == 1`, `entry history["refund"] input inputs outputs`},
		{"compile/dotted index", `history.refund.[0].inputs.id == 7`, `1, 15: dot index history["name"][0]`},
		{"compile/regular expression", `user.id.matches("(")`, "closing )"},
		{"compile/long", strings.Repeat("true && ", 3000) + "true", "size"},
		{"compile/empty", " ", "empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := assertion.Compile(assertion.Source{Expression: test.expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err == nil {
				err = a.Check(t.Context(), sample())
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			checkFailure(t, err, test.want)
		})
	}
}

func TestAssertionError(t *testing.T) {
	for expression, want := range map[string]assertion.Error{
		`history._total > 10`:          {Rule: "rule"},
		`recent.never.outputs.x == 1`:  {Rule: "rule", Missing: `recent["never"]`},
		`1 / (history._total - 4) > 0`: {Rule: "rule"},
	} {
		a, err := assertion.Compile(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := errors.AsType[*assertion.Error](a.Check(t.Context(), sample()))
		if !ok {
			t.Fatalf("%s: got no assertion.Error", expression)
		}
		if got, want := [...]string{got.Rule, got.Missing, got.Expression}, [...]string{want.Rule, want.Missing, expression}; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if decided := strings.Contains(expression, "10"); (got.Cause == nil) != decided {
			t.Errorf("%s: cause %v", expression, got.Cause)
		}
	}
}

// An evaluation ends with its context.
func TestAssertionInterrupted(t *testing.T) {
	a, err := assertion.Compile(assertion.Source{Expression: `history._list.all(n, n.lowerAscii() != "")`, Rule: "rule"}, assertion.NewNames(nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = a.Check(ctx, sample())
	if !errors.Is(err, context.Canceled) || !celenv.IsInterrupted(err) {
		t.Errorf("got %v", err)
	}
}

func TestOAgentGuardrail(t *testing.T) {
	for _, test := range []struct {
		name, expression, output, want string
	}{
		{"output", `output.flagged == false`, `{"flagged":false}`, holds},
		{"output false", `output.flagged == false`, `{"flagged":true}`, unmet},
		{"member", `!flagged && score < 0.5`, ` {"flagged":false,"score":0.25} `, holds},
		{"member called output", `output.output == 1`, `{"output":1}`, holds},
		{"member called output is not the output", `output.ok`, `{"output":{"ok":true}}`, missing + "output.ok"},
		{"not an object", `output == "safe"`, `"safe"`, holds},
		{"list", `output.all(o, o.safe)`, `[{"safe":true}]`, holds},
		{"list of members", `results.all(r, r.safe)`, `{"results":[{"safe":true},{"safe":false}]}`, unmet},
		{"missing", `output.flagged == false`, `{}`, missing + "output.flagged"},
		{"missing member", `flagged == false`, `{"Flagged":false}`, missing + "flagged"},
		{"missing in a list", `flagged == false`, `[]`, missing + "flagged"},
		{"null", `!flagged`, `{"flagged":null}`, undecided + "overload"},
		{"not a bool", `flagged`, `{"flagged":"false"}`, undecided + "true false string"},
		{"nothing", `output == null`, ``, undecided + "output JSON"},
		{"no JSON", `output != ""`, `safe`, undecided + "output JSON"},
		{"twice", `safe`, `{"safe":false,"safe":true}`, undecided + "output JSON"},
		{"the Engagement is not there", `history._total < 3`, `{"flagged":false}`, missing + "history"},
		{"type", `size(output)`, `{}`, "true false int"},
		{"syntax", `output.[0]`, `{}`, "dot index"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := assertion.CompileOutput(assertion.Source{Expression: test.expression, Rule: "guardrails.input.assertion"})
			if err == nil {
				err = a.CheckOutput(t.Context(), []byte(test.output))
			}
			checkFailure(t, err, test.want)
		})
	}
}

func TestCompile_accepts_paths_of_an_Engagement(t *testing.T) {
	for _, expression := range []string{
		`true`,
		`recent._name == "a"`,
		`history._total < 3`,
		`"never" in history._list`,
		`started_at < timestamp(0)`,
		`user.email == ""`,
		`recent.refund.inputs.id == 1`,
		`recent["refund"].outputs.ok && recent.search-faqs.inputs.a`,
		`has(recent.refund)`,
		`has(recent.refund.outputs)`,
		`recent.?refund.?outputs.ok.orValue(false)`,
		`recent.refund == {}`,
		`"refund" in recent`,
		`"refund" in history`,
		`has(history.refund)`,
		`history.refund.size() < 3 && size(history.never) < 1`,
		`history.refund[history.refund.size() - 1].inputs.a`,
		`history.get_booking.all(b, b.inputs.id == 1)`,
		`recent[recent._name].inputs.ok`,
		`history._list.all(n, history[n].size() < 3)`,
		`[recent].all(r, r.never.inputs.ok)`,
		`history == {}`,
		`[{"a": 1}].all(recent, recent.a == 1)`,
	} {
		t.Run(expression, func(t *testing.T) {
			if _, err := assertion.Compile(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOAgentSelection(t *testing.T) {
	for expression, want := range map[string]string{
		`recent.search-faqs.inputs["path"]`:                 `"public/a"`,
		`history.get-booking.map(b, b.inputs.id)`:           `[7]`,
		`history.search-faqs.map(s, [s.inputs.path, 1, 2])`: `[["public/a",1,2]]`,
		`recent.search-faqs.outputs`:                        `{"hits":[{"score":0.5}],"big":12345678901234567890}`,
		`recent.refund.outputs`:                             `null`,
		`recent.?never.outputs`:                             `null`,
		`started_at`:                                        `"2026-01-01T00:00:00Z"`,
		`{"b": history._total, "a": 1.5}`:                   `{"a":1.5,"b":4}`,
		`recent.never.outputs.id`:                           missing + `recent["never"]`,
		`1.0 / 0.0`:                                         undecided + "finite",
		`lists.range(1000).map(x, lists.range(100))`:        undecided + "65537",
	} {
		t.Run(expression, func(t *testing.T) {
			s, err := assertion.CompileSelection(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Append(t.Context(), []byte("="), sample())
			if err != nil {
				checkFailure(t, err, want)
				if string(got) != "=" || !testkit.ContainsAll(err.Error(), "rule "+expression) {
					t.Errorf("got %s, %v", got, err)
				}
				return
			}
			if string(got) != "="+want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func BenchmarkAssertion(b *testing.B) {
	for _, expression := range []string{
		`history._total < 100`,
		`recent.search-faqs.inputs["path"].startsWith("public")`,
		`recent.refund.inputs.amount <= 100 && recent._name == "refund" && user.id != ""`,
		`history.refund.size() < 3`,
		`history.get-booking.exists(b, b.inputs.id == recent.refund.inputs.id)`,
		`history._list.filter(n, n == "refund").size() < 3`,
	} {
		b.Run(strings.ReplaceAll(expression, " ", ""), func(b *testing.B) {
			a, err := assertion.Compile(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err != nil {
				b.Fatal(err)
			}
			// What is read was read before, so that the assertion alone is measured.
			e := sample()
			for name, value := range e {
				e[name] = celenv.Adapter{}.NativeToValue(value)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := a.Check(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
