package assertion_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/internal/expr"
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
		e[name] = &expr.Node{Raw: []byte(value), Exact: true}
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

// holds is what an assertion that holds is expected to say.
const holds = ""

func TestOAgentAssertion(t *testing.T) {
	const unmet = "does not hold"
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
		{"history before the first call, an entry", `history.never[0].outputs.ok`, `because history["never"][0] is missing`},
		{"history of a name that is made up", `size(history[recent._name + "x"]) == 0`, `cannot be decided`},
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

		{"missing member", `recent.refund.outputs.status == "ok"`, `because recent["refund"].outputs.status is missing: recent.refund.outputs.status == "ok"`},
		{"missing input", `recent["refund"].inputs.reason.startsWith("x")`, `because recent["refund"].inputs.reason is missing`},
		{"missing name", `recent.never.outputs.ok`, `because recent["never"] is missing`},
		{"missing email", `user.email.endsWith("@example.com")`, `because user.email is missing`},
		{"missing item", `history.refund[3].inputs.id == 7`, `because history["refund"][3] is missing`},
		{"missing key", "recent.search-faqs.outputs[\"a b\"] == 1", `because recent["search-faqs"].outputs["a b"] is missing`},
		{"missing second", `recent.refund.inputs.id == 7 && recent.refund.inputs.to == 1`, `because recent["refund"].inputs.to is missing`},
		{"missing behind or", `(recent.refund.inputs.a == 1 || recent.refund.inputs.id == 7) && recent.refund.inputs.b == 1`, `because recent["refund"].inputs.b is missing`},
		{"missing in a loop", `history.get-booking.all(b, b.outputs.status == "ok")`, `because b.outputs.status is missing`},
		{"computed key", `recent.refund.inputs[recent._name] == 1`, `cannot be decided: no such key: refund`},
		{"not a bool", `recent.refund.inputs.id`, `cannot be decided: it must be true or false, and is a value of type int`},
		{"overload", `recent.refund.inputs.id.startsWith("a")`, `cannot be decided: no such overload`},
		{"division", `1 / (history._total - 4) == 1`, `cannot be decided: division by zero`},
		{"cost", `lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a * b * c >= 0)))`, `cannot be decided: `},

		{"compile/syntax", `recent.refund.inputs.id == `, "line 1, column 28: Syntax error"},
		{"compile/place behind a name", `recent.search-faqs.inputs.path == "" && nothing`, "line 1, column 41: there is no variable nothing"},
		{"compile/place in lines", "recent.search-faqs.inputs.path == '' &&\n  recent.search-faqs.inputs.path == nothing", "line 2, column 37: there is no variable nothing"},
		{
			"compile/variable", `usr.id == "a" && nothing`,
			"line 1, column 1: there is no variable usr; did you mean user? There are started_at, user, recent and history; line 1, column 18: there is no variable nothing. There are",
		},
		{"compile/variable inputs", `inputs.id == 1`, "there is no variable inputs: those of the call in question, or of the latest one, are recent.<tool>.inputs"},
		{"compile/variable output", `output.id == 1`, "there is no variable output: only the assertion of a guardrail has it; elsewhere write recent.<tool>.outputs"},
		{"compile/variable of a tool", `refund.inputs.id == 1`, "there is no variable refund: write recent.refund for the latest call of refund, or history.refund for all of them"},
		{"compile/function", `frob(user.id)`, "there is no function frob that is used like this"},
		{"compile/type", `history._total < 3 ? 1 : 2`, "an assertion must be true or false; this is a value of type int"},
		{"compile/unknown name", `recent.serch-faqs.inputs.path == ""`, `line 1, column 8: recent has no "serch-faqs", because the agent has no such capability, but search-faqs: one of the two may be misspelt`},
		{"compile/unknown identifier", `recent.refunds.inputs.path == ""`, `recent has no "refunds", because the agent has no such capability, but refund: one of the two may be misspelt`},
		{"compile/unknown key", `history["refunds"].size() == 1`, `history has no "refunds"`},
		{"compile/unknown in", `"refunds" in history`, `history has no "refunds"`},
		{"compile/unknown part", `recent.refund.input.id == 1`, `recent["refund"] has no "input": it has inputs and outputs`},
		{"compile/unknown own", `recent._total == 1`, `recent has no "_total": it has _name`},
		{"compile/user", `user.name == ""`, `user has no "name": it has id and email`},
		{"compile/list", `history.refund.inputs.id == 1`, `history["refund"] is a list: write history["refund"][0].inputs for the first`},
		{"compile/entry", `history.refund[0].input.id == 1`, `an entry of history["refund"] has no "input"`},
		{"compile/dotted index", `history.refund.[0].inputs.id == 7`, `line 1, column 15: an index has no dot before it: write history["name"][0]`},
		{"compile/regular expression", `user.id.matches("(")`, "missing closing )"},
		{"compile/long", strings.Repeat("true && ", 3000) + "true", "size"},
		{"compile/empty", " ", "the expression is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := assertion.Compile(assertion.Source{Expression: test.expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err == nil {
				err = a.Check(t.Context(), sample())
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			if test.want == holds && err != nil || test.want != holds && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
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
		if !ok || got.Rule != want.Rule || got.Missing != want.Missing || got.Expression != expression {
			t.Errorf("%s: %+v", expression, got)
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
	if !errors.Is(err, context.Canceled) || !expr.IsInterrupted(err) {
		t.Errorf("got %v", err)
	}
}

func TestOAgentGuardrail(t *testing.T) {
	const unmet = "does not hold"
	for _, test := range []struct {
		name, expression, output, want string
	}{
		{"output", `output.flagged == false`, `{"flagged":false}`, holds},
		{"output false", `output.flagged == false`, `{"flagged":true}`, unmet},
		{"member", `!flagged && score < 0.5`, ` {"flagged":false,"score":0.25} `, holds},
		{"member called output", `output.output == 1`, `{"output":1}`, holds},
		{"member called output is not the output", `output.ok`, `{"output":{"ok":true}}`, "because output.ok is missing"},
		{"not an object", `output == "safe"`, `"safe"`, holds},
		{"list", `output.all(o, o.safe)`, `[{"safe":true}]`, holds},
		{"list of members", `results.all(r, r.safe)`, `{"results":[{"safe":true},{"safe":false}]}`, unmet},
		{"missing", `output.flagged == false`, `{}`, "because output.flagged is missing"},
		{"missing member", `flagged == false`, `{"Flagged":false}`, "because flagged is missing"},
		{"missing in a list", `flagged == false`, `[]`, "because flagged is missing"},
		{"null", `!flagged`, `{"flagged":null}`, "cannot be decided: no such overload"},
		{"not a bool", `flagged`, `{"flagged":"false"}`, "it must be true or false, and is a value of type string"},
		{"nothing", `output == null`, ``, "the output of the tool is no JSON"},
		{"no JSON", `output != ""`, `safe`, "the output of the tool is no JSON"},
		{"twice", `safe`, `{"safe":false,"safe":true}`, "the output of the tool is no JSON"},
		{"the Engagement is not there", `history._total < 3`, `{"flagged":false}`, "because history is missing"},
		{"type", `size(output)`, `{}`, "an assertion must be true or false; this is a value of type int"},
		{"syntax", `output.[0]`, `{}`, "an index has no dot before it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := assertion.CompileOutput(assertion.Source{Expression: test.expression, Rule: "guardrails.input.assertion"})
			if err == nil {
				err = a.CheckOutput(t.Context(), []byte(test.output))
			}
			if test.want == holds && err != nil || test.want != holds && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestReads(t *testing.T) {
	for expression, want := range map[string]assertion.Reads{
		`true`:                         {},
		`recent._name == "a"`:          {Last: true},
		`history._total < 3`:           {Total: true},
		`"never" in history._list`:     {List: true},
		`started_at < timestamp(0)`:    {Started: true},
		`user.email == ""`:             {User: true},
		`recent.refund.inputs.id == 1`: {Inputs: []string{"refund"}},
		`recent["refund"].outputs.ok && recent.search-faqs.inputs.a`: {Inputs: []string{"search-faqs"}, Outputs: []string{"refund"}},
		`has(recent.refund)`:                                   {Inputs: []string{"refund"}},
		`has(recent.refund.outputs)`:                           {Outputs: []string{"refund"}},
		`recent.?refund.?outputs.ok.orValue(false)`:            {Outputs: []string{"refund"}},
		`recent.refund == {}`:                                  {Inputs: []string{"refund"}, Outputs: []string{"refund"}},
		`"refund" in recent`:                                   {Inputs: []string{"refund"}},
		`"refund" in history`:                                  {Counts: []string{"refund"}},
		`has(history.refund)`:                                  {Counts: []string{"refund"}},
		`history.refund.size() < 3 && size(history.never) < 1`: {Counts: []string{"never", "refund"}},
		`history.refund[history.refund.size() - 1].inputs.a`:   {History: []string{"refund"}},
		`history.get_booking.all(b, b.inputs.id == 1)`:         {History: []string{"get-booking"}},
		`recent[recent._name].inputs.ok`:                       {All: true, Last: true},
		`history._list.all(n, history[n].size() < 3)`:          {All: true, List: true},
		`[recent].all(r, r.never.inputs.ok)`:                   {All: true},
		`history == {}`:                                        {All: true},
		`[{"a": 1}].all(recent, recent.a == 1)`:                {All: true},
	} {
		t.Run(expression, func(t *testing.T) {
			a, err := assertion.Compile(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err != nil {
				t.Fatal(err)
			}
			if got := normalize(a.Reads()); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// normalize makes empty lists nil.
func normalize(r assertion.Reads) assertion.Reads {
	for _, names := range []*[]string{&r.Inputs, &r.Outputs, &r.History, &r.Counts} {
		if len(*names) == 0 {
			*names = nil
		}
	}
	return r
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
		`recent.never.outputs.id`:                           `rule cannot be decided, because recent["never"] is missing: recent.never.outputs.id`,
		`1.0 / 0.0`:                                         `rule cannot be decided: the number is not finite, which JSON does not support: 1.0 / 0.0`,
		`lists.range(1000).map(x, lists.range(100))`:        `rule cannot be decided: the value has more than 65537 bytes: lists.range(1000).map(x, lists.range(100))`,
	} {
		t.Run(expression, func(t *testing.T) {
			s, err := assertion.CompileSelection(assertion.Source{Expression: expression, Rule: "rule"}, assertion.NewNames(capabilities))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Append(t.Context(), []byte("="), sample())
			if err != nil {
				if err.Error() != want || string(got) != "=" {
					t.Errorf("got %s, %v\nwant %s", got, err, want)
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
				e[name] = expr.Adapter{}.NativeToValue(value)
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
