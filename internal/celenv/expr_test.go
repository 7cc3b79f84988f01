package celenv_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func environment(t *testing.T, limits celenv.Limits) *celenv.Environment {
	t.Helper()
	env, err := celenv.New(limits, celenv.Variable{Name: "v", Type: cel.DynType})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func activation(t *testing.T, v any) cel.Activation {
	t.Helper()
	a, err := interpreter.NewActivation(map[string]any{"v": v})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNode(t *testing.T) {
	env := environment(t, celenv.Limits{Cost: 1000})
	for _, test := range []struct {
		json, expression string
		exact            bool
	}{
		{`{"a":{"b":[1,2.5,"x",null,true]}}`, `v.a.b == [1, 2.5, "x", null, true]`, false},
		{`9223372036854775807`, `v == 9223372036854775807`, true},
		{`9223372036854775808`, `v == 9223372036854775808u`, false},
		{`9223372036854775808`, `v == "9223372036854775808"`, true},
		{`-9223372036854775809`, `v == "-9223372036854775809"`, true},
		{`[123456789012345678901234567890]`, `v[0] == "123456789012345678901234567890"`, true},
		{`{"a":[1e3]}`, `v.a[0] == 1000`, true},
		{`1e30`, `v == 1e30`, true},
		{`{"\u0061":1}`, `v.a == 1`, false},
		{`"\u00e9\n"`, `v == "é\n"`, false},
		{`{"a":1,"b":2}`, `v == {"b": 2, "a": 1} && size(v) == 2 && "a" in v && !("c" in v)`, false},
		{`{"a":1,"b":2}`, `v.b == 2 && v.b == 2 && v.a == 1 && v.b == 2 && !has(v.c)`, false},
		{`{"a":1,"b":2}`, `!has(v.c) && v.a == 1 && size(v) == 2`, false},
		{`{"\u0061":{"b":1}}`, `v.a.b == 1 && !("" in v) && v.a == {"b": 1}`, false},
		{`{}`, `!has(v.a) && !has(v.b) && size(v) == 0`, false},
	} {
		p, err := env.Compile(test.expression)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Evaluate(activation(t, &celenv.Node{Raw: []byte(test.json), Exact: test.exact}))
		if err != nil || got != types.True {
			t.Errorf("%s of %s: %v, %v", test.expression, test.json, got, err)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	env := environment(t, celenv.Limits{Cost: 100_000})
	for expression, want := range map[string]string{
		`{"b": [1, 2u, 1.5], "a": null}`: `{"a":null,"b":[1,2,1.5]}`,
		`b"a"`:                           `"YQ=="`,
		`duration("90s")`:                `"90s"`,
		`timestamp(0)`:                   `"1970-01-01T00:00:00Z"`,
		`v`:                              `{"z": 1, "a" : 12345678901234567890}`,
		`[v.a]`:                          `["12345678901234567890"]`,
	} {
		p, err := env.Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		value, err := p.Evaluate(activation(t, &celenv.Node{Raw: []byte(`{"z": 1, "a" : 12345678901234567890}`), Exact: true}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := celenv.AppendJSON(nil, value, 100)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", expression, got, err)
		}
	}
	deep := types.DefaultTypeAdapter.NativeToValue([]string{"a"})
	for range 40 {
		deep = types.DefaultTypeAdapter.NativeToValue([]ref.Val{deep})
	}
	for name, test := range map[string]struct {
		value ref.Val
		want  error
	}{
		"size":  {types.String(strings.Repeat("a", 100)), celenv.ErrSize},
		"depth": {deep, celenv.ErrNoJSON},
		"nan":   {types.Double(0).Divide(types.Double(0)), celenv.ErrNoJSON},
		"keys":  {types.DefaultTypeAdapter.NativeToValue(map[int]string{1: "a"}), celenv.ErrNoJSON},
		"type":  {types.StringType, celenv.ErrNoJSON},
		"error": {types.WrapErr(celenv.ErrListTooLong), celenv.ErrListTooLong},
	} {
		if _, err := celenv.AppendJSON(nil, test.value, 100); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	env := environment(t, celenv.Limits{Cost: 1000})
	for expression, want := range map[string][]string{
		`v.a == b.c && size(d) > 0`:                  {"b", "d"},
		`v.all(x, x == y) && int("1") == 1 && y`:     {"y"},
		`type(v) == string && math.greatest(1,z)==1`: {"z"},
		`true`: nil,
	} {
		if got, err := env.Unknown(expression); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v", expression, got, err)
		}
	}
	if _, err := env.Unknown("1 +"); err == nil {
		t.Error("no error")
	}
}

// A scan has no cost limit if it is not wanted; another loop always has. Each can
// be interrupted.
func TestFreeScans(t *testing.T) {
	for expression, limited := range map[string]bool{
		`v == 1`:                                 false,
		`v.exists(x, x == 1 && x in [1, 2])`:     false,
		`v.all(x, x.a.startsWith("a"))`:          false,
		`v.map(x, x)`:                            true,
		`v.filter(x, x.a == 1).size() < 3`:       false,
		`v.map(x, x.a + "a") == []`:              true,
		`v.map(x, [x, x])`:                       true,
		`v.map(x, v)`:                            true,
		`v.all(x, v.exists(y, x == y))`:          true,
		`v.exists(x, x) || v.exists(x, x)`:       true,
		`v.all(x, x.matches("a*b"))`:             true,
		`lists.range(1000).all(x, x < 1000)`:     true,
		`v.all(x, x.replace("a", "b") == "abc")`: true,
	} {
		for _, free := range []bool{true, false} {
			p, err := environment(t, celenv.Limits{Cost: 1000, FreeScans: free}).Compile(expression)
			if err != nil {
				t.Fatal(err)
			}
			loops := strings.Contains(expression, "(x, ")
			if want := limited || !free && loops; p.Costs() != want || p.Loops() != loops {
				t.Errorf("%s: limits %v, want %v; loops %v", expression, p.Costs(), want, p.Loops())
			}
		}
	}
}

// A scan compares with what a client may have made long, so it ends with its
// context.
func TestFree_scan_is_interrupted(t *testing.T) {
	for _, expression := range []string{`v.items.all(x, !(x in v.others))`, `v.items.filter(x, x in v.others).size() == 0`} {
		t.Run(expression, func(t *testing.T) { checkInterrupted(t, expression) })
	}
}

func checkInterrupted(t *testing.T, expression string) {
	p, err := environment(t, celenv.Limits{Cost: 1000, FreeScans: true}).Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	if p.Costs() {
		t.Error("it has a cost limit")
	}
	items := make([]any, celenv.MaxList)
	for i := range items {
		items[i] = "item"
	}
	others := make([]any, celenv.MaxList)
	for i := range others {
		others[i] = "other"
	}
	long := activation(t, map[string]any{"items": items, "others": others})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.EvaluateContext(ctx, long); !celenv.IsInterrupted(err) {
		t.Errorf("got %v", err)
	}
	// And what comes after has its own time.
	short := activation(t, map[string]any{"items": []any{"item"}, "others": []any{"other"}})
	for range 3 {
		if _, err := p.EvaluateWithin(time.Millisecond, long); !celenv.IsInterrupted(err) {
			t.Errorf("within a millisecond: got %v", err)
		}
		for range 2 {
			if value, err := p.EvaluateWithin(time.Hour, short); err != nil || value != types.True {
				t.Errorf("within an hour: got %v, %v", value, err)
			}
		}
	}
}

// A large object is looked for among many small ones without a look at all of it
// each time.
func TestObject_among_many(t *testing.T) {
	p, err := environment(t, celenv.Limits{Cost: 1000}).Compile(`v.object in v.list || v.object == v.list[0]`)
	if err != nil {
		t.Fatal(err)
	}
	testkit.InProportion(t, 900, 10, func(size int) time.Duration {
		var members strings.Builder
		for i := range size {
			fmt.Fprintf(&members, `,"m%d":0`, i)
		}
		raw := `{"object":{"a":0` + members.String() + `},"list":[{}` + strings.Repeat(`,{"a":0}`, size) + `]}`
		began := time.Now()
		value, err := p.Evaluate(activation(t, &celenv.Node{Raw: []byte(raw)}))
		if err != nil || value != types.False {
			t.Errorf("got %v, %v", value, err)
		}
		return time.Since(began)
	})
}

// A regular expression is bounded, and one with a counted repetition does not
// cause a panic.
func TestRegularExpressions(t *testing.T) {
	const holds, fails = "true", "false"
	for expression, want := range map[string]string{
		`"2026-11-21".matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")`: holds,
		`matches("abc", "^a{1,3}b")`:                           holds,
		`"abc".matches("(b")`:                                  "missing closing )",
		`"abc".matches("(a{20}){40}")`:                         "expression large 512",
		`matches("abc", "((a{30}){30})?")`:                     "expression large",
		`v.text.matches(v.date)`:                               holds,
		`v.text.matches(v.none)`:                               "missing closing )",
		`v.text.matches(v.large)`:                              "expression large",
		`v.text.matches(v.long)`:                               "expression large",
		`v.text.matches(v.number)`:                             "no such overload",
		`v.number.matches("a")`:                                "no such overload",
		`v.date.matches("x{3}")`:                               fails,
	} {
		value := map[string]any{
			"text": "2026", "date": "^[0-9]{4}$", "none": "(", "large": "(((a{9}){9}){9})", "long": strings.Repeat("a", 5000), "number": 7,
		}
		p, err := environment(t, celenv.Limits{Cost: 1000}).Compile(expression)
		got := ""
		if err == nil {
			var out ref.Val
			if out, err = p.Evaluate(activation(t, value)); err == nil {
				got = fmt.Sprint(out.Value())
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !testkit.ContainsAll(got, want) {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
}

func TestCutOff(t *testing.T) {
	p, err := environment(t, celenv.Limits{Cost: 1000}).Compile(`lists.range(1000).all(x, x >= 0)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Evaluate(activation(t, 1)); !celenv.IsInterrupted(err) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.EvaluateContext(ctx, activation(t, 1)); !celenv.IsInterrupted(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if celenv.IsInterrupted(errors.New("no such key: a")) {
		t.Error("another error is a cut")
	}
}

func TestFault(t *testing.T) {
	_, err := environment(t, celenv.Limits{Cost: 1000}).Compile("v ==\n  w")
	fault, ok := errors.AsType[*celenv.CompileError](err)
	if !ok || len(fault.Positions) != 1 {
		t.Fatalf("got %v, want an error with one position", err)
	}
	if p := fault.Positions[0]; p.Line != 2 || p.Column != 3 {
		t.Errorf("got %d:%d, want 2:3", p.Line, p.Column)
	}
}
