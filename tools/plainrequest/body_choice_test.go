package plainrequest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
)

// withBody returns a document with one operation, whose request body has the media
// types in content.
func withBody(method, content string) string {
	return `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"` + method + `":{"operationId":"a",
		"requestBody":{"required":true,"content":{` + content + `}},"responses":{"200":{"description":"OK"}}}}}}`
}

const (
	named      = `{"schema":{"type":"object","properties":{"name":{"type":"string"}}}}`
	anyObject  = `{"schema":{"type":"object"}}`
	operations = `{"schema":{"type":"array","items":{"type":"object","required":["op","path"],"properties":{"op":{"type":"string"},"path":{"type":"string"},"value":{}}}}}`
	textArray  = `{"schema":{"type":"array","items":{"type":"string"}}}`
)

// TestBody_takes_the_media_type_that_its_schema_fits sends a call and reads the
// request back, as a plain request is read.
func TestBody_takes_the_media_type_that_its_schema_fits(t *testing.T) {
	for _, c := range []struct{ rule, content, arguments, want string }{
		{"any type with an object", `"*/*":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/json | {"name":"x"}`},
		{"any type with any object", `"*/*":` + anyObject, `{"body":{"b":1}}`, `PATCH /a | Content-Type: application/json | {"b":1}`},
		{"any type with an array", `"*/*":` + textArray, `{"body":["b"]}`, `PATCH /a | Content-Type: application/json | ["b"]`},
		{"any application type", `"application/*":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/json | {"name":"x"}`},
		{"any JSON type", `"application/*+json":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/json | {"name":"x"}`},
		{"any type with bytes", `"*/*":{"schema":{"type":"string","format":"binary"}}`, `{"body":{"data":"aGk=","type":"image/png"}}`, `PATCH /a | Content-Type: image/png | hi`},
		{"any type without a schema", `"*/*":{}`, `{"body":{"data":"aGk="}}`, `PATCH /a | Content-Type: application/octet-stream | hi`},
		{"any application type with bytes", `"application/*":{"schema":{"type":"string","format":"binary"}}`, `{"body":{"data":"aGk="}}`, `PATCH /a | Content-Type: application/octet-stream | hi`},
		{"an object is no JSON Patch", `"application/json-patch+json":` + named + `,"application/merge-patch+json":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/merge-patch+json | {"name":"x"}`},
		{"an object is no JSON Patch beside JSON", `"application/json-patch+json":` + named + `,"text/json":` + named + `,"application/json":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/json | {"name":"x"}`},
		{"operations are a JSON Patch", `"application/merge-patch+json":` + operations + `,"application/json-patch+json":` + operations, `{"body":[{"op":"remove","path":"/a"}]}`, `PATCH /a | Content-Type: application/json-patch+json | [{"op":"remove","path":"/a"}]`},
		{"names are no JSON Patch", `"application/json-patch+json":` + textArray + `,"text/json":` + textArray, `{"body":["b"]}`, `PATCH /a | Content-Type: text/json | ["b"]`},
		{"JSON Patch alone", `"application/json-patch+json":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/json-patch+json | {"name":"x"}`},
		{"a merge patch before a form", `"application/x-www-form-urlencoded":` + named + `,"application/merge-patch+json":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/merge-patch+json | {"name":"x"}`},
		{"a form before what does not fit", `"application/json-patch+json":` + named + `,"application/x-www-form-urlencoded":` + named, `{"name":"x"}`, `PATCH /a | Content-Type: application/x-www-form-urlencoded | name=x`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			toolset := buildTools(t, withBody("patch", c.content), tools.BuildOptions{})
			tool, ok := toolset.Tool("a")
			if !ok {
				t.Fatalf("no tool: %+v", toolset.Report.Warnings)
			}
			if tool.Takes("content_type") {
				t.Error("there is an argument for the type of the body, and nothing to choose")
			}
			checkSent(t, tool, c.arguments, c.want)
		})
	}
}

// checkSent checks the request of a call, and that the request is read back to
// the same arguments.
func checkSent(t *testing.T, called *tools.Tool, arguments, want string) {
	t.Helper()
	call, err := called.Bind([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	request, err := call.Request(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := testkit.RequestText(t, request); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if request, err = call.Request(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, call, request, []byte(arguments))
}

func TestBody_offers_patch_types_that_mean_something_else(t *testing.T) {
	all := `"application/json-patch+json":` + anyObject + `,"application/strategic-merge-patch+json":` + anyObject +
		`,"application/merge-patch+json":` + anyObject + `,"application/apply-patch+yaml":` + anyObject
	tool, _ := buildTools(t, withBody("patch", all), tools.BuildOptions{}).Tool("a")
	var schema struct {
		Properties struct {
			Type struct {
				Enum    []string
				Default string
			} `json:"content_type"`
		}
		Required []string
	}
	if err := json.Unmarshal(tool.Definition.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if got := schema.Properties.Type; !slices.Equal(got.Enum, []string{"application/strategic-merge-patch+json", "application/merge-patch+json"}) || got.Default != "application/strategic-merge-patch+json" {
		t.Errorf("content_type is %+v", got)
	}
	if !slices.Equal(schema.Required, []string{"body"}) {
		t.Errorf("required are %v", schema.Required)
	}
	checkSent(t, tool, `{"body":{"b":1}}`, `PATCH /a | Content-Type: application/strategic-merge-patch+json | {"b":1}`)
	checkSent(t, tool, `{"body":{"b":1},"content_type":null}`, `PATCH /a | Content-Type: application/strategic-merge-patch+json | {"b":1}`)
	checkSent(t, tool, `{"body":{"b":1},"content_type":"application/merge-patch+json"}`, `PATCH /a | Content-Type: application/merge-patch+json | {"b":1}`)
	if _, err := tool.Bind([]byte(`{"body":{},"content_type":"application/json-patch+json"}`)); err == nil {
		t.Error("a type that the schema does not fit is accepted")
	}
}

// TestBody_type_argument_clashes_with_no_property keeps the property's name.
func TestBody_type_argument_clashes_with_no_property(t *testing.T) {
	property := `{"schema":{"type":"object","properties":{"content_type":{"type":"string"}}}}`
	tool, _ := buildTools(t, withBody("patch", `"application/json":`+property+`,"application/merge-patch+json":`+property), tools.BuildOptions{}).Tool("a")
	checkSent(t, tool, `{"content_type":"x"}`, `PATCH /a | Content-Type: application/json | {"content_type":"x"}`)
	i := tool.Plan.Body.TypeArgument
	checkSent(t, tool, `{"content_type":"x","`+tool.Definition.Arguments[i].Name+`":"application/merge-patch+json"}`,
		`PATCH /a | Content-Type: application/merge-patch+json | {"content_type":"x"}`)
}

// TestBody_of_an_optional_type_is_sent_only_with_content keeps an optional body
// optional, though its type has a default.
func TestBody_of_an_optional_type_is_sent_only_with_content(t *testing.T) {
	document := strings.Replace(withBody("patch", `"application/strategic-merge-patch+json":`+named+`,"application/merge-patch+json":`+named), `"required":true,`, "", 1)
	tool, _ := buildTools(t, document, tools.BuildOptions{}).Tool("a")
	call, err := tool.Bind([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request, err := call.Request(context.Background())
	if err != nil || request.Header.Get("Content-Type") != "" || request.ContentLength != 0 {
		t.Errorf("%v, %v", request, err)
	}
}

// TestReadRequest_refuses_a_body_type_that_a_call_cannot_send holds plain requests
// to what is known of their body.
func TestReadRequest_refuses_a_body_type_that_a_call_cannot_send(t *testing.T) {
	patches := `"application/json-patch+json":` + anyObject + `,"application/strategic-merge-patch+json":` + anyObject +
		`,"application/merge-patch+json":` + anyObject + `,"application/apply-patch+yaml":` + anyObject
	for _, c := range []struct{ rule, content, contentType, body, want string }{
		{"a choice", patches, "application/merge-patch+json; charset=utf-8", `{"b":1}`, `{"content_type":"application/merge-patch+json","body":{"b":1}}`},
		{"the default", patches, "application/strategic-merge-patch+json", `{"b":1}`, `{"content_type":"application/strategic-merge-patch+json","body":{"b":1}}`},
		{"a JSON Patch", patches, "application/json-patch+json", `{"b":1}`, ""},
		{"YAML", patches, "application/apply-patch+yaml", `b: 1`, ""},
		{"JSON of any type", `"*/*":` + named, "application/json", `{"name":"x"}`, `{"name":"x"}`},
		{"JSON of another type", `"*/*":` + named, "application/vnd.a+json", `{"name":"x"}`, `{"name":"x"}`},
		{"JSON by name only", `"*/*":` + named, "application/json", `name: x`, ""},
		{"YAML of any type", `"*/*":` + named, "application/yaml", `{"name":"x"}`, ""},
		{"bytes of any type", `"*/*":` + named, "application/octet-stream", `{"name":"x"}`, ""},
		{"no type", `"*/*":` + named, "", `{"name":"x"}`, ""},
		{"a type of another range", `"application/*":` + named, "text/json", `{"name":"x"}`, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			tool, _ := buildTools(t, withBody("patch", c.content), tools.BuildOptions{}).Tool("a")
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPatch, "/a", nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			arguments, err := reader.ReadRequest(tool, r, []byte(c.body))
			var refused *match.RequestError
			if c.want == "" && !errors.As(err, &refused) || c.want != "" && (err != nil || string(arguments) != c.want) {
				t.Errorf("got %s, %v; want %s", arguments, err, c.want)
			}
		})
	}
}

func TestBuild_notes_body_types_that_it_guessed(t *testing.T) {
	for content, want := range map[string]int{`"*/*":` + named: 1, `"application/json":` + named + `,"*/*":` + named: 0, `"*/*":{}`: 1, `"image/*":{}`: 0} {
		toolset := buildTools(t, withBody("post", content), tools.BuildOptions{})
		if len(toolset.Report.Guesses) != want || want > 0 && toolset.Report.Guesses[0].Operation != "POST /a" || len(toolset.Report.Warnings) > 0 {
			t.Errorf("%s: guesses %+v, warnings %+v", content, toolset.Report.Guesses, toolset.Report.Warnings)
		}
	}
}

// TestKubernetes_objects_are_sent_as_objects holds every create, replace and patch
// of the real document to a body that the API server can read.
func TestKubernetes_objects_are_sent_as_objects(t *testing.T) {
	const name = "kubernetes-1.33-swagger-2.0.json"
	toolset := buildTools(t, string(testkit.ReadDocument(t, "openapi/"+name+".gz")), tools.BuildOptions{Name: "kubernetes"})
	patches, objects := 0, 0
	for _, tool := range toolset.Tools() {
		if tool.Plan.Body == nil {
			continue
		}
		objects++
		if got := tool.Plan.Body.Encoder.ContentType(); tool.Plan.Method != "PATCH" && got != "application/json" {
			t.Errorf("%s sends %s", tool.Name, got)
		}
		if tool.Plan.Method != "PATCH" {
			continue
		}
		patches++
		checkBodyType(t, tool, "", "application/merge-patch+json")
		checkBodyType(t, tool, "application/strategic-merge-patch+json", "application/strategic-merge-patch+json")
	}
	if patches != 120 || objects < 370 || len(toolset.Report.Guesses) != objects-patches {
		t.Errorf("%d patches, %d bodies, %d guesses", patches, objects, len(toolset.Report.Guesses))
	}
}

// TestKubernetes_ports_are_integers_or_strings sends both to the operations of the real document.
func TestKubernetes_ports_are_integers_or_strings(t *testing.T) {
	toolset := buildTools(t, string(testkit.ReadDocument(t, "openapi/kubernetes-1.33-swagger-2.0.json.gz")), tools.BuildOptions{Name: "kubernetes"})
	create, _ := toolset.Tool("createCoreV1NamespacedService")
	for _, port := range []string{`8080`, `"http"`} {
		call, err := create.Bind([]byte(`{"namespace":"n","spec":{"ports":[{"port":80,"targetPort":` + port + `}]}}`))
		if err != nil {
			t.Errorf("%s: %v", port, err)
			continue
		}
		request, err := call.Request(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(request.Body); !strings.Contains(string(body), `"targetPort":`+port+`}`) {
			t.Errorf("%s: the request has the body %s", port, body)
		}
	}
	if _, err := create.Bind([]byte(`{"namespace":"n","spec":{"ports":[{"port":80,"targetPort":true}]}}`)); err == nil {
		t.Error("a boolean is accepted")
	}
	for _, schema := range []string{`{"type":"string","format":"int-or-string"}`, `{"x-kubernetes-int-or-string":true}`, `{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}`} {
		document := withBody("post", `"application/json":{"schema":{"type":"object","properties":{"p":`+schema+`}}}`)
		for value, valid := range map[string]bool{`1`: true, `"a"`: true, `1.5`: false, `[]`: false} {
			if _, err := buildTools(t, document, tools.BuildOptions{}).Tools()[0].Bind([]byte(`{"p":` + value + `}`)); (err == nil) != valid {
				t.Errorf("%s with %s: %v", schema, value, err)
			}
		}
	}
}

// checkBodyType calls a PATCH with a chosen type, "" for none.
func checkBodyType(t *testing.T, called *tools.Tool, chosen, want string) {
	t.Helper()
	arguments := map[string]any{"body": map[string]any{"spec": map[string]any{"replicas": 3}}}
	for _, a := range called.Definition.Arguments {
		if a.In == tools.InPath {
			arguments[a.Name] = "x"
		}
	}
	if chosen != "" {
		arguments["content_type"] = chosen
	}
	text, _ := json.Marshal(arguments)
	call, err := called.Bind(text)
	if err != nil {
		t.Errorf("%s: %v", called.Name, err)
		return
	}
	request, err := call.Request(context.Background())
	if err != nil || request.Header.Get("Content-Type") != want {
		t.Errorf("%s %q: %v, %v", called.Name, chosen, request, err)
	}
}
