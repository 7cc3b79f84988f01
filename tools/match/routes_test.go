package match

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

func TestRoutes(t *testing.T) {
	const document = `openapi: 3.1.0
info: {title: T, version: "1"}
servers: [{url: https://api.example.com/v1}]
paths:
  /: {get: {operationId: root, responses: {}}}
  /trips: {get: {operationId: list, responses: {}}, post: {operationId: create, responses: {}}}
  /trips/latest: {get: {operationId: latest, responses: {}}}
  /trips/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: get, responses: {}}
  /trips/{id}.pdf:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: print, responses: {}}
  /trips/{id}/{seat}/:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}, {name: seat, in: path, required: true, schema: {type: string}}]
    get: {operationId: seat, responses: {}}
  /trips/latest/seats:
    delete: {operationId: clear, responses: {}}
  /trips/{id}/seats:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: seats, responses: {}}
  /range/{from}-{to}:
    parameters: [{name: from, in: path, required: true, schema: {type: string}}, {name: to, in: path, required: true, schema: {type: string}}]
    get: {operationId: range, responses: {}}
  /straße:
    get: {operationId: street, responses: {}}
`
	toolset := buildTools(t, document)
	if len(toolset.Tools()) != toolset.Report.Operations {
		t.Fatal(toolset.Report.Warnings)
	}
	routes := NewRoutes(toolset)
	for request, want := range map[string]string{
		"GET /v1/":                      "root",
		"GET /v1":                       "",
		"GET /v1/trips":                 "list",
		"GET /trips":                    "", // not below the server's path
		"GET /v1/trips/":                "", // a parameter is not empty
		"POST /v1/trips":                "create",
		"PUT /v1/trips":                 "",
		"GET /v1/trips/latest":          "latest", // concrete before templated
		"GET /v1/trips/lat%65st":        "latest",
		"GET /v1/trips/7":               "get",
		"GET /v1/trips/a%2Fb":           "get", // an escaped slash ends no segment
		"GET /v1/trips/7.pdf":           "print",
		"GET /v1/trips/.pdf":            "get", // the mixed template wants an id before it
		"GET /v1/trips/7/12/":           "seat",
		"GET /v1/trips/7/12":            "",
		"GET /v1/trips/latest/seats":    "seats", // another method has that path, not this one
		"DELETE /v1/trips/latest/seats": "clear",
		"GET /v1/range/1-5":             "range",
		"GET /v1/range/1-":              "",
		"GET /v1/range/-5":              "",
		"GET /v1/stra%C3%9Fe":           "street",
		"GET v1/trips":                  "",
		"GET ":                          "",
		"GET /v1/trips/%zz":             "get",
	} {
		method, path := request, ""
		for i := range request {
			if request[i] == ' ' {
				method, path = request[:i], request[i+1:]
				break
			}
		}
		got := ""
		if tool := routes.Tool(method, path); tool != nil {
			got = tool.Name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", request, got, want)
		}
	}
	for _, tool := range toolset.Tools() {
		if got := tool.Plan.Base; got != "/v1" {
			t.Errorf("%s: base path %q", tool.Plan.Path, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { routes.Tool("GET", "/v1/trips/7/seats") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func buildTools(t *testing.T, document string) *tools.Toolset {
	t.Helper()
	toolset, err := tools.Build([]byte(document), tools.BuildOptions{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return toolset
}

// TestRoutes_ToolOf checks what a request is described by.
func TestRoutes_ToolOf(t *testing.T) {
	routes := NewRoutes(buildTools(t, testkit.SharedPaths))
	for target, want := range map[string]string{
		"/v1/services/rest/?method=photos.delete": "get_services_rest_method_photos_delete",
		"/v1/search?mode=slow":                    "search",
		"/v1/search?mode=fast":                    "", // could be either
		"/v1/none":                                "",
	} {
		parsed, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if tool := routes.ToolOf(&http.Request{Method: "GET", URL: parsed}); tool != nil {
			got = tool.Name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
