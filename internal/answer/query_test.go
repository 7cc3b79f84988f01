package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/internal/wire"
)

// run applies an expression to a body.
func run(t testing.TB, source, body string) (string, error) {
	t.Helper()
	q, err := Compile(source)
	if err != nil {
		t.Fatalf("Compile(%q): %v", source, err)
	}
	got, err := q.Append(context.Background(), []byte("before "), []byte(body))
	return strings.TrimPrefix(string(got), "before "), err
}

func TestQuery(t *testing.T) {
	const issues = `[
		{"number": 12, "title": "One \u00e9", "state": "open", "user": {"login": "ann", "id": 1}, "labels": [{"name":"bug"}]},
		{"number": 7, "title": "Two", "state": "closed", "user": null, "labels": []}
	]`
	for _, c := range []struct{ source, body, want string }{
		{
			`{total: length, items: [.[] | {number, title, state, user: .user.login}]}`, issues,
			`{"items":[{"number":12,"state":"open","title":"One é","user":"ann"},{"number":7,"state":"closed","title":"Two","user":null}],"total":2}`,
		},
		{`map(select(.state == "open") | .labels[].name)`, issues, `["bug"]`},
		{`sort_by(.number) | .[0].title`, issues, `"Two"`},
		{`.[] | .number`, issues, `[12,7]`},
		{`.[0] | keys | length`, issues, `5`},
		{`empty`, issues, `null`},
		{`.`, `{"b":1,"a":{"d":[],"c":2}}`, `{"a":{"c":2,"d":[]},"b":1}`},
		{`.n`, `{"n":12345678901234567890.123456789}`, `12345678901234567890.123456789`},
		{`.n`, `{"n":123456789012345678901234567890}`, `123456789012345678901234567890`},
		{`.n + 1`, `{"n":123456789012345678901234567890}`, `123456789012345678901234567891`},
		{`[.[] + 1]`, `[-0, 1.5, 1e2]`, `[1,2.5,101]`},
		{`.`, `[-0, 1.50, 1e2, -7]`, `[-0,1.50,1e2,-7]`},
		{`.a`, `{"a":1,"a":2}`, `2`},
		{`length`, `"five!"`, `5`},
		{`.["a b"], ."c"`, `{"a b":1,"c":2}`, `[1,2]`},
		{`env | length`, `{}`, `0`},
		{`$ENV.PATH`, `{}`, `null`},
		{`def f: .a; f`, `{"a":[1]}`, `[1]`},
	} {
		got, err := run(t, c.source, c.body)
		if err != nil || got != c.want {
			t.Errorf("%s of %s: %s, %v; want %s", c.source, c.body, got, err, c.want)
		}
	}
}

func TestQuery_body_that_is_no_JSON(t *testing.T) {
	for _, body := range []string{"", " ", "<html>", `{"a":1`, `{"a":1} {"a":2}`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		if got, err := run(t, `.`, body); !errors.Is(err, ErrNotJSON) || got != "" {
			t.Errorf("%.20q: %q, %v", body, got, err)
		}
	}
}

func TestQuery_compile_error_has_position(t *testing.T) {
	for source, words := range map[string]string{
		`{a: .b`:                   "column 7",
		"{a: .b,\n  c: ]}":         "line 2 column 6",
		`.[] | nosuch(1)`:          "column 7 nosuch",
		`.a | $x`:                  "column 6 $x",
		`import "a" as a; .`:       "import",
		`input`:                    "input",
		strings.Repeat(" ", 20000): "20000",
	} {
		_, err := Compile(source)
		if err == nil || !keyword.All(err.Error(), words) {
			t.Errorf("%.40q: %v; want %q", source, err, words)
		}
	}
}

func TestQuery_failures(t *testing.T) {
	for _, c := range []struct {
		source, body string
		want         error
		reason       string
	}{
		{`def f: f; f`, `{}`, nil, "too long"},
		{`[range(1e12)]`, `{}`, nil, "too long"},
		{`repeat(1)`, `{}`, errQueryValues, "too large"},
		{`[limit(40; repeat(.))] | reduce .[] as $_ (1; [., .])`, `1`, errQueryOutput, "too large"},
		{`"x" * 20000000`, `{}`, errQueryOutput, "too large"},
		{`.a.b`, `{"a":"secret"}`, nil, "not as the expression expects"},
		{`error("secret")`, `{}`, nil, "not as the expression expects"},
		{`halt`, `{}`, nil, "not as the expression expects"},
	} {
		got, err := run(t, c.source, c.body)
		if err == nil || got != "" || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %.60s, %v; want %v", c.source, got, err, c.want)
			continue
		}
		if reason := ShortReason(err); !keyword.All(reason, c.reason) || strings.Contains(reason, "secret") {
			t.Errorf("%s: reason %q; want %q", c.source, reason, c.reason)
		}
	}
}

// The step that doubles a value is one of few, so only time and memory limit it. Which limit comes
// first depends on the machine.
func TestQuery_growing_values_are_limited(t *testing.T) {
	for _, source := range []string{
		`reduce range(1e9) as $i ("x"; . + .)`,
		`reduce range(1e9) as $i ([1]; . + .)`,
		`reduce range(1e9) as $i ("\\"; tojson)`,
	} {
		if _, err := run(t, source, `{}`); !errors.Is(err, errQueryMemory) && !errors.Is(err, errQueryTime) {
			t.Errorf("%s: %v; want the limit of memory or time", source, err)
		}
	}
}

func TestQueryBudget_counts_live_memory(t *testing.T) {
	runtime.GC() // what earlier tests left
	b := &queryBudget{memory: usedMemory()}
	block := make([]byte, MaxQueryMemory+MaxQueryMemory/8)
	if !b.exceedsMemory() {
		t.Error("a live block larger than the limit does not exceed it")
	}
	runtime.KeepAlive(block)
	if b.exceedsMemory() {
		t.Error("garbage exceeds the limit")
	}
}

func TestQuery_ends_with_its_context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, err := Compile(`def f: f; f`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Append(ctx, nil, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want context.Canceled", err)
	}
}

func TestQuery_decodes_what_it_reaches(t *testing.T) {
	const body = `{"items":[{"id":1,"big":{"deep":[1,2]},"user":{"name":"a","mail":"b"}}],"total":1,"other":[1,2,3]}`
	for source, want := range map[string]string{
		`{total, n: [.items[] | .user.name]}`:  `{"items":[{"user":{"name":"a"}}],"total":1}`,
		`.items | length`:                      `{"items":[null]}`,
		`keys`:                                 `{"items":[],"other":[],"total":1}`,
		`.items | map(select(.big) | {id})`:    `{"items":[{"big":{},"id":1}]}`,
		`.items[0:1] | map(.id)`:               `{"items":[{"id":1}]}`,
		`if .total > 0 then .other else . end`: body,
		`.`:                                    body,
		`.items as $i | $i`:                    body,
		`.items[0].user | @json`:               `{"items":[{"user":{"mail":"b","name":"a"}}]}`,
		`to_entries`:                           body,
	} {
		q, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		got := decode([]byte(body), q.need)
		var expected any
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if source == `keys` { // which values are kept is of no importance
			got, expected = len(got.(map[string]any)), len(expected.(map[string]any))
		}
		if a, b := fmt.Sprint(got), fmt.Sprint(expected); a != b {
			t.Errorf("%s: decoded %s; want %s", source, a, b)
		}
	}
}

// expressions are compared with gojq on complete inputs.
var expressions = []string{
	`.`, `.a`, `.a.b`, `.a?.b?`, `.[]`, `.[]?`, `.[0]`, `.[-1]?`, `.[1:]`, `.a[0:1]`, `length`, `keys?`, `.a | length`, `map(.a)`, `map(.a?)`, `[.[]? | .a?]`,
	`{a, b: .b.c}`, `{total: length, items: [.[]? | {a: .a?, b: .b?}]}`, `[.[]? | select(.a?) | .b?]`, `.a // .b`, `.a? // "none"`, `(.a, .b)?`,
	`if .a then .b else .c end`, `if .a? then length else . end`, `.a and .b`, `[.a[]?, .b[]?]`, `sort_by(.a)?`, `sort_by(.a?)? | .[0]?`, `unique_by(.a?)? | length`,
	`first`, `last?`, `first(.[]?)`, `[limit(2; .[]?)]`, `reverse?`, `reverse? | length`, `any(.a?)?`, `all(.a?)?`, `.. | .a?`, `[.. | numbers]`, `to_entries?`, `with_entries(.value |= 1)?`,
	`.a as $x | [$x, .b]`, `def f: .a?; f`, `reduce .[]? as $x (0; . + 1)`, `try error("x") catch .`, `try .a.b catch "bad"`, `"\(.a?) and \(.b?)"`, `@json`, `@json "x\(.a?)"`,
	`.a == .b`, `.a? == .b?`, `-(.a? // 0 | numbers)`, `{(.a? | strings): .b?}`, `{"a": .a?, "b"}?`, `del(.a?)`, `.a = 1`, `.a? |= length`, `path(..)`, `[paths]`, `getpath(["a","b"])?`,
	`has("a")?`, `type`, `[.[]? | type]`, `[.[]? | length?]`, `.[.a?]?`, `.["a"]`, `."b"`, `[.[]? | .[]?]`, `map(keys?)`, `{a: (.a? , .b?)}`, `group_by(.a?)?`, `tojson`, `.a | not`, `min_by(.a?)?`,
	`.[]? |= 1`, `map_values(.a?)?`, `[.[]?.a?]`, `.a?[0]?`, `keys? | length`, `[.a?, .a?.b?]`, `(.a? | length), .a?`, `add?`, `flatten?`, `[.[]?][0]`, `.[]? as [$x] | $x`, `isvalid(.a)`,
	`.a as {b: $c} | $c`, `label $out | .[]? | ., break $out`, `.[["a"]]?`, `.[1:]? | map(.a?)`, `{a: .a?} | .a`, `{a: .}.a.b?`, `[.][0].a?`, `(.a? // .b?) | .c?`, `select(.a?).b?`,
}

// FuzzQuery compares a query on a pruned input with gojq on the complete input.
func FuzzQuery(f *testing.F) {
	for _, body := range []string{
		`{"a":{"b":1,"c":[1,{"a":2}]},"b":[{"a":"x","b":{"c":null}}],"c":"é\n"}`, `[{"a":1,"b":2},{"a":{"b":[]}},null,[1],"s",1.50]`,
		`[]`, `{}`, `null`, `"text"`, `{"a":1,"a":{"b":2}}`, `[[{"a":[{"a":1}]}]]`, `{"a":false,"b":12345678901234567890}`,
	} {
		for i := range expressions {
			f.Add(i, []byte(body))
		}
	}
	type both struct {
		query *Query
		code  *gojq.Code
	}
	compiled := make([]both, 0, len(expressions))
	for _, source := range expressions {
		parsed, err := gojq.Parse(source)
		if err != nil {
			f.Fatalf("%s: %v", source, err)
		}
		code, err := gojq.Compile(parsed)
		if err != nil {
			if strings.Contains(source, "isvalid") {
				continue
			}
			f.Fatalf("%s: %v", source, err)
		}
		q, err := Compile(source)
		if err != nil {
			f.Fatalf("%s: %v", source, err)
		}
		compiled = append(compiled, both{q, code})
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		c := compiled[uint(i)%uint(len(compiled))]
		got, err := c.query.Append(t.Context(), nil, body)
		if errors.Is(err, ErrNotJSON) {
			if wire.Valid(body) {
				t.Fatal(err)
			}
			return
		}
		if err == nil && !wire.Valid(got) {
			t.Fatalf("%s of %s: %s is no JSON", c.query, body, got)
		}
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.UseNumber()
		var value any
		if d.Decode(&value) != nil {
			return
		}
		want, wantErr := collect(c.code, value)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s of %s: error %v; gojq has %v", c.query, body, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(decodedJSON(t, got), decodedJSON(t, want)) {
			t.Fatalf("%s of %s:\n%s\ngojq has\n%s", c.query, body, got, want)
		}
	})
}

// collect runs gojq as Query.Append does.
func collect(code *gojq.Code, value any) ([]byte, error) {
	var all [][]byte
	for results := code.Run(value); ; {
		result, ok := results.Next()
		if !ok {
			break
		}
		if err, failed := result.(error); failed {
			return nil, err
		}
		encoded, err := gojq.Marshal(result)
		if err != nil {
			return nil, err
		}
		all = append(all, encoded)
	}
	switch len(all) {
	case 0:
		return []byte("null"), nil
	case 1:
		return all[0], nil
	}
	joined := []byte{'['}
	for i, one := range all {
		if i > 0 {
			joined = append(joined, ',')
		}
		joined = append(joined, one...)
	}
	return append(joined, ']'), nil
}

func decodedJSON(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// issuesBody returns a list of issues like GitHub's, of about size bytes.
func issuesBody(size int) []byte {
	one := `{"url":"https://api.github.com/repos/octo/hello/issues/%[1]d","id":%[1]d,"node_id":"MDU6SXNzdWUx","number":%[1]d,"title":"Found a bug in part %[1]d",` +
		`"user":{"login":"octocat","id":1,"avatar_url":"https://github.com/images/error/octocat_happy.gif","url":"https://api.github.com/users/octocat","type":"User","site_admin":false},` +
		`"labels":[{"id":208045946,"url":"https://api.github.com/repos/octo/hello/labels/bug","name":"bug","color":"f29513","default":true}],"state":"open","locked":false,` +
		`"assignee":null,"milestone":{"title":"v1.0","open_issues":4,"closed_issues":8},"comments":3,"created_at":"2026-01-01T00:00:00Z","body":"` + strings.Repeat(`It \"fails\" when I press the button.\n`, 30) + `"}`
	var b []byte
	for i := 0; len(b) < size; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, one, 1000+i)
	}
	return append(append([]byte{'['}, b...), ']')
}

func BenchmarkQuery(b *testing.B) {
	body := issuesBody(100 << 10)
	b.Run("pass", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		var dst []byte
		for b.Loop() {
			dst, _ = wire.AppendChecked(dst[:0], body)
		}
	})
	for _, source := range []string{`{total: length, items: [.[] | {number, title, state, user: .user.login}]}`, `map(del(.body))`, `.`} {
		q, err := Compile(source)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(source, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				if dst, err = q.Append(b.Context(), dst[:0], body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
