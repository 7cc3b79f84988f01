package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// alone returns the limit of a run that has the memory for itself.
func alone() Limit { return Limit{Memory: NewMemory(nil), Owner: "user ada"} }

// runQuery applies an expression to a body.
func runQuery(t testing.TB, source, body string) (string, error) {
	t.Helper()
	q, err := CompileQuery(source)
	if err != nil {
		t.Fatalf("Compile(%q): %v", source, err)
	}
	got, err := q.Append(context.Background(), alone(), []byte("before "), []byte(body))
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
		got, err := runQuery(t, c.source, c.body)
		if err != nil || got != c.want {
			t.Errorf("%s of %s: %s, %v; want %s", c.source, c.body, got, err, c.want)
		}
	}
}

func TestQuery_body_that_is_no_JSON(t *testing.T) {
	for _, body := range []string{"", " ", "<html>", `{"a":1`, `{"a":1} {"a":2}`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		if got, err := runQuery(t, `.`, body); !errors.Is(err, ErrNotJSON) || got != "" {
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
		_, err := CompileQuery(source)
		if err == nil || !testkit.ContainsAll(err.Error(), words) {
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
		got, err := runQuery(t, c.source, c.body)
		if err == nil || got != "" || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %.60s, %v; want %v", c.source, got, err, c.want)
			continue
		}
		if reason := ShortReason(err); !testkit.ContainsAll(reason, c.reason) || strings.Contains(reason, "secret") {
			t.Errorf("%s: reason %q; want %q", c.source, reason, c.reason)
		}
	}
}

func TestQuery_ends_with_its_context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, err := CompileQuery(`def f: f; f`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Append(ctx, alone(), nil, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want context.Canceled", err)
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
	`.. | strings | [match("a*"; "g")]`, `[.. | strings | match("(?<x>[a-zé])|(b)(?<y>c)?"; "gi")]`, `[.. | strings | splits("\\b|,"; null)]`, `[.. | strings | split("a|^"; "g")]`, `[.. | strings | gsub("(?<x>.)"; "<\(.x)>")]`,
	`[.. | strings | sub("$"; "1", "2", null)]`, `[.. | strings | gsub("^|x*"; "-", "+"; "m")]`, `[.. | strings | gsub("a"; empty)]`, `[.. | strings | sub("(?<a>.)(?<b>.)?"; .a, .b; "g")]`, `[.. | strings | gsub(""; 1)?]`,
	`[.. | strings | test("^a.c$", "\\Bx"; "im")]`, `[.. | strings | scan("\\w+"), scan("(.)(.)")]`, `[.. | strings | capture("(?<n>[0-9]+)")]`, `[.. | strings | test("("; "g")?]`, `[.. | strings | match(["a", "gz"])?]`, `match(.a?; .b?)?`, `[.. | splits("a")?]`,
	`[.. | strings | . + ., . * 2, . / "a", ascii_downcase, explode, (explode | implode), ltrimstr("a"), indices("a"), index("b"), @uri, @sh, @base64]`, `[.. | arrays | . + ., . - [1], join(",")?, add?, transpose?, sort, unique, flatten, index([1]), .[[1]]]`,
	`[.. | objects | . + {a: 1}, . * {b: {c: 2}}, to_entries, add?, (.. |= .), del(.. | select(. == 1)?)]`, `.[3]? = 1`, `setpath(["a", 2]; 1)?`, `[.. | numbers | . + 1, . * 2, . / 3, -., tostring, pow(.; 2)]`, `[.. | tojson | fromjson, length]`, `"\(.a?)\(.b?)"`,
	`.a as {b: $c} | $c`, `label $out | .[]? | ., break $out`, `.[["a"]]?`, `.[1:]? | map(.a?)`, `{a: .a?} | .a`, `{a: .}.a.b?`, `[.][0].a?`, `(.a? // .b?) | .c?`, `select(.a?).b?`,
}

// FuzzQuery compares a query, with its limits, with plain gojq.
func FuzzQuery(f *testing.F) {
	for _, body := range []string{
		`{"a":{"b":1,"c":[1,{"a":2}]},"b":[{"a":"x","b":{"c":null}}],"c":"é\n"}`, `[{"a":1,"b":2},{"a":{"b":[]}},null,[1],"s",1.50]`,
		`[]`, `{}`, `null`, `"text"`, `{"a":1,"a":{"b":2}}`, `[[{"a":[{"a":1}]}]]`, `{"a":false,"b":12345678901234567890}`,
		`["abcabc,a b c Éxx 12","","aéa\nba^c",{"a":"x,y","b":"g"}]`, `[[[1,2],[3,1]],[1,2,1,2],{"b":{"d":[1]}},1.5,-3,123456789012345678901]`, `{"a":"aXbc","b":"ig"}`,
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
		q, err := CompileQuery(source)
		if err != nil {
			f.Fatalf("%s: %v", source, err)
		}
		compiled = append(compiled, both{q, code})
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		c := compiled[uint(i)%uint(len(compiled))]
		got, err := c.query.Append(t.Context(), alone(), nil, body)
		if errors.Is(err, ErrNotJSON) {
			if strictjson.Valid(body) {
				t.Fatal(err)
			}
			return
		}
		if err == nil && !strictjson.Valid(got) {
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
	body, limit := issuesBody(100<<10), alone()
	b.Run("pass", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		var dst []byte
		for b.Loop() {
			dst, _ = strictjson.AppendChecked(dst[:0], body)
		}
	})
	for _, source := range []string{`{total: length, items: [.[] | {number, title, state, user: .user.login}]}`, `map(del(.body))`, `.`} {
		q, err := CompileQuery(source)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(source, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				if dst, err = q.Append(b.Context(), limit, dst[:0], body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// itemsBody is the large response of the benchmarks.
func itemsBody() []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%[1]d","sku":"sku-%04[1]d","name":"Chair %[1]d","price":{"amount":%[2]d,"currency":"CHF"},`+
			`"stock":%[3]d,"tags":["garden","wood"],"note":"folds"}`, i, 4950+i, i%50)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkQueryItems(b *testing.B) {
	body, limit := itemsBody(), alone()
	q, err := CompileQuery(`{total: (.items | length), items: [.items[] | {sku, name, amount: .price.amount}]}`)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		if dst, err = q.Append(b.Context(), limit, dst[:0], body); err != nil {
			b.Fatal(err)
		}
	}
}
