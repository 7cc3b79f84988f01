package otcadapter

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/ocp"
)

// A document is one of the protocol's OpenAPI documents, relaxed where it says
// what its authors cannot have meant.
type document struct {
	compiler *jsonschema.Compiler
	url      string
}

func openStandard(t *testing.T, name string, relax func(schemas map[string]any)) document {
	t.Helper()
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(shared.Read(t, "schemas/otc/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	relax(at(content, "components", "schemas"))
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("standard:"+name, content); err != nil {
		t.Fatal(err)
	}
	return document{compiler, "standard:" + name}
}

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

// otc is the OpenAPI document of 2025-03-09. Relaxed are the two places that
// reject what the protocol's text intends: the schemas of parameters, whose "not"
// no object passes and which would have to have the members name and description
// themselves, and output.value, which may be an array or null too.
func otc(t *testing.T) document {
	return openStandard(t, "otc-2025-03-09.openapi.json", func(schemas map[string]any) {
		delete(at(schemas, "SimpleJSONSchema"), "not")
		delete(at(schemas, "ToolDefinition", "properties", "input_schema", "properties", "parameters"), "required")
		forms := at(schemas, "CallToolResponse", "properties", "output")["oneOf"].([]any)
		delete(at(forms[0], "properties", "value"), "oneOf")
	})
}

// oxp is the OpenAPI document of the successor. Relaxed is the place that no answer
// with a value or an error can pass: additionalProperties does not see that these
// two stand in oneOf, which unevaluatedProperties does.
func oxp(t *testing.T) document {
	return openStandard(t, "oxp-1.0.openapi.json", func(schemas map[string]any) {
		response := at(schemas, "CallToolResponse")
		response["unevaluatedProperties"] = response["additionalProperties"]
		delete(response, "additionalProperties")
	})
}

func instance(t *testing.T, a answer) map[string]any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return value.(map[string]any)
}

func TestConform_tools(t *testing.T) {
	t.Run("calculator", func(t *testing.T) { checkTools(t, calculator()) })
	for _, name := range []string{"train-travel-3.1.yaml", "museum-3.1.yaml", "xero-files.json"} {
		t.Run(name, func(t *testing.T) { checkTools(t, realToolset(t, name)) })
	}
}

// realToolset builds the tools of a published document.
func realToolset(t *testing.T, name string) *ocp.Toolset {
	t.Helper()
	content := shared.Read(t, "openapi/"+name+".gz")
	tools, err := ocp.Build(content, ocp.BuildOptions{Name: "real", Location: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(tools.Tools()) == 0 {
		t.Fatal("no tools")
	}
	return tools
}

func checkTools(t *testing.T, tools *ocp.Toolset) {
	t.Helper()
	members := instance(t, list(t, New(Options{}), tools))
	if n := len(members["tools"].([]any)); n != len(tools.Tools()) {
		t.Errorf("%d definitions of %d tools", n, len(tools.Tools()))
	}
	for _, definition := range members["tools"].([]any) {
		// The text has input and output where its schema has input_schema and
		// output_schema, its example has required beside the parameters, and the
		// text has non_inferrable_parameters there.
		d := definition.(map[string]any)
		d["input_schema"], d["output_schema"] = d["input"], d["output"]
		delete(at(d, "input_schema"), "required")
		delete(at(d, "input_schema"), "non_inferrable_parameters")
		delete(d, "input")
		delete(d, "output")
	}
	otc(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
	oxp(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
}

// conformOutcomes are the ways in which a call can end.
func conformOutcomes() map[string]ocp.Outcome {
	text := &ocp.Result{Status: 200, Body: []byte("hello")}
	return map[string]ocp.Outcome{
		"object":      {Result: jsonResult(`{"sum":3}`), Duration: time.Millisecond},
		"array":       {Result: jsonResult(`[3]`)},
		"null":        {Result: jsonResult(`null`)},
		"number":      {Result: jsonResult(`3`)},
		"boolean":     {Result: jsonResult(`false`)},
		"text":        {Result: text},
		"empty":       {Result: &ocp.Result{Status: 204}},
		"bad input":   {Failure: &ocp.Failure{Kind: ocp.InvalidArguments, Message: "m", Problems: []ocp.Problem{{Path: "/b", Message: "missing"}}}},
		"API failure": {Failure: &ocp.Failure{Kind: ocp.Failed, Message: "m", Status: 503, RetryAfter: time.Second}},
		"API refusal": {Failure: &ocp.Failure{Kind: ocp.Refused, Message: "m", Status: 404}},
		"no API":      {Failure: &ocp.Failure{Kind: ocp.Unreachable, Message: "m"}},
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
	outcome := ocp.Outcome{Failure: &ocp.Failure{Kind: ocp.InvalidArguments, Message: "invalid arguments", Problems: []ocp.Problem{
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
	got := post(t, New(Options{}), calculator(), answering(ocp.Outcome{Result: jsonResult("3"), Duration: 2 * time.Millisecond}), request)
	want := `{"$schema":"` + otcStandard.schema + `","call_id":"123e4567-e89b-12d3-a456-426614174000","duration":2,"success":true,"output":{"value":3}}`
	if got.Body.String() != want {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	if !json.Valid(got.Body.Bytes()) {
		t.Error("not valid JSON")
	}
}
