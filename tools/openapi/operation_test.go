package openapi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// summary names the operations of a document, and says which failed.
func summary(d *Document) string {
	var all []string
	for _, op := range d.Operations() {
		line := strings.Join(strings.Fields(op.Method+" "+op.Path+" "+op.ID), " ")
		if op.Err != nil {
			line += " failed"
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

// parameterLine describes a parameter: name, in, style, and what is set.
func parameterLine(p Parameter) string {
	line := fmt.Sprintf("%s %s %s%s", p.In, p.Name, p.Style, p.ContentType)
	for _, word := range []struct {
		set  bool
		text string
	}{{p.Explode, "explode"}, {p.Required, "required"}, {p.Deprecated, "deprecated"}, {p.AllowReserved, "reserved"}} {
		if word.set {
			line += " " + word.text
		}
	}
	return line
}

func parameterLines(op Operation) []string {
	var lines []string
	for _, p := range op.Parameters {
		lines = append(lines, parameterLine(p))
	}
	return lines
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

func TestOperations30(t *testing.T) {
	d := readDocument(t, "library-3.0.json", Options{})
	equal(t, "operations", summary(d), "GET /books listBooks; POST /books addBook; "+
		"GET /books/{isbn}/copies/{copy} getCopy; DELETE /books/{isbn}/copies/{copy} discardCopy; TRACE /books/{isbn}/copies/{copy} traceCopy failed; "+
		"PUT /covers putCover; PATCH /covers brokenBody failed")

	list := find(t, d, "listBooks")
	equal(t, "parameters", parameterLines(list), []string{
		"query branch form explode required",
		"header Trace simple",
		"query subject form explode",
		"query year deepObject explode",
		"query shelf pipeDelimited",
		"query q form explode reserved",
		"query filter application/json",
		"cookie reader form explode",
	})
	equal(t, "override", list.Parameters[1].Description, "The operation's own")
	if _, name, _ := list.Parameters[6].Schema.Follow(); name != "Filter" {
		t.Errorf("the schema of filter is %q", name)
	}
	equal(t, "base path", list.BasePath, "/live/v2")
	equal(t, "security", list.Security, []map[string][]string{{"card": nil}, {"staff": {"loans:write"}}})
	equal(t, "warnings", list.Warnings, []string(nil))
	var statuses []string
	for _, response := range list.Responses {
		line := response.Status + " " + response.Description
		for _, media := range response.Content {
			line += " " + media.Type
		}
		statuses = append(statuses, line)
	}
	equal(t, "responses", statuses, []string{"200 The books application/json text/csv", "4XX A problem application/problem+json", "default Anything else"})

	add := find(t, d, "addBook")
	equal(t, "shared parameters", parameterLines(add), []string{"query branch form explode required", "header trace simple"})
	if add.Body == nil || len(add.Body.Content) != 2 {
		t.Fatalf("got the body %+v, want one of two media types", add.Body)
	}
	if b := add.Body; !b.Required || b.Description != "A book to add" {
		t.Errorf("got the body %q, required: %t; want a required one, A book to add", b.Description, b.Required)
	}
	if got, want := add.Body.Content[1].Type, "application/x-www-form-urlencoded"; got != want {
		t.Errorf("got the second media type %s, want %s", got, want)
	}

	one := find(t, d, "getCopy")
	equal(t, "path parameters", parameterLines(one), []string{"path isbn label required", "path copy simple required"})
	if w := one.Warnings; len(w) != 2 || !testkit.ContainsAll(w[0], "path copy required") || !testkit.ContainsAll(w[1], "path shelf") {
		t.Errorf("warnings %q", w)
	}
	equal(t, "no security", one.Security, []map[string][]string{})
	equal(t, "base path of the path", one.BasePath, "/copies-api")
	if !one.Deprecated {
		t.Error("not deprecated")
	}
	equal(t, "base path of the operation", find(t, d, "discardCopy").BasePath, "")

	cover := find(t, d, "putCover").Body.Content[0]
	equal(t, "encoding", cover.Encoding, []Encoding{
		{Name: "image", ContentType: "image/png, image/jpeg", Style: "form", Explode: true},
		{Name: "labels", Style: "spaceDelimited", HasStyle: true, HasExplode: true},
	})
	if err := find(t, d, "brokenBody").Err; err == nil || !strings.Contains(err.Error(), `"#/components/requestBodies/Nowhere"`) {
		t.Errorf("broken body: %v", err)
	}
}

func TestOperations31(t *testing.T) {
	d := readDocument(t, "harbour-3.1.yaml", Options{})
	equal(t, "operations", summary(d), "GET /ships listShips; GET /ships/{callsign} getShip; PUT /ships/{callsign} berthShip; GET /tides/{day} tideOfDay")
	list := find(t, d, "listShips")
	equal(t, "warnings", len(list.Warnings), 1)
	equal(t, "merged", string(list.Parameters[1].Schema.AppendJSON(nil)), `{"minimum":0,"maximum":100,"type":"integer"}`)
	equal(t, "statuses", list.Responses[0].Status, "200")
	equal(t, "base path", list.BasePath, "/harbour")
	if list.Security != nil {
		t.Errorf("security %v", list.Security)
	}
	equal(t, "path item's parameters", parameterLines(find(t, d, "berthShip")), []string{"path callsign simple required"})
	ship, name, err := find(t, d, "berthShip").Body.Content[0].Schema.Follow()
	if err != nil || name != "ship" || ship.Get("type").Text() != "object" {
		t.Errorf("anchor: %q %v", name, err)
	}
	tide := find(t, d, "tideOfDay")
	equal(t, "undeclared", parameterLines(tide), []string{"path day simple required"})
	if w := tide.Warnings; len(w) != 1 || !testkit.ContainsAll(w[0], "path day declared") {
		t.Errorf("warnings %q", w)
	}
	equal(t, "undeclared", string(tide.Parameters[0].Schema.AppendJSON(nil)), `{"type":"string"}`)
}

func TestOperations_of_cycles(t *testing.T) {
	d := readDocument(t, "cyclic.yaml", Options{})
	equal(t, "operations", summary(d), "GET /tree getTree; /round failed; GET /fine fine")
	if fine := find(t, d, "fine"); len(fine.Parameters) != 0 || !hasWords(fine.Warnings, "cycle") {
		t.Errorf("fine: %q", fine.Warnings)
	}
}

func TestOperations_of_malformed_document(t *testing.T) {
	d := readDocument(t, "hostile/malformed.yaml", Options{})
	equal(t, "operations", summary(d), "/list failed; /text failed; GET no-slash; GET /open{brace; GET /query?x=1; "+
		"GET /operations failed; PUT /operations failed; POST /operations 12; DELETE /operations; GET /good good")
	post := find(t, d, "12")
	equal(t, "tags", post.Tags, []string{"single"})
	equal(t, "parameters", parameterLines(post), []string{"query single form explode required"})
	equal(t, "statuses", len(post.Responses), 1)
	equal(t, "security", post.Security, []map[string][]string{{"key": {"scope"}}})
	if !post.Deprecated || post.Body == nil || post.BasePath != "" {
		t.Errorf("%+v", post)
	}
	for _, op := range d.Operations() {
		if op.Method == "DELETE" {
			equal(t, "parameters", parameterLines(op), []string{"query c form explode"})
			equal(t, "one warning for each", len(op.Warnings), 11)
		}
	}
	good := find(t, d, "good")
	if good.Err != nil || len(good.Warnings) > 0 {
		t.Errorf("good: %v %q", good.Err, good.Warnings)
	}
}

func TestOperationRules(t *testing.T) {
	tests := []struct{ rule, paths, want string }{
		{"required-parameter-without-name", `{"/a":{"get":{"parameters":[{"in":"query","required":true}]}}}`, "GET /a failed"},
		{"required-parameter-in-unknown-place", `{"/a":{"get":{"parameters":[{"name":"a","in":"body","required":true}]}}}`, "GET /a failed"},
		{"unresolvable-parameter-is-left-out", `{"/a":{"get":{"parameters":[{"$ref":"#/x"}]}}}`, "GET /a"},
		{"unresolvable-path-item", `{"/a":{"$ref":"#/x"},"/b":{"get":{}}}`, "/a failed; GET /b"},
		{"operations-beside-path-ref", `{"/a":{"$ref":"#/paths/~1b","put":{}},"/b":{"get":{}}}`, "GET /a; PUT /a; GET /b"},
		{"operation-on-both-sides-of-path-ref", `{"/a":{"$ref":"#/paths/~1b","get":{"operationId":"mine"}},"/b":{"get":{"operationId":"x"}}}`, "GET /a x; GET /b x"},
		{
			"path-leads-elsewhere", `{"/a/../b":{"get":{}},"/a/%2E%2e":{"get":{}},"/./a":{"get":{}},"/a..b/...":{"get":{}}}`,
			"GET /a/../b; GET /a/%2E%2e; GET /./a; GET /a..b/...",
		},
		{"operations-beside-broken-path-ref", `{"/a":{"$ref":"#/x","put":{}}}`, "/a failed; PUT /a"},
		{"operation-by-ref", `{"/a":{"get":{"$ref":"#/paths/~1b/get"}},"/b":{"get":{"operationId":"x"}}}`, "GET /a x; GET /b x"},
		{"upper-case-method", `{"/a":{"GET":{}}}`, "GET /a"},
		{"two-cases-of-a-method", `{"/a":{"GET":{},"get":{"operationId":"x"}}}`, "GET /a x"},
		{
			"all-methods", `{"/a":{"get":{},"put":{},"post":{},"delete":{},"options":{},"head":{},"patch":{},"trace":{},"query":{},"summary":"s"}}`,
			"GET /a; PUT /a; POST /a; DELETE /a; OPTIONS /a; HEAD /a; PATCH /a; TRACE /a failed",
		},
		{"body-without-media-type", `{"/a":{"post":{"requestBody":{"content":{}}}}}`, "POST /a"},
		{"required-body-without-media-type", `{"/a":{"post":{"requestBody":{"required":true,"content":{}}}}}`, "POST /a failed"},
		{"body-is-text", `{"/a":{"post":{"requestBody":"text"}}}`, "POST /a failed"},
		{"path-leads-above-the-root", `{"/../b":{"get":{}},"/a/../../b":{"get":{}}}`, "GET /../b failed; GET /a/../../b failed"},
		{"several-names-in-a-segment", `{"/a/{b}.{c}":{"get":{}}}`, "GET /a/{b}.{c}"},
		{"control-character-in-path", "{\"/a\\nb\":{\"get\":{}}}", "GET /a b"},
		{"nul-in-path", "{\"/a\\u0000b\":{\"get\":{}}}", "GET /a\x00b failed"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			d := readText(t, `{"openapi":"3.1.0","info":{},"paths":`+test.paths+`}`)
			equal(t, "operations", summary(d), test.want)
		})
	}
}

func TestOpenAPI32(t *testing.T) {
	d := readText(t, `{"openapi":"3.2.0","info":{},"paths":{"/a":{"get":{},"query":{"operationId":"q"},"additionalOperations":{"COPY":{"operationId":"c"}}}}}`)
	equal(t, "operations", summary(d), "GET /a; QUERY /a q failed; COPY /a c failed")
}
