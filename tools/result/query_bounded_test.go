package result

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
)

// walking are the functions of gojq that have no entry in costs: they walk through their input and arguments
// about once, allocate at most eight times their size, and need no other limit.
var walking = strings.Fields(`
	_captures _group_by _match _max_by _min_by _negate _sort_by _unique_by _plus _tobase64 _tobase64d _tocsv _tohtml _tosh _totsv _touri _tourid
	acos acosh asin asinh atan atanh bsearch cbrt ceil cos cosh erf erfc exp exp10 exp2 expm1 fabs flatten floor format frexp gamma
	gmtime isfinite isinfinite isnan isnormal j0 j1 lgamma localtime log log10 log1p log2 logb max min mktime modf nearbyint
	rint round significand sin sinh sort sqrt strptime tan tanh tgamma toboolean tojson tostring trunc unique y0 y1`)

// everything are expressions that together use all operators and constructs.
var everything = []string{
	`.a + 1 - 2 * 3 / 4 % 5`, `[.a == 1, .a != 1, .a < 1, .a > 1, .a <= 1, .a >= 1, (.a and .b or .c)]`, `.a // 1`, `.a = 1`, `.a |= 1`, `.a += 1`, `.a -= 1`, `.a *= 1`, `.a /= 1`, `.a %= 1`, `.a //= 1`,
	`(.a, .b) = 1`, `.[1:2] = [1]`, `.[.a] = 1`, `.[.a:.b]`, `."a\(.b)"`, `@base64 "\(.)"`, `-.a`, `+.a`, `. as [$a, {b: $c, (.d): $e, "f\(1)": $g}] ?// $a | $a`, `label $x | break $x`,
	`reduce .[] as $x (0; .)`, `foreach .[] as $x (0; .; .)`, `try error catch .`, `.a?`, `if . then 1 elif 2 then 3 else 4 end`, `{a: 1, "b\(1)": 2, (.c): 3}`, `def f(g; $x): g; f(.; 1)`, `..`, `.[]`, `$ENV`,
	`@text, @json, @html, @uri, @urid, @csv, @tsv, @sh, @base64, @base64d`, `[]`, `{}`, `"a"`, `null`, `path(.a)`,
}

// Each function that gojq has is in costs or is known to need no entry. If this test fails for a new version of gojq,
// read what the new function does.
func TestProgram_knows_every_function_of_gojq(t *testing.T) {
	sources := slices.Clone(everything)
	builtins, _ := gojq.Parse("builtins")
	code, err := gojq.Compile(builtins)
	if err != nil {
		t.Fatal(err)
	}
	listed, _ := code.Run(nil).Next()
	for _, signature := range listed.([]any) {
		name, arity, _ := strings.Cut(signature.(string), "/")
		if arguments := strings.TrimSuffix(strings.Repeat(".;", int(arity[0]-'0')), ";"); arguments != "" {
			name += "(" + arguments + ")"
		}
		switch name {
		case "input", "inputs", "debug(.)": // they need an option
		default:
			sources = append(sources, name)
		}
	}
	called := make(map[string]bool)
	for _, source := range sources {
		parsed, err := gojq.Parse(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		code, err := gojq.Compile(parsed)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		functionsOf(t, code, called)
		if _, err := CompileQuery(source); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	if len(called) < 150 {
		t.Fatalf("found only %d functions", len(called))
	}
	for _, name := range slices.Sorted(maps.Keys(called)) {
		_, known := costs[name]
		switch walks := slices.Contains(walking, name); {
		case !known && !walks:
			t.Errorf("gojq has a new function %s: add its cost to costs, or its name to walking", name)
		case known && walks:
			t.Errorf("%s is in costs and in walking", name)
		}
	}
	for _, name := range walking {
		if !called[name] {
			t.Errorf("%s is in walking, but gojq does not have it", name)
		}
	}
}

// functionsOf adds the names of the functions that compiled code calls.
func functionsOf(t *testing.T, code *gojq.Code, called map[string]bool) {
	codes := reflect.ValueOf(code).Elem().FieldByName("codes")
	for i := range codes.Len() {
		operand := codes.Index(i).Elem().FieldByName("v").Elem()
		switch operand.Kind() {
		case reflect.Func, reflect.Struct:
			t.Errorf("an instruction has an operand of type %s", operand.Type())
		case reflect.Array:
			if operand.Type().Elem().Kind() == reflect.Interface {
				called[operand.Index(2).Elem().String()] = true
			}
		}
	}
}

// The memory of all runs is limited, each caller has a share, and a run that has to wait continues as soon
// as there is room.
func TestMemory_is_shared(t *testing.T) {
	memory := NewMemory(nil)
	if err := memory.bound.Take("user bob", maxQueryMemory*7/10); err != nil {
		t.Fatal(err)
	}
	q, err := CompileQuery(`[range(1000)] | length`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := q.Append(t.Context(), Limit{memory, "user ada"}, nil, []byte("{}")); err != nil || string(got) != "1000" {
		t.Errorf("another caller: %s, %v", got, err)
	}
	large, err := CompileQuery(`[range(10000000)] | length`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := large.Append(t.Context(), Limit{memory, "user bob"}, nil, []byte("{}")); err == nil {
		t.Error("a caller above its share got more memory")
	}
	if err := memory.bound.Take("user bob", maxQueryMemory/10); err == nil {
		t.Error("shares do not bind")
	}
	if err := memory.bound.Take("user carl", maxQueryMemory*3/10-1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := q.Append(t.Context(), Limit{memory, "user ada"}, nil, []byte("{}"))
		done <- err
	}()
	memory.give("user carl", maxQueryMemory*3/10-1)
	if err := <-done; err != nil {
		t.Errorf("the run that waited for memory: %v", err)
	}
}

// What the interpreter holds is measured, and parts that values share count once.
func TestRun_measures_its_values(t *testing.T) {
	for _, c := range []struct {
		source   string
		from, to int64
	}{
		{`[range(100000)]`, 2 << 20, 8 << 20},
		{`"a" * 5000000`, 5_000_000, 6_000_000},
		{`("a" * 5000000) as $x | [range(100) | $x]`, 5_000_000, 6_000_000},
		{`reduce range(40) as $i (1; [., .])`, 1000, 100_000},
		{`[range(10000) | {a: .}]`, 3 << 20, 6 << 20},
	} {
		p, err := compileProgram(c.source + ` | (., .)`)
		if err != nil {
			t.Fatal(err)
		}
		p.run = &run{Context: t.Context(), end: time.Now().Add(time.Minute), sampled: time.Now().Add(time.Minute)}
		p.run.memory = reservation{Limit: alone(), bytes: maxQueryMemory, counted: allocated()}
		p.run.results = p.code.Run(nil)
		if _, ok := p.run.results.Next(); !ok {
			t.Fatalf("%s has no result", c.source)
		}
		if got, ok := p.run.measure(); !ok || got < c.from || got > c.to {
			t.Errorf("%s: %d bytes, want %d to %d", c.source, got, c.from, c.to)
		}
	}
}
