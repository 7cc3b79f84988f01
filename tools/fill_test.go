package tools

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestFill_single_values checks that required arguments with one allowed value are
// sent and not listed.
func TestFill_single_values(t *testing.T) {
	tools := buildTools(t, testkit.Filled, BuildOptions{})
	if len(tools.Tools()) != tools.Report.Operations {
		t.Fatal(tools.Report.Warnings)
	}
	tool, _ := tools.Tool("create")
	var names []string
	for _, a := range tool.Definition.Arguments {
		names = append(names, a.Name)
	}
	if want := []string{"dryRun", "sort", "none", "list", "x_note", "item", "flag"}; !slices.Equal(names, want) {
		t.Errorf("arguments %v, want %v", names, want)
	}
	if schema := string(tool.Definition.InputSchema); strings.Contains(schema, "Action") || strings.Contains(schema, "kind") ||
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
		if !ok || failure.Kind != InvalidArguments || len(failure.Problems) != 1 {
			t.Fatalf("%s: got %+v, want %s with one problem", wrong, err, InvalidArguments)
		}
		if path := failure.Problems[0].Path; !strings.Contains(wrong, strings.TrimPrefix(path, "/")) {
			t.Errorf("%s: got the problem at %s", wrong, path)
		}
	}
}

// TestFill_of_optional_body checks that a body which may be left out is not begun
// by what the gateway fills.
func TestFill_of_optional_body(t *testing.T) {
	tool, _ := buildTools(t, testkit.Filled, BuildOptions{}).Tool("form")
	for arguments, want := range map[string]string{`{}`: "", `{"code":"x"}`: "grant_type=code&code=x", `{"grant_type":"code"}`: ""} {
		r := callRequest(t, tool, arguments)
		if content, _ := io.ReadAll(r.Body); string(content) != want {
			t.Errorf("%s sends %q, want %q", arguments, content, want)
		}
	}
}

// TestFill_headers_win checks that what a caller's own request carries along does
// not replace a header that the gateway fills.
func TestFill_headers_win(t *testing.T) {
	tool, _ := buildTools(t, testkit.SharedPaths, BuildOptions{}).Tool("GetItem")
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
	tool, _ := buildTools(t, testkit.Filled, BuildOptions{}).Tool("create")
	call, err := tool.Bind([]byte(`{"sort":"a","none":null,"list":["x"],"item":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{nil, {"tenant=acme"}, {"tenant=other; a=1", "tenant = another;tenant=acme; b=2"}} {
		header := http.Header{"Cookie": lines}
		call.SetFilledHeaders(header)
		got := header["Cookie"]
		if len(got) != 1 || strings.Count(got[0], "tenant") != 1 || !strings.HasSuffix(got[0], "tenant=acme") {
			t.Fatalf("%q became %q, want one line with tenant=acme at its end", lines, got)
		}
		if want := "a=1; b=2; tenant=acme"; len(lines) > 1 && got[0] != want {
			t.Errorf("%q became %q, want %q", lines, got[0], want)
		}
	}
}

// TestHeader_arguments_keep_their_spelling checks names of header arguments.
func TestHeader_arguments_keep_their_spelling(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"a","parameters":[
		{"name":"token","in":"header","schema":{"type":"string"}},{"name":"X-API-Version","in":"header","schema":{"type":"string"}},
		{"name":"userID","in":"header","schema":{"type":"string"}}]}}}}`, BuildOptions{})
	tool, _ := tools.Tool("a")
	var names []string
	for _, a := range tool.Definition.Arguments {
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
	for name, operations := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			tools := realTools(t, name)
			if len(tools.Tools()) != operations {
				t.Errorf("%d tools of %d operations", len(tools.Tools()), operations)
				for _, w := range tools.Report.Warnings {
					if w.Lost {
						t.Log(w)
					}
				}
			}
			for _, tool := range tools.Tools() {
				for i := range tool.Plan.Arguments {
					if tool.Plan.Encodings[i].Filled && strictjson.Check(tool.Plan.Encodings[i].Fill) != nil {
						t.Errorf("%s: %s is filled with %s", tool.Name, tool.Plan.Arguments[i].Name, tool.Plan.Encodings[i].Fill)
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
