package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
)

// orders has an operation with arguments in path, query, header and an open body, one with an optional
// body, and one whose body is a form.
const orders = `openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /accounts/{account}/orders:
    parameters:
      - {name: account, in: path, required: true, schema: {type: string}}
    get:
      operationId: listOrders
      summary: List orders
      parameters:
        - {name: per_page, in: query, schema: {type: integer, minimum: 1, maximum: 100}}
        - {name: state, in: query, required: true, schema: {type: string, enum: [open, closed]}}
        - {name: filter, in: query, style: form, explode: true, schema: {type: object, additionalProperties: {type: string}}}
        - {name: X-Region, in: header, schema: {type: string}}
      responses: {"200": {description: ok}}
    post:
      operationId: createOrder
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [item]
              additionalProperties: true
              properties:
                item: {type: string}
                owner: {type: string}
                count: {type: integer}
      responses: {"201": {description: ok}}
  /notes:
    post:
      operationId: addNote
      parameters:
        - {name: tenant, in: query, schema: {type: string}}
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [text]
              properties:
                text: {type: string}
                color: {type: string, default: red}
      responses: {"201": {description: ok}}
`

func asJSON(s string) json.RawMessage { b, _ := json.Marshal(s); return b }

func on() *bool { yes := true; return &yes }

func one(tool string, arguments map[string]build.ArgumentShape) BuildOptions {
	return BuildOptions{Shapes: []build.Shape{{Tool: tool, Arguments: arguments}}}
}

func callText(t *testing.T, set *Toolset, name, arguments string) (string, error) {
	t.Helper()
	tool, ok := set.Tool(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	call, err := tool.Bind([]byte(arguments))
	if err != nil {
		return "", err
	}
	if err := call.Resolve(func(text string) (string, error) {
		if strings.Contains(text, "{none}") {
			return "", errors.New("unknown placeholder")
		}
		return strings.ReplaceAll(text, "{http.auth.user.id}", "u/1"), nil
	}); err != nil {
		return "", err
	}
	r, err := call.Request(context.Background())
	if err != nil {
		return "", err
	}
	return testkit.RequestText(t, r), nil
}

func TestShape_changes_the_request(t *testing.T) {
	for name, test := range map[string]struct {
		options   BuildOptions
		tool      string
		arguments string
		request   string // "" if the call is refused
	}{
		"renamed argument":           {one("listOrders", map[string]build.ArgumentShape{"per_page": {Rename: "page_size"}}), "listOrders", `{"account":"a","state":"open","page_size":5}`, "GET /accounts/a/orders?per_page=5&state=open"},
		"name before":                {one("listOrders", map[string]build.ArgumentShape{"per_page": {Rename: "page_size"}}), "listOrders", `{"account":"a","state":"open","per_page":5}`, ""},
		"default":                    {one("listOrders", map[string]build.ArgumentShape{"state": {Default: asJSON("open")}}), "listOrders", `{"account":"a"}`, "GET /accounts/a/orders?state=open"},
		"default replaced":           {one("listOrders", map[string]build.ArgumentShape{"state": {Default: asJSON("open")}}), "listOrders", `{"account":"a","state":"closed"}`, "GET /accounts/a/orders?state=closed"},
		"text becomes a number":      {one("listOrders", map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("20")}}), "listOrders", `{"account":"a","state":"open"}`, "GET /accounts/a/orders?per_page=20&state=open"},
		"fixed in the path":          {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}}), "listOrders", `{"state":"open"}`, "GET /accounts/acme/orders?state=open"},
		"fixed for each call":        {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("{http.auth.user.id}")}}), "listOrders", `{"state":"open"}`, "GET /accounts/u%2F1/orders?state=open"},
		"unknown placeholder":        {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("{none}")}}), "listOrders", `{"state":"open"}`, ""},
		"placeholder does not fit":   {one("listOrders", map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("{http.auth.user.id}")}}), "listOrders", `{"account":"a","state":"open"}`, ""},
		"fixed is not an argument":   {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}}), "listOrders", `{"state":"open","account":"acme"}`, ""},
		"hidden":                     {one("listOrders", map[string]build.ArgumentShape{"per_page": {Hide: on()}}), "listOrders", `{"account":"a","state":"open","per_page":5}`, ""},
		"hidden with default":        {one("listOrders", map[string]build.ArgumentShape{"state": {Hide: on(), Default: asJSON("open")}}), "listOrders", `{"account":"a"}`, "GET /accounts/a/orders?state=open"},
		"exploded object":            {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}}), "listOrders", `{"state":"open","filter":{"ACCOUNT":"other"}}`, ""},
		"exploded object, other":     {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}}), "listOrders", `{"state":"open","filter":{"q":"x"}}`, "GET /accounts/acme/orders?state=open&q=x"},
		"property in other case":     {one("createOrder", map[string]build.ArgumentShape{"owner": {Fixed: asJSON("me")}}), "createOrder", `{"account":"a","item":"i","Owner":"you"}`, ""},
		"property with brackets":     {one("createOrder", map[string]build.ArgumentShape{"owner": {Fixed: asJSON("me")}}), "createOrder", `{"account":"a","item":"i","owner[]":"you"}`, ""},
		"property as the path":       {one("createOrder", map[string]build.ArgumentShape{"account": {Fixed: asJSON("me")}}), "createOrder", `{"item":"i","Account":"you"}`, ""},
		"property as the old name":   {one("createOrder", map[string]build.ArgumentShape{"owner": {Rename: "who"}}), "createOrder", `{"account":"a","item":"i","owner":"you"}`, ""},
		"fixed property":             {one("createOrder", map[string]build.ArgumentShape{"owner": {Fixed: asJSON("me")}}), "createOrder", `{"account":"a","item":"i"}`, `POST /accounts/a/orders | Content-Type: application/json | {"item":"i","owner":"me"}`},
		"fixed in an optional body":  {one("addNote", map[string]build.ArgumentShape{"text": {Fixed: asJSON("x")}}), "addNote", `{}`, `POST /notes | Content-Type: application/json | {"text":"x"}`},
		"default in optional body":   {one("addNote", map[string]build.ArgumentShape{"color": {Default: asJSON("blue")}}), "addNote", `{"text":"x"}`, `POST /notes | Content-Type: application/json | {"text":"x","color":"blue"}`},
		"body becomes required":      {one("addNote", map[string]build.ArgumentShape{"color": {Default: asJSON("blue")}}), "addNote", `{}`, ""},
		"for all, of one":            {one("*", map[string]build.ArgumentShape{"tenant": {Fixed: asJSON("t")}}), "addNote", `{}`, `POST /notes?tenant=t`},
		"method and path":            {one("get /accounts/{account}/orders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}}), "listOrders", `{"state":"open"}`, "GET /accounts/acme/orders?state=open"},
		"list of alternatives":       {one("listOrders", map[string]build.ArgumentShape{"filter": {Fixed: json.RawMessage(`{"who":"{http.auth.user.id}"}`)}}), "listOrders", `{"account":"a","state":"open"}`, "GET /accounts/a/orders?state=open&who=u%2F1"},
		"the specific one wins":      {BuildOptions{Shapes: []build.Shape{{Tool: "listOrders", Arguments: map[string]build.ArgumentShape{"account": {Fixed: asJSON("b")}}}, {Tool: "*", Arguments: map[string]build.ArgumentShape{"account": {Fixed: asJSON("a")}}}}}, "listOrders", `{"state":"open"}`, "GET /accounts/b/orders?state=open"},
		"sensitive header of a call": {one("listOrders", map[string]build.ArgumentShape{"X-Region": {Fixed: asJSON("eu")}}), "listOrders", `{"account":"a","state":"open"}`, "GET /accounts/a/orders?state=open"},
	} {
		set := buildTools(t, orders, test.options)
		got, err := callText(t, set, test.tool, test.arguments)
		if got != test.request || (err == nil) != (test.request != "") {
			t.Errorf("%s:\n got %s %v\nwant %s", name, got, err, test.request)
		}
	}
}

// TestShape_fixed_values_are_visible_to_rules: rules see what a call sends, with the names of the tool.
func TestShape_fixed_values_are_visible_to_rules(t *testing.T) {
	set := buildTools(t, orders, one("createOrder", map[string]build.ArgumentShape{"account": {Fixed: asJSON("acme")}, "owner": {Hide: on()}, "count": {Rename: "n"}}))
	tool, _ := set.Tool("createOrder")
	call, err := tool.Bind([]byte(`{"item":"i","n":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(call.AppendArguments(nil)), `{"account":"acme","item":"i","n":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if list := string(tool.AppendOCP(nil)) + string(tool.Definition.InputSchema); strings.Contains(list, "acme") || strings.Contains(list, `"account"`) || strings.Contains(list, `"owner"`) {
		t.Errorf("the list has a guarded argument: %s", list)
	}
	if got := string(tool.Definition.InputSchema); !strings.Contains(got, `"n":`) || strings.Contains(got, `"count"`) {
		t.Errorf("got schema %s", got)
	}
}

// TestShape_unresolved_call_is_not_sent: an Invoker that does not resolve placeholders cannot send.
func TestShape_unresolved_call_is_not_sent(t *testing.T) {
	set := buildTools(t, orders, one("listOrders", map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("{http.auth.user.id}")}}))
	tool, _ := set.Tool("listOrders")
	call, err := tool.Bind([]byte(`{"account":"a","state":"open"}`))
	if err != nil {
		t.Fatal(err)
	}
	var failure *Failure
	if _, err := call.Request(context.Background()); !errors.As(err, &failure) || failure.Kind != Internal {
		t.Errorf("got %v", err)
	}
}

func TestShape_mistakes_are_errors(t *testing.T) {
	for name, test := range map[string]struct {
		options BuildOptions
		word    string
	}{
		"unknown tool":           {one("listOrder", nil), "did you mean listOrders?"},
		"unknown argument":       {one("listOrders", map[string]build.ArgumentShape{"perpage": {Fixed: asJSON("1")}}), "did you mean per_page?"},
		"unknown argument, all":  {one("*", map[string]build.ArgumentShape{"tenants": {Fixed: asJSON("1")}}), "did you mean tenant?"},
		"taken tool name":        {BuildOptions{Shapes: []build.Shape{{Tool: "listOrders", Rename: "addNote"}}}, "POST /notes"},
		"taken argument name":    {one("listOrders", map[string]build.ArgumentShape{"per_page": {Rename: "state"}}), "rename state"},
		"hide of a required one": {one("listOrders", map[string]build.ArgumentShape{"state": {Hide: on()}}), "hide"},
		"hide of a body's":       {one("addNote", map[string]build.ArgumentShape{"text": {Hide: on()}}), "hide"},
		"value of another type":  {one("listOrders", map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("many")}}), "integer"},
		"value out of range":     {one("listOrders", map[string]build.ArgumentShape{"per_page": {Default: asJSON("500")}}), "default"},
		"value not in the enum":  {one("listOrders", map[string]build.ArgumentShape{"state": {Default: asJSON("gone")}}), "default"},
		"dot segment":            {one("listOrders", map[string]build.ArgumentShape{"account": {Fixed: asJSON("..")}}), "sent"},
		"default and fixed":      {one("listOrders", map[string]build.ArgumentShape{"state": {Default: asJSON("open"), Fixed: asJSON("open")}}), "exclude"},
		"rename of all":          {BuildOptions{Shapes: []build.Shape{{Tool: "*", Rename: "x"}}}, "rename"},
		"annotation":             {BuildOptions{Shapes: []build.Shape{{Tool: "*", Annotations: map[string]bool{"readonlyHint": true}}}}, "readOnlyHint"},
		"name with a dash":       {BuildOptions{Shapes: []build.Shape{{Tool: "listOrders", Rename: "list-orders"}}}, "rename"},
		"jq":                     {BuildOptions{Shapes: []build.Shape{{Tool: "listOrders", Select: ".["}}}, "select"},
		"readonly leaves none":   {BuildOptions{ReadOnly: true, Include: []build.Selector{{By: "operation", Value: "addNote"}}}, "readonly"},
	} {
		if _, err := Build([]byte(orders), test.options); err == nil || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: got error %v, want %q", name, err, test.word)
		}
	}
}

// TestShape_reload: what only changes texts may stop to apply, what withholds an argument may not.
func TestShape_reload(t *testing.T) {
	gone := strings.ReplaceAll(strings.ReplaceAll(orders, "per_page", "limit"), "listOrders", "allOrders")
	for name, test := range map[string]struct {
		shape build.Shape
		fails bool
	}{
		"text of a tool":        {build.Shape{Tool: "listOrders", Title: "Orders"}, false},
		"text of an argument":   {build.Shape{Tool: "GET /accounts/{account}/orders", Arguments: map[string]build.ArgumentShape{"per_page": {Description: "x"}}}, false},
		"fixed of a tool":       {build.Shape{Tool: "listOrders", Arguments: map[string]build.ArgumentShape{"account": {Fixed: asJSON("a")}}}, true},
		"fixed of an argument":  {build.Shape{Tool: "GET /accounts/{account}/orders", Arguments: map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("5")}}}, true},
		"hidden argument":       {build.Shape{Tool: "GET /accounts/{account}/orders", Arguments: map[string]build.ArgumentShape{"per_page": {Hide: on()}}}, true},
		"fixed of an unchanged": {build.Shape{Tool: "addNote", Arguments: map[string]build.ArgumentShape{"tenant": {Fixed: asJSON("a")}}}, false},
		"for all":               {build.Shape{Tool: "*", Arguments: map[string]build.ArgumentShape{"account": {Fixed: asJSON("a")}}}, false},
	} {
		if set := buildTools(t, orders, BuildOptions{Shapes: []build.Shape{test.shape}}); len(set.Report.Unmatched) > 0 {
			t.Errorf("%s: got unmatched %v", name, set.Report.Unmatched)
		}
		set, err := Build([]byte(gone), BuildOptions{Shapes: []build.Shape{test.shape}, Reloaded: true})
		if (err != nil) != test.fails {
			t.Errorf("%s: got error %v", name, err)
		}
		if strings.HasPrefix(name, "text") && err == nil && len(set.Report.Warnings) == 0 {
			t.Errorf("%s: got no warning", name)
		}
	}
	all := BuildOptions{Shapes: []build.Shape{{Tool: "*", Arguments: map[string]build.ArgumentShape{"owner": {Fixed: asJSON("me")}}}}}
	before := buildTools(t, strings.Replace(orders, "tenant", "owner", 1), all)
	if err := buildTools(t, strings.Replace(orders, "tenant", "owner", 1), all).CheckGuards(before); err != nil {
		t.Errorf("unchanged document: %v", err)
	}
	if err := buildTools(t, orders, all).CheckGuards(before); err == nil {
		t.Error("an argument that was fixed for all tools is free after the reload")
	}
}

// TestShape_in_the_document: x-fairway does the same as the options, which win. Mistakes are warnings, and
// a tool that cannot withhold an argument is left out.
func TestShape_in_the_document(t *testing.T) {
	with := func(operation, parameter string) string {
		document := strings.Replace(orders, "      operationId: listOrders\n", "      operationId: listOrders\n      x-fairway: "+operation+"\n", 1)
		return strings.Replace(document, "{name: per_page, in: query,", "{name: per_page, in: query, x-fairway: "+parameter+",", 1)
	}
	call := `{"account":"a","state":"open"}`
	set := buildTools(t, with(`{rename: orders, arguments: {state: {description: Which}}}`, `{fixed: 7}`), BuildOptions{})
	if got, err := callText(t, set, "orders", call); got != "GET /accounts/a/orders?per_page=7&state=open" {
		t.Errorf("got %s %v", got, err)
	}
	set = buildTools(t, with(`{rename: orders}`, `{fixed: 7}`), one("orders", map[string]build.ArgumentShape{"per_page": {Fixed: asJSON("8")}}))
	if got, err := callText(t, set, "orders", call); got != "GET /accounts/a/orders?per_page=8&state=open" {
		t.Errorf("got %s %v", got, err)
	}
	for name, test := range map[string]struct {
		operation, parameter string
		lost                 bool
	}{
		"unknown member":      {`{renam: orders}`, `{}`, false},
		"not an object":       {`true`, `{}`, false},
		"taken name":          {`{rename: addNote}`, `{}`, false},
		"unknown argument":    {`{arguments: {perpage: {description: x}}}`, `{}`, false},
		"jq":                  {`{select: ".["}`, `{}`, false},
		"default":             {`{}`, `{default: many}`, false},
		"fixed of none":       {`{arguments: {perpage: {fixed: 1}}}`, `{}`, true},
		"fixed does not fit":  {`{}`, `{fixed: many}`, true},
		"hide is misspelled":  {`{}`, `{hid: true}`, true},
		"hide of a required":  {`{arguments: {state: {hide: true}}}`, `{}`, true},
		"secrets of the host": {`{}`, `{fixed: "{env.SECRET}"}`, true},
	} {
		set := buildTools(t, with(test.operation, test.parameter), BuildOptions{})
		if _, has := set.Tool("listOrders"); has == test.lost {
			t.Errorf("%s: lost %t, want %t", name, !has, test.lost)
		}
		if len(set.Report.Warnings) == 0 || set.Report.Warnings[0].Operation != "GET /accounts/{account}/orders" || set.Report.Warnings[0].Lost != test.lost {
			t.Errorf("%s: got warnings %v", name, set.Report.Warnings)
		}
	}
}

func TestShape_texts_and_annotations(t *testing.T) {
	set := buildTools(t, orders, BuildOptions{Shapes: []build.Shape{
		{Tool: "*", MaxTokens: 8000},
		{Tool: "listOrders", Rename: "orders", Title: "All", Description: "Lists.", Annotations: map[string]bool{build.ReadOnlyHint: false}, Fields: on(), Select: ".x"},
	}})
	tool, ok := set.Tool("orders")
	if !ok {
		t.Fatal("the tool orders is missing")
	}
	got := [...]any{tool.Definition.Title, tool.Definition.Description, tool.Output.MaxTokens, tool.Output.Fields, tool.Output.Select != nil}
	if want := [...]any{"All", "Lists.", 8000, true, true}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if tool.Hint(build.ReadOnlyHint) || !tool.Hint(build.DestructiveHint) || !tool.Hint(build.IdempotentHint) {
		t.Error("the annotation does not replace what the method implies")
	}
	if _, old := set.Tool("listOrders"); old || tool.Unshaped.Name != "listOrders" || len(tool.Unshaped.Changes) == 0 {
		t.Errorf("the tool is known by its name before, or does not know it: %+v", tool.Unshaped)
	}
	if other, _ := set.Tool("addNote"); other.Output.MaxTokens != 8000 || other.Output.Fields {
		t.Errorf("got %+v", other)
	}
	swapped := buildTools(t, orders, BuildOptions{Shapes: []build.Shape{{Tool: "listOrders", Rename: "addNote"}, {Tool: "addNote", Rename: "listOrders"}}})
	if tool, _ := swapped.Tool("addNote"); tool.Plan.Method != "GET" {
		t.Errorf("got %s", tool.Operation())
	}
	if !tool.Definition.InputSchema.IsValid() {
		t.Error("the schema is not JSON")
	}
}

func buildOrders(t *testing.T, document string) *Toolset {
	t.Helper()
	set, err := Build([]byte(document), BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A document must not read files and variables of the gateway, also not by placeholders that only Caddy
// recognizes, such as those with spaces.
func TestShape_in_the_document_cannot_read_secrets(t *testing.T) {
	for _, fixed := range []string{"{env.HOME}", "{http.auth.user.id}{file./run/my secrets}", `{http.auth.user.id}{file./run/a"b}`, "{x {http.auth.user.id}"} {
		text, err := json.Marshal(map[string]string{"fixed": fixed})
		if err != nil {
			t.Fatal(err)
		}
		document := strings.Replace(orders, "{name: X-Region, in: header,", "{name: X-Region, in: header, x-fairway: "+string(text)+",", 1)
		set := buildOrders(t, document)
		if _, has := set.Tool("listOrders"); has {
			t.Errorf("fixed %s: the tool is offered", fixed)
		}
	}
}

func TestShape_in_the_document_cannot_declare_that_a_change_reads(t *testing.T) {
	for _, method := range []string{"delete", "put", "patch", "post"} {
		document := strings.Replace(orders, "    post:\n      operationId: addNote\n", "    "+method+":\n      operationId: addNote\n      x-fairway: {annotations: {readOnlyHint: true, idempotentHint: true}}\n", 1)
		set := buildOrders(t, document)
		tool, known := set.Tool("addNote")
		if !known || tool.Hint(build.ReadOnlyHint) || !tool.Hint(build.IdempotentHint) {
			t.Errorf("%s: got readOnlyHint, or not idempotentHint", method)
		}
		overlaid, err := Build([]byte(document), BuildOptions{Overlaid: true}) // overlay.Apply has removed the document's own
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := overlaid.Tool("addNote"); !tool.Hint(build.ReadOnlyHint) {
			t.Errorf("%s: the overlay has no effect", method)
		}
		ignored, err := Build([]byte(document), BuildOptions{IgnoreExtensions: true})
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := ignored.Tool("addNote"); len(tool.Definition.Annotations) > 0 {
			t.Errorf("%s: x-fairway is not ignored: %v", method, tool.Definition.Annotations)
		}
		configured, err := Build([]byte(document), BuildOptions{Shapes: []build.Shape{{Tool: "addNote", Annotations: map[string]bool{build.ReadOnlyHint: true}}}})
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := configured.Tool("addNote"); !tool.Hint(build.ReadOnlyHint) {
			t.Errorf("%s: the tool block has no effect", method)
		}
	}
}

func TestShape_select_knows_who_has_set_it(t *testing.T) {
	document := strings.Replace(orders, "      operationId: addNote\n", "      operationId: addNote\n      x-fairway: {select: .a}\n", 1)
	for _, c := range []struct {
		shapes   []build.Shape
		declared bool
	}{
		{nil, true},
		{[]build.Shape{{Tool: "addNote", Title: "T"}}, true},
		{[]build.Shape{{Tool: "addNote", Select: ".b"}}, false},
		{[]build.Shape{{Tool: "*", Select: ".b"}}, false},
	} {
		set, err := Build([]byte(document), BuildOptions{Shapes: c.shapes})
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := set.Tool("addNote"); tool.Output.Select == nil || tool.Output.SelectDeclared != c.declared {
			t.Errorf("%+v: select %v, of the document %t; want %t", c.shapes, tool.Output.Select, tool.Output.SelectDeclared, c.declared)
		}
	}
}
