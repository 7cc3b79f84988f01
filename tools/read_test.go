package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
)

// bodyTool returns the tool "send" with the schema as its body's property "v".
func bodyTool(t testing.TB, schema string, o BuildOptions) *Tool {
	t.Helper()
	document := `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"components":{"schemas":{
		"Size":{"type":"integer","maximum":100},"Node":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/components/schemas/Node"}},"additionalProperties":false}}},
		"paths":{"/a":{"post":{"operationId":"send","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"v":` + schema + `}}}}}}}}}`
	tool, ok := buildTools(t, document, o).Tool("send")
	if !ok {
		t.Fatal("no tool")
	}
	return tool
}

// TestRead_converts_to_the_form_that_fits: a value keeps its form if that fits, or if no other form does.
func TestRead_converts_to_the_form_that_fits(t *testing.T) {
	const whole, flag, word, list, object = `{"type":"integer"}`, `{"type":"boolean"}`, `{"type":"string"}`, `{"type":"array","items":{"type":"integer"}}`,
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	for _, c := range []struct{ schema, value, want string }{ // want is "" if the value is refused
		{whole, `"5"`, `5`},
		{whole, `"-9007199254740993123"`, `-9007199254740993123`},
		{whole, `"12abc"`, ``},
		{whole, `"7.5"`, ``},
		{whole, `"7.0"`, ``},
		{whole, `" 5"`, ``},
		{whole, `"+5"`, ``},
		{whole, `"007"`, ``},
		{whole, `"1e3"`, ``},
		{whole, `""`, ``},
		{whole, `true`, ``},
		{whole, `[5]`, ``},
		{whole, `null`, `-`},
		{`{"type":"number"}`, `"1.50"`, `1.50`},
		{`{"type":"number"}`, `"1e3"`, `1e3`},
		{`{"type":"number"}`, `"NaN"`, ``},
		{`{"type":"number"}`, `"1e999"`, ``},
		{flag, `"true"`, `true`},
		{flag, `"false"`, `false`},
		{flag, `"True"`, ``},
		{flag, `"1"`, ``},
		{flag, `1`, ``},
		{word, `7`, `"7"`},
		{word, `1.50`, `"1.50"`},
		{word, `true`, `"true"`},
		{word, `{}`, ``},
		{word, `[]`, ``},
		{word, `"5"`, `"5"`},
		{word, `"null"`, `"null"`},
		{object, `"{\"n\":1}"`, `{"n":1}`},
		{object, `" {\"n\":\"2\"}\n"`, `{"n":2}`},
		{object, `"{\"n\":1,\"n\":2}"`, ``},
		{object, `"{\"n\":1"`, ``},
		{object, `"n"`, ``},
		{object, `"\"{}\""`, ``},
		{list, `"[1,2]"`, `[1,2]`},
		{list, `5`, `[5]`},
		{list, `"5"`, `[5]`},
		{list, `["5",6]`, `[5,6]`},
		{list, `"[1,2"`, ``},
		{list, `"x"`, ``},
		{list, `null`, `-`},
		{list, `"null"`, ``},
		{`{"type":"array","items":{"type":"string"}}`, `"a,b"`, `["a,b"]`},
		{`{"type":"array","items":{"type":"string"}}`, `5`, `["5"]`},
		{`{"type":"array","items":` + object + `}`, `{"n":1}`, `[{"n":1}]`},
		{`{"type":"array","items":` + object + `}`, `"{\"n\":1}"`, `[{"n":1}]`},
		{`{"type":"array","items":` + list + `}`, `[1,2]`, ``}, // [[1],[2]] or [[1,2]]
		{`{"type":["string","integer"]}`, `"5"`, `"5"`},
		{`{"type":["integer","null"]}`, `"5"`, `5`},
		{`{"type":["integer","null"]}`, `"null"`, ``},
		{`{"type":["array","integer"],"items":{"type":"string"}}`, `"5"`, `5`},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `"5"`, `"5"`},
		{`{"anyOf":[{"type":"integer","maximum":4},` + list + `]}`, `"5"`, `[5]`},
		{`{"anyOf":[` + list + `,` + object + `]}`, `"{\"n\":\"1\"}"`, `{"n":1}`},
		{`{"anyOf":[` + object + `,{"enum":[""]}]}`, `"{\"n\":1}"`, `{"n":1}`},
		{`{"allOf":[{"$ref":"#/components/schemas/Size"},{"minimum":2}]}`, `"5"`, `5`},
		{`{"$ref":"#/components/schemas/Size"}`, `"500"`, ``},
		{`{"$ref":"#/components/schemas/Node"}`, `{"n":"1","next":{"n":"2","next":"{\"n\":\"3\"}"}}`, `{"n":1,"next":{"n":2,"next":{"n":3}}}`},
		{`{"enum":[1,2]}`, `"2"`, `2`},
		{`{"const":"5"}`, `5`, `"5"`},
		{`{"enum":[1,2]}`, `"3"`, ``},
		{`{"type":"string","pattern":"^[a-z]$"}`, `5`, ``},
		{`{"type":"string","format":"date"}`, `5`, `"5"`},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, `{"a/~b":"1"}`, `{"a/~b":1}`},
		{whole, `7.0`, `7`},
		{whole, `1e3`, `1000`},
		{whole, `-0.0`, `0`},
		{whole, `0e5`, `0`},
		{whole, `1.20e1`, `12`},
		{whole, `1e39`, `1` + strings.Repeat("0", 39)},
		{whole, `1e40`, ``},
		{whole, `1e399`, ``},
		{whole, `1` + strings.Repeat("0", 60), `1` + strings.Repeat("0", 60)},
		{`{"type":["integer","null"]}`, `7.0`, `7`},
		{`{"type":["integer","string"]}`, `7.0`, `7`},
		{list, `[1.0,2]`, `[1,2]`},
		{`{"type":"number"}`, `7.0`, `7.0`},
		{`{"type":["integer","number"]}`, `7.0`, `7.0`},
		{`{"anyOf":[{"type":"integer"},{"type":"number"}]}`, `7.0`, `7.0`},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `7.0`, `7`},
		{`{"not":{"type":"integer"}}`, `7.0`, ``},
		{`{"$ref":"#/components/schemas/Node"}`, `{"n":7.0,"next":{"n":8e0}}`, `{"n":7,"next":{"n":8}}`},
	} {
		tool := bodyTool(t, c.schema, BuildOptions{})
		call, read, err := tool.Read([]byte(`{"v":` + c.value + `}`))
		if (err == nil) != (c.want != "") {
			t.Errorf("%s for %s: got error %v, want %s", c.value, c.schema, err, c.want)
			continue
		}
		if err != nil {
			continue
		}
		want := `{"v":` + c.want + `}`
		if c.want == "-" {
			want = `{}`
		}
		if got := string(call.AppendArguments(nil)); got != want {
			t.Errorf("%s for %s: got %s, want %s", c.value, c.schema, got, want)
		}
		if again, _, err := tool.Read(read); err != nil || string(again.AppendArguments(nil)) != want {
			t.Errorf("%s for %s: read again, got error %v, want %s", c.value, c.schema, err, want)
		}
	}
}

// TestRead_keeps_the_text_of_everything_else: order, numbers and escapes of other values are sent as they were written.
func TestRead_keeps_the_text_of_everything_else(t *testing.T) {
	tool := bodyTool(t, `{"type":"object","properties":{"n":{"type":"integer"}}}`, BuildOptions{})
	_, read, err := tool.Read([]byte(`{ "v": {"z":1.50,"n":"5","a":"\u00e9"} }`))
	if want := `{"v":{"z":1.50,"n":5,"a":"\u00e9"}}`; err != nil || string(read) != want {
		t.Errorf("got %s, %v, want %s", read, err, want)
	}
}

// TestRead_reports_the_value_that_says_most: the limit that a converted value breaks, and not its form.
func TestRead_reports_the_value_that_says_most(t *testing.T) {
	for _, c := range []struct{ schema, value, mentions string }{
		{`{"type":"integer","maximum":100}`, `"500"`, "maximum"},
		{`{"type":"object","required":["n"]}`, `"{}"`, "/v/n missing"},
		{`{"type":"string","enum":["a"]}`, `5`, `"a"`},
		{`{"type":"array","items":{"type":"integer"}}`, `"x"`, "/v: array"},
		{`{"type":"integer"}`, `1e41`, "/v digits 40"},
	} {
		_, _, err := bodyTool(t, c.schema, BuildOptions{}).Read([]byte(`{"v":` + c.value + `}`))
		if err == nil || !testkit.ContainsAll(err.Error(), c.mentions) {
			t.Errorf("%s for %s: got %v, want %q", c.value, c.schema, err, c.mentions)
		}
	}
}

// TestRead_effort_is_bounded: nested JSON text and many unions take a fixed number of validations.
func TestRead_effort_is_bounded(t *testing.T) {
	text := `"x"`
	for range 12 { // the text doubles with each level
		text = string(strictjson.AppendString(nil, "["+text+"]"))
	}
	deep := buildTools(t, `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"components":{"schemas":{"Deep":{"type":"array","items":{"anyOf":[{"$ref":"#/components/schemas/Deep"},{"type":"integer"}]}}}},
		"paths":{"/a":{"post":{"operationId":"send","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"v":{"$ref":"#/components/schemas/Deep"}}}}}}}}}}`, BuildOptions{})
	nested, _ := deep.Tool("send")
	for name, value := range map[string]string{"nested text": text, "many": `["` + strings.Repeat(`1","`, 20_000) + `x"]`} {
		if _, _, err := nested.Read([]byte(`{"v":` + value + `}`)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestRead_sends_what_the_guard_sees: the arguments of a call, which rules and guards read, are those in the request, in each place.
func TestRead_sends_what_the_guard_sees(t *testing.T) {
	const document = `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a/{id}":{"post":{"operationId":"send","parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},{"name":"tag","in":"query","schema":{"type":"array","items":{"type":"string"}}},
		{"name":"X-N","in":"header","schema":{"type":"integer"}},{"name":"c","in":"cookie","schema":{"type":"boolean"}}],
		"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{"type":"object","properties":{"qty":{"type":"integer"},"name":{"type":"string"}}}}}}}}}}`
	tool, _ := buildTools(t, document, BuildOptions{}).Tool("send")
	call, _, err := tool.Read([]byte(`{"id":"9007199254740993","tag":7,"X_N":3.0,"c":"true","qty":4e0,"name":5}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(call.AppendArguments(nil)), `{"id":9007199254740993,"tag":["7"],"X_N":3,"c":true,"qty":4,"name":"5"}`; got != want {
		t.Errorf("the guard sees %s, want %s", got, want)
	}
	r, err := call.Request(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	got := fmt.Sprint(r.URL, " ", r.Header["X-N"], r.Header["Cookie"], " ", string(body))
	if want := `/a/9007199254740993?tag=7 [3] [c=true] qty=4&name=5`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// TestRead_and_Bind: plain requests, and toolsets with strict arguments, have no conversion. Integers of calls are in digits in both.
func TestRead_and_Bind(t *testing.T) {
	strict := bodyTool(t, `{"type":"integer"}`, BuildOptions{StrictArguments: true})
	if _, _, err := strict.Read([]byte(`{"v":"5"}`)); err == nil {
		t.Error("strict arguments were converted")
	}
	if call, _, err := strict.Read([]byte(`{"v":5.0}`)); err != nil || string(call.AppendArguments(nil)) != `{"v":5}` {
		t.Errorf("strict arguments: got %v, want 5 in digits", err)
	}
	if _, err := bodyTool(t, `{"type":"integer"}`, BuildOptions{}).Bind([]byte(`{"v":"5"}`)); err == nil {
		t.Error("Bind has converted a value")
	}
	if call, err := strict.Bind([]byte(`{"v":5.0}`)); err != nil || string(call.AppendArguments(nil)) != `{"v":5.0}` {
		t.Errorf("Bind: got %v, want 5.0 unchanged", err)
	}
}

// undeclaredDocument has a body that does not say whether it is open.
const undeclaredDocument = `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{
	"post":{"operationId":"send","parameters":[{"name":"dry","in":"query","schema":{"type":"boolean"}}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["title"],
		"properties":{"title":{"type":"string"},"comment":{"type":"string"},"id":{"type":"string","readOnly":true}}}}}}},
	"put":{"operationId":"closed","requestBody":{"content":{"application/json":{"schema":{"type":"object","additionalProperties":false,"properties":{"title":{"type":"string"}}}}}}},
	"get":{"operationId":"list","parameters":[{"name":"page","in":"query","schema":{"type":"integer"}}]}}}}`

// TestRead_undeclared_names are sent in an open body, unless they may be mistakes.
func TestRead_undeclared_names(t *testing.T) {
	set := buildTools(t, undeclaredDocument, BuildOptions{})
	for _, c := range []struct{ tool, arguments, body, problem string }{
		{"send", `{"title":"t","priority":{"x":1.0}}`, `{"title":"t","priority":{"x":1.0}}`, ""},
		{"send", `{"title":"t","coment":"c"}`, "", "/coment comment?"},
		{"send", `{"title":"t","COMMENT":"c"}`, "", "/COMMENT comment?"},
		{"send", `{"title":"t","contact":"c"}`, `{"title":"t","contact":"c"}`, ""},
		{"send", `{"title":"t","comment":"a","coment":"c"}`, `{"title":"t","comment":"a","coment":"c"}`, ""},
		{"send", `{"titel":"t"}`, "", "/titel title? /title missing"},
		{"send", `{"priority":1}`, "", "/priority /title missing"},
		{"send", `{"title":"t","Title":"u"}`, "", "/Title"},
		{"send", `{"title":"t","dry":true,"dry[]":"u"}`, "", "/dry[]"},
		{"send", `{"title":"t","id":"1"}`, "", "/id"},
		{"closed", `{"title":"t","priority":1}`, "", "/priority"},
		{"list", `{"priority":1}`, "", "/priority"},
	} {
		tool, _ := set.Tool(c.tool)
		call, _, err := tool.Read([]byte(c.arguments))
		if c.problem != "" {
			if err == nil || !testkit.ContainsAll(err.Error(), c.problem) {
				t.Errorf("%s: got %v, want %q", c.arguments, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v", c.arguments, err)
			continue
		}
		r, err := call.Request(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(r.Body); string(body) != c.body {
			t.Errorf("%s: sent %s, want %s", c.arguments, body, c.body)
		}
	}
	tool, _ := set.Tool("send")
	if _, _, err := tool.Read([]byte(`{"title":"t"` + manyNames(maxUndeclared+1) + `}`)); err == nil {
		t.Error("a call with too many undeclared names was accepted")
	}
	if strings.Contains(string(tool.Definition.InputSchema), `"additionalProperties":true`) {
		t.Error("the list invites undeclared names")
	}
}

func manyNames(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `,"undeclared%d":1`, i)
	}
	return b.String()
}

// TestExecute_tells_what_the_document_does_not_have: with a success, and with a refusal of the API.
func TestExecute_tells_what_the_document_does_not_have(t *testing.T) {
	on := true
	options := BuildOptions{Shapes: []build.Shape{{Tool: "send", SendMismatches: &on}}}
	for _, c := range []struct {
		arguments, mentions string
		options             BuildOptions
	}{
		{`{"title":"t","priority":1}`, "priority", BuildOptions{}},
		{`{"title":{"x":1}}`, "/title string", options},
		{`{"comment":"c"}`, "/title missing", options},
		{`{"title":{"x":1},"priority":1}`, "priority /title", options},
	} {
		set := buildTools(t, undeclaredDocument, c.options)
		sent := Execute(context.Background(), set, "send", []byte(c.arguments), answering(200, nil, `{}`))
		if sent.Failure != nil || !testkit.ContainsAll(sent.Result.Note, c.mentions) || string(sent.Result.Body) != `{}` {
			t.Errorf("%s: got %v and note %q, want %q", c.arguments, sent.Failure, sent.Result.Note, c.mentions)
		}
		refused := Execute(context.Background(), set, "send", []byte(c.arguments), answering(422, nil, `{}`))
		if refused.Failure == nil || !testkit.ContainsAll(refused.Failure.Message, "422 "+c.mentions) {
			t.Errorf("%s: got %v, want %q", c.arguments, refused.Failure, c.mentions)
		}
	}
}

// TestExecute_send_mismatches_widens_nothing_else: names, fixed values, paths, headers and JSON stay strict.
func TestExecute_send_mismatches_widens_nothing_else(t *testing.T) {
	on := true
	const document = `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a/{id}":{"post":{"operationId":"send","parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"string"}},{"name":"X-H","in":"header","schema":{"type":"string"}},{"name":"v","in":"query","required":true,"schema":{"type":"string","enum":["1"]}}],
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"},"fix":{"type":"string"}}}}}}}}}}`
	set := buildTools(t, document, BuildOptions{Shapes: []build.Shape{{Tool: "send", SendMismatches: &on, Arguments: map[string]build.ArgumentShape{"fix": {Fixed: json.RawMessage(`"f"`)}}}}})
	for _, arguments := range []string{`{}`, `{"n":1}`, `{"id":".."}`, `{"id":"a","X_H":"a\nb"}`, `{"id":"a","x":1}`, `{"id":"a","fix":"g"}`, `{"id":"a","Fix":"g"}`, `{"id":"a","v":"2"}`, `{"id":"a","n":1,"n":2}`, `[]`} {
		sent := false
		outcome := Execute(context.Background(), set, "send", []byte(arguments), invokerFunc(func(ctx context.Context, call *Call) (*Result, error) {
			if _, err := call.Request(ctx); err != nil {
				return nil, err
			}
			sent = true
			return &Result{Status: 200, Header: http.Header{}}, nil
		}))
		if sent || outcome.Failure == nil || outcome.Failure.Kind != InvalidArguments {
			t.Errorf("%s: got %v, want it refused", arguments, outcome.Failure)
		}
	}
	outcome := Execute(context.Background(), set, "send", []byte(`{"id":"a","n":"many"}`), answering(200, nil, `{}`))
	if outcome.Failure != nil {
		t.Errorf("a value of another type: got %v", outcome.Failure)
	}
}

// FuzzRead: a converted value fits or is refused, is read again as itself, and is what the request has. Bind accepts what Read has read.
func FuzzRead(f *testing.F) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		f.Add(randomReadSchema(r, 3), randomReadValue(r, 3))
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if strictjson.Check([]byte(schema)) != nil || strictjson.Check([]byte(value)) != nil {
			return
		}
		set, err := Build([]byte(`{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"post":{"operationId":"send","requestBody":{"content":{"application/json":{"schema":{
			"type":"object","additionalProperties":false,"properties":{"v":`+schema+`}}}}}}}}}`), BuildOptions{})
		if err != nil {
			return
		}
		tool, ok := set.Tool("send")
		if !ok {
			return
		}
		arguments := []byte(`{"v":` + value + `}`)
		plain, plainErr := tool.Bind(arguments)
		call, read, err := tool.Read(arguments)
		if err != nil {
			if plainErr == nil && !strings.Contains(err.Error(), "digits") {
				t.Fatalf("%s for %s: Read refuses what fits: %v", value, schema, err)
			}
			return
		}
		if plainErr == nil && !strings.ContainsAny(value, ".eE") && string(plain.AppendArguments(nil)) != string(call.AppendArguments(nil)) {
			t.Fatalf("%s for %s: converted to %s although it fits", value, schema, read)
		}
		if _, err := tool.Bind(read); err != nil {
			t.Fatalf("%s for %s: became %s, which does not fit: %v", value, schema, read, err)
		}
		again, _, err := tool.Read(read)
		if err != nil || string(again.AppendArguments(nil)) != string(call.AppendArguments(nil)) {
			t.Fatalf("%s for %s: became %s, and then %v, %v", value, schema, read, again, err)
		}
		request, err := call.Request(context.Background())
		if err != nil {
			return
		}
		if sent, _ := io.ReadAll(request.Body); len(sent) > 0 && !sameJSON(sent, call.AppendArguments(nil)) {
			t.Fatalf("%s for %s: the guard sees %s, and %s was sent", value, schema, call.AppendArguments(nil), sent)
		}
	})
}

func sameJSON(a, b []byte) bool {
	x, errX := strictjson.Decode(a)
	y, errY := strictjson.Decode(b)
	return errX == nil && errY == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func randomReadSchema(r *rand.Rand, depth int) string {
	if depth > 0 {
		switch r.IntN(6) {
		case 0:
			return `{"type":"array","items":` + randomReadSchema(r, depth-1) + `}`
		case 1:
			return `{"type":"object","properties":{"a":` + randomReadSchema(r, depth-1) + `,"b":` + randomReadSchema(r, depth-1) + `},"required":["a"]}`
		case 2:
			return `{"anyOf":[` + randomReadSchema(r, depth-1) + `,` + randomReadSchema(r, depth-1) + `]}`
		}
	}
	plain := []string{`{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`, `{"type":"string"}`, `{"type":"integer","maximum":5}`, `{"type":["integer","null"]}`, `{"enum":["1",2,true]}`, `{"type":"string","pattern":"^a"}`}
	return plain[r.IntN(len(plain))]
}

func randomReadValue(r *rand.Rand, depth int) string {
	if depth > 0 {
		switch r.IntN(5) {
		case 0:
			return `[` + randomReadValue(r, depth-1) + `,` + randomReadValue(r, depth-1) + `]`
		case 1:
			return `{"a":` + randomReadValue(r, depth-1) + `,"b":` + randomReadValue(r, depth-1) + `}`
		case 2:
			return string(strictjson.AppendString(nil, randomReadValue(r, depth-1)))
		}
	}
	plain := []string{`1`, `"1"`, `7.0`, `1e2`, `true`, `"true"`, `null`, `"null"`, `"a"`, `""`, `"1.5"`, `"[1"`, `99`, `"{}"`}
	return plain[r.IntN(len(plain))]
}

// TestRead_random_values runs the seeds of FuzzRead many times more.
func TestRead_random_values(t *testing.T) {
	fitted := 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 7))
		tool := bodyTool(t, randomReadSchema(r, 2), BuildOptions{})
		for range 8 {
			arguments := []byte(`{"v":` + randomReadValue(r, 2) + `}`)
			_, bindErr := tool.Bind(arguments)
			call, read, err := tool.Read(arguments)
			if bindErr == nil && err != nil {
				t.Fatalf("seed %d: %s was accepted, and is not now: %v", seed, arguments, err)
			}
			if err != nil {
				continue
			}
			if bindErr != nil {
				fitted++
			}
			again, err := tool.Bind(read)
			if err != nil || string(again.AppendArguments(nil)) != string(call.AppendArguments(nil)) {
				t.Fatalf("seed %d: %s became %s, which does not fit: %v", seed, arguments, read, err)
			}
		}
	}
	if fitted < 100 {
		t.Errorf("only %d values were converted", fitted)
	}
}
