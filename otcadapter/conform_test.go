package otcadapter

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/ocp"
)

// A standard is one of the protocol's OpenAPI documents, relaxed where it says
// what its authors cannot have meant.
type standard struct {
	compiler *jsonschema.Compiler
	url      string
}

func openStandard(t *testing.T, name string, relax func(schemas map[string]any)) standard {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(shared.Read(t, "schemas/otc/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	relax(at(document, "components", "schemas"))
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("standard:"+name, document); err != nil {
		t.Fatal(err)
	}
	return standard{compiler, "standard:" + name}
}

func at(value any, path ...string) map[string]any {
	for _, name := range path {
		value = value.(map[string]any)[name]
	}
	return value.(map[string]any)
}

func (s standard) check(t *testing.T, pointer string, instance any) {
	t.Helper()
	schema, err := s.compiler.Compile(s.url + "#" + pointer)
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
func otc(t *testing.T) standard {
	return openStandard(t, "otc-2025-03-09.openapi.json", func(schemas map[string]any) {
		delete(at(schemas, "SimpleJSONSchema"), "not")
		delete(at(schemas, "ToolDefinition", "properties", "input_schema", "properties", "parameters"), "required")
		forms := at(schemas, "CallToolResponse", "properties", "output")["oneOf"].([]any)
		delete(at(forms[0], "properties", "value"), "oneOf")
	})
}

// oxp is the OpenAPI document of the successor.
func oxp(t *testing.T) standard {
	return openStandard(t, "oxp-1.0.openapi.json", func(map[string]any) {})
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
	document := shared.Read(t, "openapi/"+name+".gz")
	tools, err := ocp.Build(document, ocp.BuildOptions{Name: "real", Location: name})
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
		// output_schema, and its example has required beside the parameters.
		d := definition.(map[string]any)
		d["input_schema"], d["output_schema"] = d["input"], d["output"]
		delete(at(d, "input_schema"), "required")
		delete(d, "input")
		delete(d, "output")
	}
	otc(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
	oxp(t).check(t, "/paths/~1tools/get/responses/200/content/application~1json/schema", members)
}

func TestConform_call(t *testing.T) {
	text := &ocp.Result{Status: 200, Body: []byte("hello")}
	outcomes := map[string]ocp.Outcome{
		"object":      {Result: jsonResult(`{"sum":3}`), Duration: time.Millisecond},
		"array":       {Result: jsonResult(`[3]`)},
		"null":        {Result: jsonResult(`null`)},
		"number":      {Result: jsonResult(`3`)},
		"text":        {Result: text},
		"empty":       {Result: &ocp.Result{Status: 204}},
		"bad input":   {Failure: &ocp.Failure{Kind: ocp.InvalidArguments, Message: "m", Problems: []ocp.Problem{{Path: "/b", Message: "missing"}}}},
		"API failure": {Failure: &ocp.Failure{Kind: ocp.Failed, Message: "m", Status: 503, RetryAfter: time.Second}},
	}
	standard := otc(t)
	for rule, outcome := range outcomes {
		t.Run(rule, func(t *testing.T) {
			got := post(t, New(Options{}), calculator(), answering(outcome), `{"request":{"tool_id":"Calculator.Add"}}`)
			standard.check(t, "/components/schemas/CallToolResponse", instance(t, got))
		})
	}
}

func TestConform_faults(t *testing.T) {
	got := post(t, New(Options{}), calculator(), nil, `{"tool_id":"Calculator.Add@9"}`)
	if got.Code != 400 {
		t.Fatalf("status %d", got.Code)
	}
	oxp(t).check(t, "/components/schemas/ServerErrorResponse", instance(t, got))
}

// TestConform_example sends the request of the protocol's text and wants its
// answers.
func TestConform_example(t *testing.T) {
	const request = `{"$schema":"` + schemaURI + `","request":{"call_id":"123e4567-e89b-12d3-a456-426614174000","tool_id":"Calculator.Add@1.0.0","input":{"a":1,"b":2}}}`
	got := post(t, New(Options{}), calculator(), answering(ocp.Outcome{Result: jsonResult("3"), Duration: 2 * time.Millisecond}), request)
	const want = `{"$schema":"` + schemaURI + `","call_id":"123e4567-e89b-12d3-a456-426614174000","duration":2,"success":true,"output":{"value":3}}`
	if got.Body.String() != want {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	if !json.Valid(got.Body.Bytes()) {
		t.Error("not valid JSON")
	}
}
