package ocp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/wire"
)

const filledDocument = `openapi: 3.1.0
info: {title: T, version: "1"}
components:
  schemas:
    Kind: {type: string, enum: [order]}
    Both: {type: string, enum: [a, b]}
paths:
  /orders:
    post:
      operationId: create
      parameters:
        - {name: Action, in: query, required: true, schema: {const: CreateOrder}}
        - {name: version, in: query, required: true, schema: {type: integer, enum: [2]}}
        - {name: dryRun, in: query, schema: {type: boolean, enum: [true]}}
        - {name: sort, in: query, required: true, schema: {$ref: "#/components/schemas/Both"}}
        - {name: X-API-Version, in: header, required: true, schema: {allOf: [{$ref: "#/components/schemas/Kind"}]}}
        - {name: x-note, in: header, schema: {type: string}}
        - {name: tenant, in: cookie, required: true, schema: {type: string, enum: [acme]}}
        - {name: Transfer-Encoding, in: header, required: true, schema: {type: string}}
        - {name: Content-Length, in: header, required: true, schema: {type: integer}}
        - {name: host, in: header, required: true, schema: {type: string}}
        - {name: Connection, in: header, required: true, schema: {type: string}}
        - {name: none, in: query, required: true, schema: {enum: [null]}}
        - {name: list, in: query, required: true, schema: {type: array, items: {type: string, enum: [x]}}}
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [kind, item]
              properties:
                kind: {$ref: "#/components/schemas/Kind"}
                item: {type: string}
                flag: {type: string, enum: [only]}
      responses: {}
  /form:
    post:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [grant_type, code]
              properties: {grant_type: {type: string, enum: [code]}, code: {type: string}}
      responses: {}
`

// TestFill_single_values checks that required arguments with one allowed value are
// sent and not listed.
func TestFill_single_values(t *testing.T) {
	tools := buildTools(t, filledDocument, BuildOptions{})
	if len(tools.Tools()) != tools.Operations {
		t.Fatal(tools.Warnings)
	}
	tool, _ := tools.Tool("create")
	var names []string
	for _, a := range tool.Arguments {
		names = append(names, a.Name)
	}
	if want := []string{"dryRun", "sort", "none", "list", "x_note", "item", "flag"}; !slices.Equal(names, want) {
		t.Errorf("arguments %v, want %v", names, want)
	}
	if schema := string(tool.InputSchema); strings.Contains(schema, "Action") || strings.Contains(schema, "kind") ||
		!strings.Contains(schema, `"required":["sort","none","list","item"]`) {
		t.Errorf("schema %s", schema)
	}
	call, err := tool.Bind([]byte(`{"sort":"a","none":null,"list":["x"],"item":"i","Action":"CreateOrder","kind":"order","version":2.0}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(call.AppendArguments(nil)); strings.Contains(got, "Action") || strings.Contains(got, "kind") {
		t.Errorf("the arguments are %s", got)
	}
	r, err := call.Request(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	content, _ := io.ReadAll(r.Body)
	if got := r.URL.RequestURI(); got != "/orders?Action=CreateOrder&version=2&sort=a&list=x" {
		t.Errorf("sends %s", got)
	}
	if r.Header.Get("X-API-Version") != "order" || r.Header.Get("Cookie") != "tenant=acme" || string(content) != `{"kind":"order","item":"i"}` {
		t.Errorf("sends %v %s", r.Header, content)
	}
	for _, wrong := range []string{`"Action":"DropOrders"`, `"kind":"other"`, `"version":"2"`, `"X_API_Version":"x"`} {
		_, err := tool.Bind([]byte(`{"sort":"a","none":null,"list":["x"],"item":"i",` + wrong + `}`))
		failure, ok := errors.AsType[*Failure](err)
		if !ok || failure.Kind != InvalidArguments || len(failure.Problems) != 1 || !strings.Contains(wrong, strings.TrimPrefix(failure.Problems[0].Path, "/")) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestFill_of_optional_body checks that a body which may be left out is not begun
// by what the gateway fills.
func TestFill_of_optional_body(t *testing.T) {
	tool, _ := buildTools(t, filledDocument, BuildOptions{}).Tool("form")
	for arguments, want := range map[string]string{`{}`: "", `{"code":"x"}`: "grant_type=code&code=x", `{"grant_type":"code"}`: ""} {
		r := callRequest(t, tool, arguments)
		if content, _ := io.ReadAll(r.Body); string(content) != want {
			t.Errorf("%s sends %q, want %q", arguments, content, want)
		}
	}
}

// TestFill_is_read_back checks that a plain request may have what the gateway fills
// with its value only, and that it is no argument.
func TestFill_is_read_back(t *testing.T) {
	tools := buildTools(t, filledDocument, BuildOptions{})
	tool, _ := tools.Tool("create")
	good := func() *http.Request {
		r := callRequest(t, tool, `{"sort":"a","none":null,"list":["x"],"item":"i"}`)
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	const body = `{"kind":"order","item":"i"}`
	got, err := tool.ReadRequest(good(), []byte(body))
	if err != nil || string(got) != `{"sort":"a","list":["x"],"item":"i"}` {
		t.Errorf("got %s, %v", got, err)
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		body   string
	}{
		"query":        {func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "CreateOrder", "Drop", 1) }, body},
		"query twice":  {func(r *http.Request) { r.URL.RawQuery += "&Action=CreateOrder" }, body},
		"query alias":  {func(r *http.Request) { r.URL.RawQuery += "&action=Drop" }, body},
		"header":       {func(r *http.Request) { r.Header.Set("X-API-Version", "other") }, body},
		"header twice": {func(r *http.Request) { r.Header.Add("X-API-Version", "order") }, body},
		"header alias": {func(r *http.Request) { r.Header["X_Api_Version"] = []string{"other"} }, body},
		"cookie":       {func(r *http.Request) { r.Header.Set("Cookie", "tenant=other") }, body},
		"body":         {func(*http.Request) {}, `{"kind":"other","item":"i"}`},
		"body alias":   {func(*http.Request) {}, `{"Kind":"other","item":"i"}`},
		"body Action":  {func(*http.Request) {}, `{"Action":"Drop","item":"i"}`},
	} {
		r := good()
		test.change(r)
		if got, err := tool.ReadRequest(r, []byte(test.body)); err == nil {
			t.Errorf("%s: read as %s", name, got)
		}
	}
}

// TestFill_headers_win checks that what a caller's own request carries along does
// not replace a header that the gateway fills.
func TestFill_headers_win(t *testing.T) {
	tool, _ := buildTools(t, sharedPaths, BuildOptions{}).Tool("GetItem")
	call, err := tool.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"X-Amz-Target": {"Store.DeleteItem"}, "X_amz_target": {"Store.DeleteItem"}, "X-Other": {"1"}}
	call.SetFilledHeaders(header)
	if len(header) != 2 || header.Get("X-Amz-Target") != "Store.GetItem" {
		t.Errorf("got %v", header)
	}
}

func TestFill_cookies_win(t *testing.T) {
	tool, _ := buildTools(t, filledDocument, BuildOptions{}).Tool("create")
	call, err := tool.Bind([]byte(`{"sort":"a","none":null,"list":["x"],"item":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{nil, {"tenant=acme"}, {"tenant=other; a=1", "tenant = another;tenant=acme; b=2"}} {
		header := http.Header{"Cookie": lines}
		call.SetFilledHeaders(header)
		if got := header["Cookie"]; len(got) != 1 || strings.Count(got[0], "tenant") != 1 || !strings.HasSuffix(got[0], "tenant=acme") ||
			len(lines) > 1 && got[0] != "a=1; b=2; tenant=acme" {
			t.Errorf("%q became %q", lines, got)
		}
	}
}

// TestFilledBy checks tools whose arguments are filled for each call.
func TestFilledBy(t *testing.T) {
	base := buildTools(t, filledDocument, BuildOptions{})
	if base.FilledBy(func(*Tool, *Argument) bool { return false }) != base {
		t.Error("a Toolset of which nothing is filled is copied")
	}
	filled := base.FilledBy(func(_ *Tool, a *Argument) bool { return a.WireName == "sort" || a.WireName == "code" })
	if filled.Hash == base.Hash {
		t.Error("the hash is the same")
	}
	tool, _ := filled.Tool("create")
	if before, _ := base.Tool("create"); tool == before || len(before.Arguments) != len(tool.Arguments)+1 || !strings.Contains(string(before.InputSchema), `"sort"`) {
		t.Error("the Toolset itself is changed")
	}
	if strings.Contains(string(tool.InputSchema), `"sort"`) {
		t.Errorf("schema %s", tool.InputSchema)
	}
	if _, err := tool.Bind([]byte(`{"none":null,"list":["x"],"item":"i","sort":"a"}`)); err == nil {
		t.Error("a caller gives what the gateway fills")
	}
	call, err := tool.Bind([]byte(`{"none":null,"list":["x"],"item":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Fill(func(in Location, name string) (string, bool) { return string(in) + "-" + name, true })
	r, err := call.Request(context.Background())
	if err != nil || r.URL.Query().Get("sort") != "query-sort" {
		t.Errorf("sends %s, %v", r.URL, err)
	}
	if got := string(call.AppendArguments(nil)); strings.Contains(got, "query-sort") {
		t.Errorf("the arguments are %s", got)
	}
	if got, err := tool.ReadRequest(r, []byte(`{"item":"i"}`)); err != nil || strings.Contains(string(got), "query-sort") {
		t.Errorf("read back: %s, %v", got, err)
	}
	form, _ := filled.Tool("form")
	if got, err := form.Bind([]byte(`{}`)); err != nil || got.hasBody() {
		t.Errorf("%v", err)
	}
}

// TestHeader_arguments_keep_their_spelling checks names of header arguments.
func TestHeader_arguments_keep_their_spelling(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"a","parameters":[
		{"name":"token","in":"header","schema":{"type":"string"}},{"name":"X-API-Version","in":"header","schema":{"type":"string"}},
		{"name":"userID","in":"header","schema":{"type":"string"}}]}}}}`, BuildOptions{})
	tool, _ := tools.Tool("a")
	var names []string
	for _, a := range tool.Arguments {
		names = append(names, a.Name)
	}
	if want := []string{"token", "X_API_Version", "userID"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	r := callRequest(t, tool, `{"token":"t","X_API_Version":"2","userID":"u"}`)
	if r.Header.Get("Token") != "t" || r.Header.Get("X-Api-Version") != "2" || r.Header.Get("Userid") != "u" {
		t.Errorf("sends %v", r.Header)
	}
}

// TestRealDocuments_keep_every_operation checks the real documents.
func TestRealDocuments_keep_every_operation(t *testing.T) {
	for name, operations := range shared.Documents() {
		t.Run(name, func(t *testing.T) {
			tools := buildTools(t, string(shared.Read(t, "openapi/"+name+".gz")), BuildOptions{Name: name})
			if len(tools.Tools()) != operations {
				t.Errorf("%d tools of %d operations", len(tools.Tools()), operations)
				for _, w := range tools.Warnings {
					if w.Lost {
						t.Log(w)
					}
				}
			}
			for _, tool := range tools.Tools() {
				for i := range tool.all {
					if tool.plans[i].filled && wire.Check(tool.plans[i].fill) != nil {
						t.Errorf("%s: %s is filled with %s", tool.Name, tool.all[i].Name, tool.plans[i].fill)
					}
				}
			}
		})
	}
}

// TestFill_lists_a_value_that_begins_an_optional_body checks that an optional body can be
// sent although its only required properties have one allowed value each.
func TestFill_lists_a_value_that_begins_an_optional_body(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/a":{"post":{"operationId":"act","requestBody":{"content":{
		"application/json":{"schema":{"type":"object","required":["type"],"properties":{"type":{"const":"reboot"},"note":{"type":"string"}}}}}}}}}}`, BuildOptions{})
	tool, _ := tools.Tool("act")
	for arguments, want := range map[string]string{`{}`: "", `{"type":"reboot"}`: `{"type":"reboot"}`} {
		r := callRequest(t, tool, arguments)
		if content, _ := io.ReadAll(r.Body); string(content) != want {
			t.Errorf("%s sends %q, want %q", arguments, content, want)
		}
	}
	if _, err := tool.Bind([]byte(`{"note":"x"}`)); err == nil {
		t.Error("a body without its required property: no error")
	}
}

// TestFill_values_cannot_be_overridden_by_further_properties checks that a body which takes
// properties that the document does not name cannot repeat a fixed value.
func TestFill_values_cannot_be_overridden_by_further_properties(t *testing.T) {
	tools := buildTools(t, `openapi: 3.1.0
info: {title: T, version: "1"}
paths:
  /?Action=Get:
    post:
      operationId: get
      requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, additionalProperties: true, properties: {note: {type: string}}}}}}
      responses: {}
  /kinds:
    post:
      operationId: kinds
      parameters: [{name: Action, in: query, required: true, schema: {const: Get}}]
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, additionalProperties: true, required: [kind], properties: {kind: {const: order}}}}}
      responses: {}
`, BuildOptions{})
	for name, arguments := range map[string][]string{
		"get":   {`{"Action":"Drop"}`, `{"action":"Drop"}`, `{"Action[]":"Drop"}`},
		"kinds": {`{"Kind":"other"}`, `{"action":"Drop"}`, `{"Action":"Drop"}`},
	} {
		tool, _ := tools.Tool(name)
		for _, a := range arguments {
			var failure *Failure
			if _, err := tool.Bind([]byte(a)); !errors.As(err, &failure) || failure.Kind != InvalidArguments {
				t.Errorf("%s %s: got %v", name, a, err)
			}
		}
		if _, err := tool.Bind([]byte(`{"other":"x"}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
