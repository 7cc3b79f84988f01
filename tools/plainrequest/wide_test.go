package plainrequest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

const wideDocument = `openapi: 3.1.0
info: {title: T, version: "1"}
servers: [{url: https://api.example.com/v1}]
paths:
  /objects/{key=**}: {get: {operationId: object, responses: {}}, put: {operationId: store, responses: {}}}
  /objects/{key+}/tags: {get: {operationId: tags, responses: {}}}
  /objects/trash/empty: {get: {operationId: empty, responses: {}}}
  /objects/{bucket}: {get: {operationId: bucket, responses: {}}}
  /objects/{id}.zip/{part}: {get: {operationId: part, responses: {}}}
  /{name=racks/*}:lock: {post: {operationId: lock, responses: {}}}
  /{name=racks/*/rows/*}: {get: {operationId: row, responses: {}}}
  /{parent=racks/*/logs/**}/{day}: {get: {operationId: log, responses: {}}}
  /pages/{slug}-{rest:.+}.html: {get: {operationId: page, responses: {}}}
`

func TestMatch_parameters_of_several_segments(t *testing.T) {
	toolset := buildTools(t, wideDocument, tools.BuildOptions{})
	if len(toolset.Tools()) != 10 {
		t.Fatalf("%d tools: %v", len(toolset.Tools()), toolset.Report.Warnings)
	}
	routes := NewRoutes(toolset)
	const none, ambiguous = "none", "ambiguous"
	for target, want := range map[string]string{
		"GET /v1/objects/a/b.txt":               `object {"key":"a/b.txt"}`,
		"GET /v1/objects/a/b/c%20d/e":           `object {"key":"a/b/c d/e"}`,
		"PUT /v1/objects/trash/empty":           `store {"key":"trash/empty"}`, // only its GET is another operation
		"GET /v1/objects/a":                     `bucket {"bucket":"a"}`,
		"PUT /v1/objects/a":                     `store {"key":"a"}`,
		"GET /v1/objects/a/b/tags":              `tags {"key":"a/b"}`,
		"GET /v1/objects/tags/tags":             `tags {"key":"tags"}`,
		"GET /v1/objects/trash/empty":           `empty {}`,
		"GET /v1/objects/trash/full":            `object {"key":"trash/full"}`,
		"GET /v1/objects/a.zip/1":               `part {"id":"a","part":"1"}`,
		"GET /v1/objects/a.zip/1/2":             `object {"key":"a.zip/1/2"}`,
		"POST /v1/racks/7:lock":                 `lock {"name":"racks/7"}`,
		"GET /v1/racks/7/rows/8":                `row {"name":"racks/7/rows/8"}`,
		"GET /v1/racks/7/logs/a/b/monday":       `log {"parent":"racks/7/logs/a/b","day":"monday"}`,
		"GET /v1/pages/a-b/c.html":              `page {"slug":"a","rest":"b/c"}`,
		"POST /v1/racks/7/8:lock":               none,
		"POST /v1/shelves/7:lock":               none,
		"GET /v1/racks/7/logs/monday":           none, // ** is at least one segment
		"GET /v1/objects/":                      none,
		"POST /v1/%72acks/7:lock":               ambiguous,
		"POST /v1/racks/7%2F8:lock":             "lock unread", // some servers leave the slash of such a parameter encoded
		"GET /v1/objects/a/b%2Fc":               "object unread",
		"GET /v1/objects/a//b":                  ambiguous,
		"GET /v1/objects/a/b/":                  ambiguous,
		"GET /v1/objects//a/b":                  ambiguous,
		"GET /v1/objects/a/../trash/empty":      ambiguous,
		"GET /v1/objects/a/%2e%2e/b":            ambiguous,
		"GET /v1/objects/a/..%2Fb":              ambiguous,
		"GET /v1/objects/trash%2Fempty":         ambiguous,
		"GET /v1/objects/trash/%65mpty":         ambiguous,
		"GET /v1/objects/Trash/EMPTY":           ambiguous,
		"GET /v1/objects/trash/empty;x":         ambiguous,
		"GET /v1/objects/trash/empty.json":      ambiguous,
		"GET /v1/objects/a/b%2Ftags":            ambiguous,
		"GET /v1/objects/a/b/tags/":             ambiguous,
		"GET /v1/objects/a%2Fb":                 ambiguous, // one segment to some servers, and so of bucket
		"GET /v1/objects/a/b%00":                ambiguous,
		"GET /v1/objects/%2Fa/b":                ambiguous,
		"GET /v1/objects/" + `a\b/c`:            `object {"key":"a\\b/c"}`,
		"GET /v1/objects/trash" + `\` + "empty": ambiguous,
		"GET /v1/racks/7/../../objects/a/b":     ambiguous,
	} {
		method, path, _ := strings.Cut(target, " ")
		got, err := outcomeOf(t, routes, method, path, nil)
		if got != none && got != ambiguous {
			parsed, _ := url.ParseRequestURI(path)
			tool, _ := toolset.Tool(got)
			arguments, readErr := routes.ReadRequest(tool, &http.Request{Method: method, URL: parsed}, nil)
			if err = readErr; err != nil {
				arguments = []byte("unread")
			}
			got += " " + string(arguments)
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", target, got, err, want)
		}
	}
}

// What a call writes is read back as the same arguments of the same operation, or the call is refused.
func TestMatchCall_values_of_several_segments(t *testing.T) {
	toolset := buildTools(t, wideDocument, tools.BuildOptions{})
	routes := NewRoutes(toolset)
	for _, test := range []struct{ tool, argument, value, want string }{
		{"object", "key", "docs/a b?.md", "/v1/objects/docs/a%20b%3F.md"},
		{"object", "key", "a/ü;x/100%", "/v1/objects/a/%C3%BC%3Bx/100%25"},
		{"store", "key", "trash/empty", "/v1/objects/trash/empty"},
		{"lock", "name", "racks/a:b", "/v1/racks/a%3Ab:lock"},
		{"row", "name", "racks/1/rows/2", "/v1/racks/1/rows/2"},
		{"object", "key", "trash/empty", ""},
		{"object", "key", "TRASH/Empty", ""},
		{"object", "key", "a/b/tags", ""},
		{"object", "key", "a", ""},
		{"object", "key", "../trash", ""},
		{"object", "key", "a/./b", ""},
		{"object", "key", "a/..", ""},
		{"object", "key", "a/%2e%2e/b", ""},
		{"object", "key", "a%2Fb", ""},
		{"object", "key", "a/\nb", ""},
		{"object", "key", "/", ""},
		{"lock", "name", "racks/", ""},
		{"lock", "name", "7", ""},
		{"lock", "name", "racks/7/8", ""},
		{"row", "name", "racks/1/rows/", ""},
		{"row", "name", "racks/1/rows/2/3", ""},
	} {
		t.Run(test.tool+" "+test.value, func(t *testing.T) {
			called, _ := toolset.Tool(test.tool)
			arguments := fmt.Sprintf(`{%q:%q}`, test.argument, test.value)
			call, err := called.Bind([]byte(arguments))
			if err != nil {
				t.Fatal(err)
			}
			r, err := call.Request(t.Context())
			if test.want == "" {
				if _, ok := errors.AsType[*tools.Failure](err); !ok {
					t.Fatalf("sent %v, %v", r, err)
				}
				return
			}
			if err != nil || r.URL.EscapedPath() != test.want {
				t.Fatalf("sent %v, %v", r, err)
			}
			matched, err := routes.MatchCall(r, called)
			if err != nil || matched != called {
				t.Fatalf("matched %v, %v", matched, err)
			}
			if read, err := routes.ReadRequest(matched, r, nil); err != nil || string(read) != arguments {
				t.Errorf("read %s, %v", read, err)
			}
		})
	}
}

// Slashes that would make empty segments stay escaped: the value is the same, and no server is made to merge slashes.
func TestMatchCall_empty_segments_stay_escaped(t *testing.T) {
	toolset := buildTools(t, wideDocument, tools.BuildOptions{})
	store, _ := toolset.Tool("store")
	for value, want := range map[string]string{
		"/docs/a.md": "/v1/objects/%2Fdocs/a.md",
		"docs/":      "/v1/objects/docs%2F",
		"a//b":       "/v1/objects/a%2F%2Fb",
	} {
		r := callRequest(t, store, fmt.Sprintf(`{"key":%q}`, value))
		if got := r.URL.EscapedPath(); got != want || r.URL.Path != "/v1/objects/"+value {
			t.Errorf("%s: sent %s, which is %s", value, got, r.URL.Path)
		}
		if tool, err := NewRoutes(toolset).MatchCall(r, store); err == nil {
			t.Errorf("%s: some servers remove a slash, and %s matches", value, tool.Name)
		}
	}
}

// An operation that is no tool keeps its paths.
func TestMatch_wide_parameters_leave_excluded_operations_alone(t *testing.T) {
	exclude := tools.BuildOptions{Exclude: []build.Selector{{By: "operation", Value: "empty"}, {By: "operation", Value: "tags"}, {By: "operation", Value: "bucket"}}}
	toolset := buildTools(t, wideDocument, exclude)
	routes := NewRoutes(toolset)
	object, _ := toolset.Tool("object")
	for _, key := range []string{"trash/empty", "TRASH/empty", "a/b/tags", "a"} {
		if got, err := outcomeOf(t, routes, "GET", "/v1/objects/"+key, nil); got != "ambiguous" {
			t.Errorf("%s: got %s, %v", key, got, err)
		}
		call, err := object.Bind([]byte(fmt.Sprintf(`{"key":%q}`, key)))
		if err != nil {
			t.Fatal(err)
		}
		if path, err := call.Path(); err == nil {
			t.Errorf("%s: sent as %s", key, path)
		}
	}
	if got, err := outcomeOf(t, routes, "GET", "/v1/objects/trash/full", nil); got != "object" {
		t.Errorf("got %s, %v", got, err)
	}
}
