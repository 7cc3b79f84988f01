package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestObjects_inject_no_parameter: a member of a free-form object passes for no
// other argument, whose schema would not see it.
func TestObjects_inject_no_parameter(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{
		"get":{"operationId":"query","parameters":[{"name":"page","in":"query","schema":{"type":"integer"}},{"name":"extra","in":"query","schema":{"type":"object"}}]},
		"post":{"operationId":"form","requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{
			"schema":{"type":"object","properties":{"page":{"type":"integer"},"extra":{"type":"object"}}},
			"encoding":{"extra":{"style":"form","explode":true}}}}}}}}}`, BuildOptions{})
	for _, tool := range tools.Tools() {
		for arguments, good := range map[string]bool{`{"extra":{"other":"x"}}`: true, `{"extra":{"page":"x"}}`: false} {
			call, err := tool.Bind([]byte(arguments))
			if err != nil {
				t.Fatal(err)
			}
			_, err = call.Request(context.Background())
			if failure, _ := errors.AsType[*Failure](err); (err == nil) != good || err != nil && failure.Problems[0].Path != "/extra" {
				t.Errorf("%s %s: %v", tool.Name, arguments, err)
			}
		}
	}
}

// TestOpenBody: where a body takes further properties, none of them passes for one
// that the document names, past its schema or its being read-only.
func TestOpenBody(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"post":{"operationId":"a",
		"parameters":[{"name":"id","in":"query","schema":{"type":"string"}}],
		"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","additionalProperties":true,"properties":{
			"seats[first]":{"type":"integer"},"created":{"type":"string","readOnly":true},"id":{"type":"integer"}}}}}}}}}}`, BuildOptions{})
	tool, _ := tools.Tool("a")
	for arguments, problem := range map[string]string{
		`{"seats_first":1,"body_id":2,"other":3}`: "",
		`{"seats[first]":"none"}`:                 "seats[first] seats_first",
		`{"seats_first":1,"seats[first]":"none"}`: "seats[first] seats_first",
		`{"created":"today"}`:                     "created argument",
	} {
		_, err := tool.Bind([]byte(arguments))
		if (err == nil) != (problem == "") || err != nil && !testkit.ContainsAll(err.Error(), problem) {
			t.Errorf("%s: got %v, want %q", arguments, err, problem)
		}
	}
}

func TestRequest(t *testing.T) {
	tools := buildTools(t, testkit.Trains, BuildOptions{})
	for _, test := range []struct{ name, tool, arguments, want string }{
		{"defaults of parameters are sent", "getTrip", `{"id":"7"}`, "GET /v1/trips/7?page=1"},
		{
			"every location", "getTrip", `{"id":"a b","fields":["from","to"],"filter_class":"first","page":2,"X_Trace_Id":"t1","theme":"dark"}`,
			"GET /v1/trips/a%20b?fields=from,to&filter%5Bclass%5D=first&page=2 | X-Trace-Id: t1 | Cookie: theme=dark",
		},
		{"null for an optional argument is none", "getTrip", `{"id":"7","fields":null,"page":null,"theme":null}`, "GET /v1/trips/7?page=1"},
		{"a slash stays in its segment", "getTrip", `{"id":"a/b?c#d"}`, "GET /v1/trips/a%2Fb%3Fc%23d?page=1"},
		{
			"body properties that clash, required default, no other default", "changeTrip", `{"id":"7","body_id":"8"}`,
			`PATCH /v1/trips/7 | Content-Type: application/merge-patch+json | {"id":"8","note":"none"}`,
		},
		{
			"null for a body property that may be null is sent", "changeTrip", `{"id":"7","window":null,"seats":null}`,
			`PATCH /v1/trips/7 | Content-Type: application/merge-patch+json | {"note":"none","window":null}`,
		},
		{
			"numbers keep their text", "changeTrip", `{"id":"7","seats":12345678901234567890}`,
			`PATCH /v1/trips/7 | Content-Type: application/merge-patch+json | {"note":"none","seats":12345678901234567890}`,
		},
		{"an optional body may be left out", "addLabel", `{}`, "POST /v1/labels"},
		{
			"further properties where the body allows them", "addLabel", `{"name":"x","weight":3}`,
			`POST /v1/labels | Content-Type: application/json | {"name":"x","weight":3}`,
		},
		{"the whole body", "search", `{"body":["a", "b"]}`, `POST /v1/search | Content-Type: application/json | ["a", "b"]`},
		{"no arguments at all", "addLabel", ``, "POST /v1/labels"},
		{"null arguments", "addLabel", `null`, "POST /v1/labels"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool, ok := tools.Tool(test.tool)
			if !ok {
				t.Fatalf("no tool %s", test.tool)
			}
			call, err := tool.Bind([]byte(test.arguments))
			if err != nil {
				t.Fatal(err)
			}
			r, err := call.Request(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if got := testkit.RequestText(t, r); got != test.want {
				t.Errorf("request\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestInvalidArguments(t *testing.T) {
	tools := buildTools(t, testkit.Trains, BuildOptions{})
	for _, test := range []struct{ name, tool, arguments, want string }{
		{"missing", "getTrip", `{}`, "/id: missing"},
		{"unknown, with the nearest", "getTrip", `{"id":"7","field":["a"]}`, "/field: argument fields?"},
		{"unknown, with none near", "getTrip", `{"id":"7","zzzzzzzz":1}`, "/zzzzzzzz: no argument"},
		{"wrong type", "getTrip", `{"id":7}`, "/id: string number"},
		{"wrong type inside", "getTrip", `{"id":"7","fields":["a",1]}`, "/fields/1: string number"},
		{"not in the enum", "getTrip", `{"id":"7","filter_class":"third"}`, "/filter_class: one first second"},
		{"null for a required argument", "getTrip", `{"id":null}`, "/id: string null"},
		{"no alternative fits", "search", `{"body":1}`, "/body: none alternatives"},
		{"a body begun needs the rest", "addLabel", `{"colour":"red"}`, "/name: missing body"},
		{"further property of the wrong type", "addLabel", `{"name":"x","weight":"heavy"}`, "/weight: integer string"},
		{"read-only properties are no arguments", "changeTrip", `{"id":"7","created":"now"}`, "/created: no argument"},
		{"not an object", "getTrip", `[1]`, "JSON object"},
		{"not JSON", "getTrip", `{"id":`, "JSON object read"},
		{"duplicate", "getTrip", `{"id":"1","id":"2"}`, "duplicate"},
		{"deep", "getTrip", `{"id":` + strings.Repeat("[", 1000), "deeper"},
		{"empty path argument", "getTrip", `{"id":""}`, "/id: "},
		{"dot segment", "getTrip", `{"id":".."}`, "/id: "},
		{"dot segment inside", "getTrip", `{"id":"a/../b"}`, "/id: "},
		{"escaped dot segment", "getTrip", `{"id":"%2e%2e"}`, "/id: "},
		{"control character", "getTrip", `{"id":"a\u0000"}`, "/id: "},
		{"header injection", "getTrip", `{"id":"7","X_Trace_Id":"a\r\nHost: evil"}`, "/X_Trace_Id: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool, ok := tools.Tool(test.tool)
			if !ok {
				t.Fatalf("no tool %s", test.tool)
			}
			call, err := tool.Bind([]byte(test.arguments))
			if err == nil {
				_, err = call.Request(context.Background())
			}
			var failure *Failure
			if !errors.As(err, &failure) || failure.Kind != InvalidArguments {
				t.Fatalf("error %v is no InvalidArguments", err)
			}
			if !testkit.ContainsAll(failure.Message, test.want) {
				t.Errorf("message %q does not say %q", failure.Message, test.want)
			}
		})
	}
}

func TestJoinedDots(t *testing.T) {
	tool, _ := buildTools(t, strings.Replace(testkit.Trains, "/a{x}{y}/b", "/{x}{y}/b", 1), BuildOptions{BasePath: "/"}).Tool("joined")
	for arguments, want := range map[string]string{
		`{"x":"a","y":"b"}`:   "/ab/b",
		`{"x":"a.","y":".b"}`: "/a..b/b",
	} {
		call, err := tool.Bind([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		r, err := call.Request(context.Background())
		if err != nil || r.URL.Path != want {
			t.Errorf("%s: path %v, error %v, want %s", arguments, r, err, want)
		}
	}
}

// FuzzRequest holds every request that can be built to the operation's own path.
func FuzzRequest(f *testing.F) {
	tools := buildTools(f, testkit.Trains, BuildOptions{})
	for _, seed := range []string{
		`{"id":"7"}`, `{"id":"../x"}`, `{"id":"%2e%2e/","fields":["a&b"],"theme":"a;b"}`, `{"id":"x","X_Trace_Id":"é"}`, `{}`, `[`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		tool, _ := tools.Tool("getTrip")
		call, err := tool.Bind([]byte(arguments))
		if err != nil {
			return
		}
		r, err := call.Request(context.Background())
		if err != nil {
			return
		}
		segments := strings.Split(r.URL.EscapedPath(), "/")
		if len(segments) != 4 || segments[3] == "" || !slices.Equal(segments[1:3], []string{"v1", "trips"}) {
			t.Fatalf("arguments %q lead to %s, want /v1/trips/…", arguments, r.URL.EscapedPath())
		}
		for name, values := range r.Header {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Fatalf("arguments %q give the header %s: %q", arguments, name, values)
			}
		}
	})
}

func BenchmarkBindAndRequest(b *testing.B) {
	tool, _ := buildTools(b, testkit.Trains, BuildOptions{}).Tool("getTrip")
	arguments := []byte(`{"id":"berlin-hbf","fields":["from","to"],"page":2}`)
	b.ReportAllocs()
	for b.Loop() {
		call, err := tool.Bind(arguments)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := call.Request(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
