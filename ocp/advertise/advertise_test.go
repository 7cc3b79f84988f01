package advertise_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/ocp/advertise"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// trips is a document that says more of itself than a site may repeat.
const trips = `
openapi: 3.1.0
x-ocp-enabled: false
info:
  title: Trips
  version: "1"
  x-ocp-context-aware: true
  x-ocp-agent-types: [planner]
servers:
  - url: https://{region}.example.com/v1
paths:
  x-note: kept
  /trips/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get:
      operationId: getTrip
      x-ocp-context:
        enhances_with: [agent_goal, mood]
        updates_context: [current_goal, recent_changes, weather]
        requires_context: true
        x-note: kept
      x-ocp-enhanced-response:
        next_actions: {type: array, items: {$ref: '#/components/schemas/Action'}}
        forecast: {type: string}
      responses:
        '200':
          description: The trip
          x-ocp-enhanced-response: {type: object, properties: {match: {type: object}}}
        default: {$ref: '#/components/responses/Problem'}
  /trips:
    get:
      operationId: listTrips
      responses: {'200': {description: Trips, x-ocp-context-updated: true}}
components:
  schemas:
    Action: {type: string}
  responses:
    Problem: {description: A problem}
`

func toolset(t testing.TB, data []byte) *tools.Toolset {
	t.Helper()
	set, err := tools.Build(data, tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func enhancer(t testing.TB, properties ...enhance.Property) *enhance.Enhancer {
	t.Helper()
	e, err := enhance.Compile(properties, enhance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// document renders data and returns both forms, read again.
func document(t testing.TB, data []byte, site advertise.Site) (asJSON, asYAML *openapi.Node) {
	t.Helper()
	j, y, err := advertise.Document(data, advertise.Options{}, site)
	if err != nil {
		t.Fatal(err)
	}
	if asJSON, err = openapi.Parse(j, openapi.Limits{}); err != nil {
		t.Fatal(err)
	}
	if asYAML, err = openapi.Parse(y, openapi.Limits{}); err != nil {
		t.Fatal(err)
	}
	return asJSON, asYAML
}

// at returns a value as JSON, "" if it is absent.
func at(n *openapi.Node, path ...string) string {
	for _, name := range path {
		if n = n.Get(name); n == nil {
			return ""
		}
	}
	return string(n.AppendJSON(nil))
}

func TestFlags(t *testing.T) {
	set := toolset(t, []byte(trips))
	both := enhancer(t,
		enhance.Property{Name: "next_actions", Expression: `[ocp.current_goal]`, Declared: true},
		enhance.Property{Name: "seen", Expression: `size(ocp.history) > 0 && has(ocp.user)`})
	get := []string{"paths", "/trips/{id}", "get"}
	list := []string{"paths", "/trips", "get"}
	const actions = `"next_actions":{"type":"array","items":{"$ref":"#/components/schemas/Action"}}`
	const forecast = `"forecast":{"type":"string"}`
	const match = `"match":{"type":"object"}`
	const seen = `"seen":{"type":"boolean"}`
	for name, test := range map[string]struct {
		site advertise.Site
		want map[string]string // by a path joined by spaces
	}{
		"a site that ignores context": {advertise.Site{}, map[string]string{
			"info":          `{"title":"Trips","version":"1","x-ocp-context-aware":false,"x-ocp-agent-types":["planner"],"x-ocp-enabled":true,"x-ocp-version":"1.0"}`,
			"x-ocp-enabled": "",
			strings.Join(get, " ") + " x-ocp-context":           `{"x-note":"kept"}`,
			strings.Join(get, " ") + " x-ocp-enhanced-response": "",
			strings.Join(get, " ") + " responses 200":           `{"description":"The trip"}`,
			strings.Join(list, " ") + " responses 200":          `{"description":"Trips"}`,
			"paths x-note": `"kept"`,
			"servers":      `[{"url":"https://{region}.example.com/v1"}]`,
		}},
		"a site that lets context through": {advertise.Site{Forwards: true, Toolset: set}, map[string]string{
			"info x-ocp-context-aware":                          "true",
			strings.Join(get, " ") + " x-ocp-context":           `{"enhances_with":["agent_goal"],"updates_context":["current_goal","recent_changes"],"requires_context":true,"x-note":"kept"}`,
			strings.Join(get, " ") + " x-ocp-enhanced-response": `{` + actions + `,` + forecast + `,` + match + `}`,
			strings.Join(list, " ") + " x-ocp-context":          "",
			strings.Join(list, " ") + " responses 200":          `{"description":"Trips","x-ocp-context-updated":true}`,
		}},
		"a site that replies": {advertise.Site{Replies: true, Toolset: set}, map[string]string{
			"info x-ocp-context-aware":                    "true",
			strings.Join(get, " ") + " x-ocp-context":     `{"updates_context":["recent_changes","history"],"x-note":"kept"}`,
			strings.Join(list, " ") + " x-ocp-context":    `{"updates_context":["history"]}`,
			strings.Join(get, " ") + " responses default": `{"$ref":"#/components/responses/Problem"}`,
			"components responses Problem":                `{"description":"A problem","x-ocp-context-updated":true}`,
		}},
		"a site that enhances": {advertise.Site{Enhancer: both, Toolset: set, Requires: true}, map[string]string{
			"info x-ocp-context-aware":                           "true",
			strings.Join(get, " ") + " x-ocp-context":            `{"enhances_with":["agent_goal","conversation_history"],"requires_context":true,"x-note":"kept"}`,
			strings.Join(get, " ") + " x-ocp-enhanced-response":  `{` + actions + `,` + seen + `}`,
			strings.Join(list, " ") + " x-ocp-context":           `{"enhances_with":["conversation_history"]}`,
			strings.Join(list, " ") + " x-ocp-enhanced-response": `{` + seen + `}`,
		}},
		"agent types and base path": {advertise.Site{AgentTypes: []string{"ide", "cli", "ide"}, BasePath: "/api"}, map[string]string{
			"info x-ocp-agent-types": `["ide","cli"]`,
			"servers":                `[{"url":"/api"}]`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			asJSON, asYAML := document(t, []byte(trips), test.site)
			for path, want := range test.want {
				if got := at(asJSON, strings.Fields(path)...); got != want {
					t.Errorf("%s\ngot  %s\nwant %s", path, got, want)
				}
			}
			if j, y := at(asJSON), at(asYAML); j != y {
				t.Errorf("JSON %s\nYAML %s", j, y)
			}
			conforms(t, asJSON)
		})
	}
}

func TestSwagger(t *testing.T) {
	const old = `{"swagger":"2.0","info":{"title":"A","version":"1"},"host":"api.example.com","schemes":["https"],"basePath":"/v1",
		"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"A"},"404":{"$ref":"#/responses/gone"}}}}},
		"responses":{"gone":{"description":"Gone"}}}`
	asJSON, _ := document(t, []byte(old), advertise.Site{
		Replies: true, BasePath: "/api", Toolset: toolset(t, []byte(old)),
		Enhancer: enhancer(t, enhance.Property{Name: "hint", Expression: `"for " + ocp.agent_type`}),
	})
	const want = `{"swagger":"2.0","info":{"title":"A","version":"1","x-ocp-enabled":true,"x-ocp-context-aware":true,"x-ocp-version":"1.0"},"basePath":"/api",` +
		`"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"A","x-ocp-context-updated":true},"404":{"$ref":"#/responses/gone"}},` +
		`"x-ocp-context":{"updates_context":["history"]},"x-ocp-enhanced-response":{"hint":{"type":"string"}}}}},` +
		`"responses":{"gone":{"description":"Gone","x-ocp-context-updated":true}}}`
	if got := at(asJSON); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	conforms(t, asJSON)
}

func TestPath_item_reference(t *testing.T) {
	const shared = `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"$ref":"#/components/pathItems/A"}},
		"components":{"pathItems":{"A":{"get":{"operationId":"a","responses":{"200":{"description":"A"}}}}}}}`
	asJSON, _ := document(t, []byte(shared), advertise.Site{Replies: true})
	if got := at(asJSON, "paths", "/a", "get", "x-ocp-context"); got != `{"updates_context":["history"]}` {
		t.Errorf("got %s", got)
	}
}

func TestNoDocument(t *testing.T) {
	for _, data := range []string{"", "{", "[]", `{"a":1}`, "<html>"} {
		if _, _, err := advertise.Document([]byte(data), advertise.Options{}, advertise.Site{}); err == nil {
			t.Errorf("%q: no error", data)
		}
	}
}

// TestNothing_else_changes compares real documents, without the flags, before and
// after.
func TestNothing_else_changes(t *testing.T) {
	for _, name := range []string{"train-travel-3.1.yaml", "museum-3.1.yaml", "slack-web-v2.json", "twilio-messaging-v1.json", "xero-files.json", "discord-3.1.json"} {
		t.Run(name, func(t *testing.T) {
			data := testkit.ReadDocument(t, "openapi/"+name+".gz")
			before, err := openapi.Parse(data, openapi.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			set := toolset(t, data)
			asJSON, asYAML := document(t, data, advertise.Site{
				Toolset: set, Replies: true, Forwards: true,
				Enhancer: enhancer(t, enhance.Property{Name: "next_actions", Expression: `["ask " + ocp.current_goal]`}),
			})
			conforms(t, asJSON)
			flagged := strings.Count(at(asJSON), `"x-ocp-enhanced-response":{"next_actions":{"type":"array","items":{"type":"string"}}}`)
			if flagged != set.Report.Operations {
				t.Errorf("%d operations of %d are flagged", flagged, set.Report.Operations)
			}
			want := plain(t, before)
			for form, after := range map[string]*openapi.Node{"JSON": asJSON, "YAML": asYAML} {
				if !reflect.DeepEqual(plain(t, after), want) {
					t.Errorf("%s says something else", form)
				}
			}
		})
	}
}

// plain returns a document decoded, without its flags.
func plain(t testing.TB, n *openapi.Node) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(n.AppendJSON(nil), &v); err != nil {
		t.Fatal(err)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if strings.HasPrefix(name, "x-ocp-") {
					delete(v, name)
				} else {
					strip(value)
				}
			}
		case []any:
			for _, item := range v {
				strip(item)
			}
		}
	}
	strip(v)
	return v
}

// conforms checks every flag of a document against the sub-definitions of the
// extensions' schema, whose root checks nothing.
func conforms(t testing.TB, document *openapi.Node) {
	t.Helper()
	info, operation, response := definition(t, "ocpInfoExtensions"), definition(t, "ocpOperationExtensions"), definition(t, "ocpResponseExtensions")
	check := func(where string, schema *jsonschema.Schema, n *openapi.Node) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.AppendJSON(nil)))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	check("info", info, document.Get("info"))
	for _, path := range document.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			if slices.Contains([]string{"get", "put", "post", "delete", "patch", "head", "options", "trace"}, o.Name) {
				check(o.Name+" "+path.Name, operation, o.Value)
				for _, r := range o.Value.Get("responses").Members() {
					check(o.Name+" "+path.Name+" "+r.Name, response, r.Value)
				}
			}
		}
	}
}

func definition(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(testkit.ReadDocument(t, "schemas/ocp/ocp-openapi-extensions.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("extensions.json", v); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("extensions.json#/definitions/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
