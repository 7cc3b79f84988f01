package otc_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// orders is a document whose answers have schemas, of which one is recursive.
const orders = `openapi: 3.1.0
info: {title: Orders, version: 1.2.3}
paths:
  /orders/{id}:
    get:
      operationId: getOrder
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: is_admin, in: query, description: Sees all., schema: {type: boolean}}
        - {name: tenant, in: query, x-otc-non-inferrable: true, schema: {$ref: "#/components/schemas/Tenant"}}
      responses:
        "200": {description: The order., content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
  /parts:
    post:
      operationId: addPart
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Part"}}}
      responses:
        "200": {description: The parts., content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Part"}}}}}
components:
  schemas:
    Order: {type: object, required: [id], properties: {id: {type: string}, price: {type: number}}}
    Part: {type: object, properties: {name: {type: string}, parts: {type: array, items: {$ref: "#/components/schemas/Part"}}}}
    Tenant: {type: string}
`

// TestOTC_schemas_of_values wants the schema of what a tool answers in both forms,
// for toolsets of every kind, whichever endpoint has them too, and no references in any.
func TestOTC_schemas_of_values(t *testing.T) {
	order := `{"type":"object","properties":{"id":{"type":"string"},"price":{"type":"number"}},"required":["id"]}`
	part := `{"type":"object","properties":{"name":{"type":"string"},"parts":{"type":"array","items":{"type":"object","description":"Part, as above"}}}}`
	const global = "agents {\n toolset orders DIR/orders.yaml\n toolset trips TRIPS\n }"
	for name, c := range map[string]struct{ global, block string }{
		"a document":                      {"", "otc /otc DIR/orders.yaml"},
		"a document with options":         {"", "otc /otc DIR/orders.yaml {\n timeout 20s\n }"},
		"a document whose schemas stay":   {"", "otc /otc DIR/orders.yaml {\n schemas defs\n }"},
		"a toolset of the agents app":     {global, "otc /otc orders"},
		"a toolset beside another":        {global, "otc /otc trips orders"},
		"a toolset that mcp has too":      {global, "mcp /mcp orders\n otc /otc orders"},
		"a document that mcp has too":     {"", "mcp /mcp DIR/orders.yaml\n otc /otc DIR/orders.yaml"},
		"a document of the site":          {"", "otc /otc /orders.yaml\n root DIR\n file_server"},
		"a toolset that mcp describes so": {global, "mcp /mcp orders {\n output_schema strict\n }\n otc /otc orders"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("orders.yaml", orders)
			s.Start(c.global, c.block+"\n respond /orders/* 200")
			got := s.Request("GET", "/otc/tools", "")
			var list struct {
				Tools []struct {
					Name   string
					Output struct {
						Modes []string `json:"available_modes"`
						Value struct{ Parameters any }
					}
				}
				Items []struct {
					Name   string
					Output any `json:"output_schema"`
				}
			}
			if err := json.Unmarshal([]byte(got.Body), &list); err != nil || got.Status != 200 {
				t.Fatalf("%d %s: %v", got.Status, got.Body, err)
			}
			want := map[string]any{"getOrder": parsed(t, order), "addPart": map[string]any{"type": "array", "items": parsed(t, part)}}
			found := 0
			for i, tool := range list.Tools {
				schema := want[tool.Name]
				if schema == nil {
					continue
				}
				found++
				if !reflect.DeepEqual(tool.Output.Modes, []string{"value", "error"}) || !reflect.DeepEqual(tool.Output.Value.Parameters, schema) {
					t.Errorf("%s has the output %v, want %v", tool.Name, tool.Output, schema)
				}
				if item := list.Items[i]; item.Name != tool.Name || !reflect.DeepEqual(item.Output, schema) {
					t.Errorf("the item %s has the output_schema %v, want %v", item.Name, item.Output, schema)
				}
			}
			if found != len(want) {
				t.Errorf("%d of the tools are listed", found)
			}
			if strings.Contains(got.Body, "$ref") || strings.Contains(got.Body, "$defs") {
				t.Errorf("there are references in %s", got.Body)
			}
		})
	}
}

// TestOTC_schemas_of_a_document_that_is_loaded_already adds otc to a site whose
// document is never fetched again once it is loaded, and wants the schemas. Both
// handlers have the document together: it is fetched once for each.
func TestOTC_schemas_of_a_document_that_is_loaded_already(t *testing.T) {
	for name, address := range map[string]string{"URL": "API/orders.yaml", "file": "DIR/orders.yaml", "site": "/orders.yaml"} {
		t.Run(name, func(t *testing.T) {
			var fetched atomic.Int64
			s := sitetest.NewSite(t)
			s.Write("orders.yaml", orders)
			api := sitetest.NewAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				fetched.Add(1)
				_, _ = w.Write([]byte(orders))
			})
			global := strings.ReplaceAll("agents {\n toolset orders {\n openapi ADDRESS\n refresh off\n }\n }", "ADDRESS", strings.Replace(address, "API", api.URL, 1))
			block := "reverse_proxy " + strings.TrimPrefix(api.URL, "http://")
			s.Start(global, "mcp /mcp orders\n"+block)
			sitetest.Eventually(t, "the tools", func() bool { return len(s.ToolNames()) == 2 })
			if err := s.Load(global, "mcp /mcp orders\n otc /otc orders\n"+block); err != nil {
				t.Fatal(err)
			}
			sitetest.Eventually(t, "the schema", func() bool {
				return strings.Contains(s.Request("GET", "/otc/tools", "").Body, `"price":{"type":"number"}`)
			})
			if names := s.ToolNames(); len(names) != 2 {
				t.Errorf("mcp has %q", names)
			}
			if n := fetched.Load(); name != "file" && n != 2 {
				t.Errorf("the document was fetched %d times, want twice", n)
			}
		})
	}
}

// TestOTC_non_inferrable wants the arguments that the document or the
// configuration marks to be marked in both forms.
func TestOTC_non_inferrable(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", orders)
	s.Start("", "otc /otc DIR/orders.yaml {\n non_inferrable getOrder.is_admin\n }\n respond 200")
	list := parsed(t, s.Request("GET", "/otc/tools", "").Body).(map[string]any)
	tool, item := list["tools"].([]any)[0].(map[string]any), list["items"].([]any)[0].(map[string]any)
	if got := tool["input"].(map[string]any)["non_inferrable_parameters"]; !reflect.DeepEqual(got, []any{"is_admin", "tenant"}) {
		t.Errorf("non_inferrable_parameters: %v", got)
	}
	const word = "Do not make up this value: it must come from the application or the user."
	want := parsed(t, `{"id":{"type":"string"},
		"is_admin":{"type":"boolean","description":"Sees all.\n\n`+word+`"},
		"tenant":{"type":"string","description":"`+word+`"}}`)
	if got := item["input_schema"].(map[string]any)["properties"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// TestOTC_tools_revalidated requests the list again with its entity tag, also where
// Caddy compresses it, and declares a response without content.
func TestOTC_tools_revalidated(t *testing.T) {
	api := sitetest.Upstream(t, func(http.ResponseWriter, *http.Request) {})
	s := sitetest.NewSite(t)
	s.Write("notes.yaml", `openapi: 3.1.0
info: {title: Notes, version: 1.0.0}
paths:
  /notes:
    get: {operationId: list, responses: {"200": {description: Notes.}}}
    delete: {operationId: clear, responses: {"204": {description: None.}}}
`)
	s.Start("agents {\n\ttoolset notes DIR/notes.yaml\n}", "encode gzip\notc /otc notes\nreverse_proxy "+api)
	get := func(known, encoding string) sitetest.Response {
		r, err := http.NewRequest(http.MethodGet, s.URL+"/otc/tools", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		if known != "" {
			r.Header.Set("If-None-Match", known)
		}
		return s.Do(r)
	}
	for _, encoding := range []string{"identity", "gzip"} {
		whole := get("", encoding)
		tag := whole.Header.Get("Etag")
		if whole.Status != 200 || !strings.HasPrefix(tag, `"`) {
			t.Fatalf("%s: %d, ETag %q", encoding, whole.Status, tag)
		}
		if again := get(tag, encoding); again.Status != 304 || again.Body != "" {
			t.Errorf("%s: %d for the known tag %s", encoding, again.Status, tag)
		}
	}
	var listed struct {
		Tools []struct {
			Name   string
			Output struct {
				Modes []string `json:"available_modes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(get("", "identity").Body), &listed); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"list": {"value", "error", "null"}, "clear": {"error", "null"}, "next_page": {"value", "error", "null"}}
	for _, tool := range listed.Tools {
		if !slices.Equal(tool.Output.Modes, want[tool.Name]) {
			t.Errorf("%s has the modes %v, want %v", tool.Name, tool.Output.Modes, want[tool.Name])
		}
	}
	if len(listed.Tools) != len(want) {
		t.Errorf("%d tools", len(listed.Tools))
	}
}
