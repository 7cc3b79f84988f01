package otcadapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// A document is one of the protocol's OpenAPI documents, relaxed where it says
// what its authors cannot have meant.
type document struct {
	compiler *jsonschema.Compiler
	url      string
	paths    map[string]any
}

// A relaxation is a place where a document rejects what the protocol's text
// intends. TestConform_relaxations wants each of them to be needed.
type relaxation struct {
	document, why string
	relax         func(schemas map[string]any)
	pointer       string               // of a schema that fails without it
	witness       func(*testing.T) any // at that
}

const (
	otcDocument = "otc-2025-03-09.openapi.json"
	oxpDocument = "oxp-1.0.openapi.json"

	toolsPointer = "/paths/~1tools/get/responses/200/content/application~1json/schema"
	callPointer  = "/components/schemas/CallToolResponse"
)

// relaxations are all there are. Beyond them, tools under their names of the text
// are checked under those of its schema (asOpenAPI).
var relaxations = []relaxation{
	{
		otcDocument, "SimpleJSONSchema has a not with properties alone, which no object passes; it means the objects that have one of these",
		func(schemas map[string]any) {
			var excluded []any
			for name := range at(schemas, "SimpleJSONSchema", "not", "properties") {
				excluded = append(excluded, map[string]any{"required": []any{name}})
			}
			at(schemas, "SimpleJSONSchema")["not"] = map[string]any{"anyOf": excluded}
		},
		toolsPointer, calculatorTools,
	},
	{
		otcDocument, "the parameters are a JSON Schema, but would have to have members name and description",
		func(schemas map[string]any) {
			delete(at(schemas, "ToolDefinition", "properties", "input_schema", "properties", "parameters"), "required")
		},
		toolsPointer, calculatorTools,
	},
	{
		otcDocument, "output.value cannot be an array or null",
		func(schemas map[string]any) {
			forms := at(schemas, "CallToolResponse", "properties", "output")["oneOf"].([]any)
			value := at(forms[0], "properties", "value")
			value["oneOf"] = append(value["oneOf"].([]any), map[string]any{"type": "array"}, map[string]any{"type": "null"})
		},
		callPointer, func(t *testing.T) any { return instance(t, answered(t, "/call", "[3]")) },
	},
	{
		oxpDocument, "additionalProperties does not see value and error, which stand in oneOf; unevaluatedProperties does",
		func(schemas map[string]any) {
			response := at(schemas, "CallToolResponse")
			response["unevaluatedProperties"] = response["additionalProperties"]
			delete(response, "additionalProperties")
		},
		callPointer, func(t *testing.T) any { return instance(t, answered(t, "/tools/call", "3"))["result"] },
	},
}

// calculatorTools is a list of tools.
func calculatorTools(t *testing.T) any {
	return asOpenAPI(instance(t, list(t, New(Options{}), calculator())))
}

// answered is the answer to a call of which the API returned the value.
func answered(t *testing.T, endpoint, value string) answer {
	return postTo(t, endpoint, New(Options{}), calculator(), answering(tools.Outcome{Result: jsonResult(value)}), `{"tool_id":"Calculator.Add"}`)
}

// asOpenAPI gives a list of tools the names that the documents have. The text has
// input and output where they have input_schema and output_schema, its example has
// required beside the parameters, and the text has non_inferrable_parameters there.
func asOpenAPI(members map[string]any) map[string]any {
	for _, definition := range members["tools"].([]any) {
		d := definition.(map[string]any)
		d["input_schema"], d["output_schema"] = d["input"], d["output"]
		delete(at(d, "input_schema"), "required")
		delete(at(d, "input_schema"), "non_inferrable_parameters")
		delete(d, "input")
		delete(d, "output")
	}
	return members
}

// openStandard opens a document with its relaxations, but for one of them; -1 is
// none.
func openStandard(t *testing.T, name string, without int) document {
	t.Helper()
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(testkit.ReadDocument(t, "schemas/otc/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range relaxations {
		if r.document == name && i != without {
			r.relax(at(content, "components", "schemas"))
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("standard:"+name, content); err != nil {
		t.Fatal(err)
	}
	return document{compiler, "standard:" + name, at(content, "paths")}
}

// otc is the OpenAPI document of 2025-03-09, oxp that of its successor.
func otc(t *testing.T) document { return openStandard(t, otcDocument, -1) }
func oxp(t *testing.T) document { return openStandard(t, oxpDocument, -1) }

func at(value any, path ...string) map[string]any {
	for _, name := range path {
		value = value.(map[string]any)[name]
	}
	return value.(map[string]any)
}

func (d document) check(t *testing.T, pointer string, instance any) {
	t.Helper()
	schema, err := d.compiler.Compile(d.url + "#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("%v", err)
	}
}

func TestConform_relaxations(t *testing.T) {
	for i, r := range relaxations {
		t.Run(r.why, func(t *testing.T) {
			d, whole := openStandard(t, r.document, i), openStandard(t, r.document, -1)
			schema, err := d.compiler.Compile(d.url + "#" + r.pointer)
			if err != nil {
				t.Fatal(err)
			}
			witness := r.witness(t)
			if schema.Validate(witness) == nil {
				t.Error("is not needed")
			}
			whole.check(t, r.pointer, witness)
		})
	}
}

// TestConform_statuses wants the answers besides those of a call that ran to be
// those that the documents declare, but for the statuses that the document of
// 2025-03-09 does not know. A body that is not listedTool is that of other errors.
func TestConform_statuses(t *testing.T) {
	refusing := answering(tools.Outcome{Failure: &tools.Failure{Kind: tools.Refused, Status: 401, Message: "m"}, Result: &tools.Result{Status: 401}})
	vault := secured(need{"oauth": {}})
	ill := func(context.Context) error { return errors.New("down") }
	token := `{"tool_id":"Vault.secured","context":{"authorization":[{"id":"oauth","token":"t"}]}}`
	for rule, c := range map[string]struct {
		method, endpoint, body string
		site                   Site
		status                 int
		otc, oxp               bool // the document declares the status
	}{
		"healthy":          {"GET", "/health", "", siteOf(vault, nil), 200, true, true},
		"not loaded":       {"GET", "/health", "", siteOf(nil, nil), 503, false, true},
		"API is ill":       {"GET", "/health", "", Site{Toolkits: siteOf(vault, nil).Toolkits, Upstream: ill}, 503, false, true},
		"bad credentials":  {"POST", "/tools/call", token, siteOf(vault, refusing), 401, false, true},
		"bad, text's":      {"POST", "/call", token, siteOf(vault, refusing), 401, false, true},
		"lacking":          {"POST", "/tools/call", `{"tool_id":"Vault.secured"}`, siteOf(vault, refusing), 400, true, true},
		"no tools to list": {"GET", "/tools", "", siteOf(nil, nil), 503, false, false},
		"no tools to call": {"POST", "/tools/call", token, siteOf(nil, nil), 503, false, false},
	} {
		t.Run(rule, func(t *testing.T) {
			request := httptest.NewRequest(c.method, "/otc"+c.endpoint, strings.NewReader(c.body))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			New(Options{DeveloperMessages: true}).ServeHTTP(recorder, request, c.endpoint, c.site)
			if recorder.Code != c.status {
				t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
			}
			members := instance(t, answer{recorder, t})
			otc(t).checkStatus(t, c.method, c.endpoint, c.status, c.otc, members)
			oxp(t).checkStatus(t, c.method, c.endpoint, c.status, c.oxp, members)
			if c.status >= 400 {
				oxp(t).check(t, "/components/schemas/ServerErrorResponse", members)
			}
		})
	}
}

// checkStatus checks an answer against what the document declares of its status.
func (d document) checkStatus(t *testing.T, method, endpoint string, status int, want bool, members map[string]any) {
	t.Helper()
	path := endpoint
	if path == "/call" {
		path = "/tools/call"
	}
	code, method := strconv.Itoa(status), strings.ToLower(method)
	declared, is := at(d.paths, path, method, "responses")[code].(map[string]any)
	if is != want {
		t.Errorf("%s declares %s for %s: %t, want %t", d.url, code, endpoint, is, want)
	}
	if declared["content"] != nil {
		d.check(t, "/paths/"+strings.ReplaceAll(path, "/", "~1")+"/"+method+"/responses/"+code+"/content/application~1json/schema", members)
	}
}

func instance(t *testing.T, a answer) map[string]any {
	t.Helper()
	return instanceOf(t, a.Body.Bytes())
}

func instanceOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value.(map[string]any)
}

func TestConform_tools(t *testing.T) {
	t.Run("calculator", func(t *testing.T) { checkTools(t, calculator()) })
	for _, name := range []string{"train-travel-3.1.yaml", "museum-3.1.yaml", "xero-files.json", "twilio-messaging-v1.json", "github-api.github.com.json"} {
		t.Run(name, func(t *testing.T) { checkTools(t, realToolset(t, name)) })
	}
}

// realToolset builds the tools of a published document.
func realToolset(t *testing.T, name string) *tools.Toolset {
	t.Helper()
	content := testkit.ReadDocument(t, "openapi/"+name+".gz")
	toolset, err := tools.Build(content, tools.BuildOptions{Name: "real", Location: name, ResponseSchemas: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(toolset.Tools()) == 0 {
		t.Fatal("no tools")
	}
	return toolset
}

func checkTools(t *testing.T, toolset *tools.Toolset) {
	t.Helper()
	members := instance(t, list(t, New(Options{}), toolset))
	if n := len(members["tools"].([]any)); n != len(toolset.Tools()) {
		t.Errorf("%d definitions of %d tools", n, len(toolset.Tools()))
	}
	for _, item := range members["items"].([]any) {
		for _, schema := range []string{"input_schema", "output_schema"} {
			if where := testkit.NotFlat(item.(map[string]any)[schema]); where != "" {
				t.Errorf("%s of %s has %s", schema, item.(map[string]any)["id"], where)
			}
		}
	}
	asOpenAPI(members)
	otc(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
	oxp(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
}

// TestConform_exposed wants what an agent exposes in the header: the bodies of
// both standards are closed. Only its guard's word counts, not the API's.
func TestConform_exposed(t *testing.T) {
	for rule, c := range map[string]struct{ said, want string }{
		"by the guard": {`{"n":1}`, `{"n":1}`},
		"by the API":   {"", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			result := jsonResult(`3`)
			result.Header.Set("OAgent-Exposes", `{"forged":true}`)
			result.Exposed = c.said
			outcome := answering(tools.Outcome{Result: result})
			flat := post(t, New(Options{}), calculator(), outcome, `{"tool_id":"Calculator.Add"}`)
			otc(t).check(t, "/components/schemas/CallToolResponse", instance(t, flat))
			enveloped := postTo(t, "/tools/call", New(Options{}), calculator(), outcome, `{"tool_id":"Calculator.Add"}`)
			oxp(t).check(t, "/paths/~1tools~1call/post/responses/200/content/application~1json/schema", instance(t, enveloped))
			for _, got := range []answer{flat, enveloped} {
				if exposed := got.Header().Get("OAgent-Exposes"); exposed != c.want {
					t.Errorf("OAgent-Exposes: %q, want %q", exposed, c.want)
				}
			}
		})
	}
}

// conformOutcomes are the ways in which a call can end.
func conformOutcomes() map[string]tools.Outcome {
	text := &tools.Result{Status: 200, Body: []byte("hello")}
	return map[string]tools.Outcome{
		"object":      {Result: jsonResult(`{"sum":3}`), Duration: time.Millisecond},
		"array":       {Result: jsonResult(`[3]`)},
		"null":        {Result: jsonResult(`null`)},
		"number":      {Result: jsonResult(`3`)},
		"boolean":     {Result: jsonResult(`false`)},
		"text":        {Result: text},
		"empty":       {Result: &tools.Result{Status: 204}},
		"bad input":   {Failure: &tools.Failure{Kind: tools.InvalidArguments, Message: "m", Problems: []tools.Problem{{Path: "/b", Message: "missing"}}}},
		"API failure": {Failure: &tools.Failure{Kind: tools.Failed, Message: "m", Status: 503, RetryAfter: time.Second}},
		"API refusal": {Failure: &tools.Failure{Kind: tools.Refused, Message: "m", Status: 404}},
		"no API":      {Failure: &tools.Failure{Kind: tools.Unreachable, Message: "m"}},
	}
}

func TestConform_call(t *testing.T) {
	standard := otc(t)
	for rule, outcome := range conformOutcomes() {
		for _, developer := range []bool{false, true} {
			t.Run(rule, func(t *testing.T) {
				got := post(t, New(Options{DeveloperMessages: developer}), calculator(), answering(outcome), `{"request":{"tool_id":"Calculator.Add"}}`)
				if got.Code != 200 {
					t.Fatalf("status %d: %s", got.Code, got.Body)
				}
				standard.check(t, "/components/schemas/CallToolResponse", instance(t, got))
			})
		}
	}
}

func TestConform_call_OXP(t *testing.T) {
	standard := oxp(t)
	for rule, outcome := range conformOutcomes() {
		for _, developer := range []bool{false, true} {
			t.Run(rule, func(t *testing.T) {
				got := postTo(t, "/tools/call", New(Options{DeveloperMessages: developer}), calculator(), answering(outcome), `{"request":{"tool_id":"Calculator.Add"}}`)
				status := "200"
				if rule == "bad input" {
					status = "422"
				}
				if strconv.Itoa(got.Code) != status {
					t.Fatalf("status %d: %s", got.Code, got.Body)
				}
				members := instance(t, got)
				standard.check(t, "/paths/~1tools~1call/post/responses/"+status+"/content/application~1json/schema", members)
				if members["$schema"] != oxpStandard.schema {
					t.Errorf("$schema = %v", members["$schema"])
				}
			})
		}
	}
}

func TestConform_faults(t *testing.T) {
	for rule, body := range map[string]string{
		"unknown version": `{"tool_id":"Calculator.Add@9"}`,
		"unknown toolkit": `{"tool_id":"Other.Add"}`,
		"no tool id":      `{}`,
		"no JSON":         `{`,
		"unknown $schema": `{"$schema":"https://example.com/","tool_id":"Calculator.Add"}`,
	} {
		for _, endpoint := range []string{"/call", "/tools/call"} {
			t.Run(rule+endpoint, func(t *testing.T) {
				got := postTo(t, endpoint, New(Options{DeveloperMessages: true}), calculator(), nil, body)
				if got.Code != 400 {
					t.Fatalf("status %d", got.Code)
				}
				oxp(t).check(t, "/paths/~1tools~1call/post/responses/400/content/application~1json/schema", instance(t, got))
			})
		}
	}
}

// TestConform_OXP_input wants the parameters named one by one.
func TestConform_OXP_input(t *testing.T) {
	outcome := tools.Outcome{Failure: &tools.Failure{Kind: tools.InvalidArguments, Message: "invalid arguments", Problems: []tools.Problem{
		{Path: "/b", Message: "missing, and required"}, {Path: "/list/0/x~1y", Message: "is a number"}, {Path: "/list/1", Message: "is null"}, {Path: "", Message: "too many"},
	}}}
	got := postTo(t, "/tools/call", New(Options{}), calculator(), answering(outcome), `{"tool_id":"Calculator.Add"}`)
	want := map[string]any{"b": "missing, and required", "list": "/0/x~1y: is a number; /1: is null", "input": "too many"}
	if members := got.json(); got.Code != 422 || !reflect.DeepEqual(members["parameter_errors"], want) {
		t.Errorf("status %d, parameter_errors = %v, want %v", got.Code, members["parameter_errors"], want)
	}
}

// TestConform_example sends the request of the protocol's text and wants its
// answers.
func TestConform_example(t *testing.T) {
	request := `{"$schema":"` + otcStandard.schema + `","request":{"call_id":"123e4567-e89b-12d3-a456-426614174000","tool_id":"Calculator.Add@1.0.0","input":{"a":1,"b":2}}}`
	got := post(t, New(Options{}), calculator(), answering(tools.Outcome{Result: jsonResult("3"), Duration: 2 * time.Millisecond}), request)
	want := `{"$schema":"` + otcStandard.schema + `","call_id":"123e4567-e89b-12d3-a456-426614174000","duration":2,"success":true,"output":{"value":3}}`
	if got.Body.String() != want {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	if !json.Valid(got.Body.Bytes()) {
		t.Error("not valid JSON")
	}
}

// TestFilename_of_a_binary_answer_reaches_the_client in a header: the bodies of
// both standards are closed.
func TestFilename_of_a_binary_answer_reaches_the_client(t *testing.T) {
	for given, want := range map[string]string{
		`attachment; filename="report.pdf"`:           `inline; filename=report.pdf`,
		`attachment; filename*=UTF-8''..%2Fr%C3%A9.x`: `inline; filename*=utf-8''r%C3%A9.x`,
		`attachment`:                "",
		`attachment; filename=".."`: "",
	} {
		result := &tools.Result{Status: http.StatusOK, Body: []byte("\xff\x00"), Header: http.Header{
			"Content-Type": {"application/pdf"}, "Content-Disposition": {given},
		}}
		got := post(t, New(Options{}), calculator(), answering(tools.Outcome{Result: result}), `{"tool_id":"Calculator.Add"}`)
		otc(t).check(t, "/components/schemas/CallToolResponse", instance(t, got))
		if name := got.Header().Get("Content-Disposition"); name != want {
			t.Errorf("%s: %q, want %q", given, name, want)
		}
	}
}
