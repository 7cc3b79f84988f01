package plainrequest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
)

// TestPath_fragment_and_query_make_operations checks that each operation has a name
// of its own and sends what its path says.
func TestPath_fragment_and_query_make_operations(t *testing.T) {
	toolset := buildTools(t, testkit.SharedPaths, tools.BuildOptions{})
	if len(toolset.Tools()) != toolset.Report.Operations || toolset.Report.Operations != 13 {
		t.Fatalf("%d tools of %d operations: %v", len(toolset.Tools()), toolset.Report.Operations, toolset.Report.Warnings)
	}
	for name, test := range map[string]struct{ arguments, want string }{
		"GetItem":                             {`{"Key":"a"}`, "POST /v1/ X-Amz-Target=Store.GetItem"},
		"DeleteItem":                          {`{"Key":"a"}`, "POST /v1/ X-Amz-Target=Store.DeleteItem"},
		"put_files_id_add_shared_link":        {`{"id":"7","fields":"a"}`, "PUT /v1/files/7?fields=a"},
		"get_services_rest_method_photos_get": {`{"photo":"1&2"}`, "GET /v1/services/rest/?method=photos.get&photo=1%262"},
		"fast":                                {`{}`, "GET /v1/search?mode=fast"},
		"search":                              {`{"mode":"slow"}`, "GET /v1/search?mode=slow"},
		"PutAcl":                              {`{"bucket":"b","key":"k"}`, "PUT /v1/b/objects/k?acl"},
		"status":                              {`{}`, "GET /v1/v2/status"},
	} {
		called, ok := toolset.Tool(name)
		if !ok {
			t.Errorf("no tool %s", name)
			continue
		}
		r := callRequest(t, called, test.arguments)
		got := r.Method + " " + r.URL.RequestURI()
		if target := r.Header.Get("X-Amz-Target"); target != "" {
			got += " X-Amz-Target=" + target
		}
		if got != test.want {
			t.Errorf("%s sends %s, want %s", name, got, test.want)
		}
	}
}

// TestMatch_shared_paths checks that a plain request is of an operation only if it
// can be of no other one.
func TestMatch_shared_paths(t *testing.T) {
	routes := NewRoutes(buildTools(t, testkit.SharedPaths, tools.BuildOptions{}))
	const none, ambiguous = "none", "ambiguous"
	type header = http.Header
	for _, test := range []struct {
		request string
		header  header
		want    string
	}{
		{"POST /v1/", header{"X-Amz-Target": {"Store.GetItem"}}, "GetItem"},
		{"POST /v1/", header{"X-Amz-Target": {"Store.DeleteItem"}}, "DeleteItem"},
		{"POST /v1/", nil, none},
		{"POST /v1/", header{"X-Amz-Target": {"Store.Drop"}}, none},
		{"POST /v1/", header{"X-Amz-Target": {"store.deleteitem"}}, ambiguous},
		{"POST /v1/", header{"X-Amz-Target": {"Store.GetItem", "Store.DeleteItem"}}, ambiguous},
		{"POST /v1/", header{"X-Amz-Target": {"Store.GetItem"}, "X_Amz_Target": {"Store.DeleteItem"}}, ambiguous},

		// They cannot be distinguished.
		{"PUT /v1/files/7", nil, ambiguous},
		{"PUT /v1/files/7?fields=a", nil, ambiguous},

		{"GET /v1/services/rest/?method=photos.get", nil, "get_services_rest_method_photos_get"},
		{"GET /v1/services/rest/?photo=1&method=photos.delete", nil, "get_services_rest_method_photos_delete"},
		{"GET /v1/services/rest/?%6Dethod=photos%2Edelete", nil, "get_services_rest_method_photos_delete"},
		{"HEAD /v1/services/rest/?method=photos.get", nil, "get_services_rest_method_photos_get"},
		{"GET /v1/services/rest/", nil, none},
		{"GET /v1/services/rest/?method=photos.drop", nil, none},
		{"GET /v1/services/rest/?method=photos.get&method=photos.delete", nil, ambiguous},
		{"GET /v1/services/rest/?method=photos.get&Method=photos.delete", nil, ambiguous},
		{"GET /v1/services/rest/?method=photos.get&method[]=photos.delete", nil, ambiguous},
		{"GET /v1/services/rest/?method=Photos.Delete", nil, ambiguous},
		{"GET /v1/services/rest/?method=photos.get;method=photos.delete", nil, ambiguous},
		{"GET /v1/services/rest?method=photos.get", nil, ambiguous},

		{"GET /v1/search?mode=slow", nil, "search"},
		{"GET /v1/search", nil, "search"},
		{"GET /v1/search?mode=fast", nil, ambiguous}, // search takes any mode
		{"GET /v1/search?MODE=fast", nil, ambiguous},
		{"GET /v1/search?mode=FAST", nil, ambiguous},

		{"PUT /v1/b/objects/k", nil, "PutObject"},
		{"PUT /v1/b/objects/k?acl", nil, "PutAcl"},
		{"PUT /v1/b/objects/k?acl=", nil, "PutAcl"},
		{"PUT /v1/b/objects/k?acl=x", nil, ambiguous},
		{"PUT /v1/b/objects/k?ACL", nil, ambiguous},
		{"PUT /v1/b/objects/k?uploadId=1", nil, "UploadPart"},
		{"PUT /v1/b/objects/k?upload_id=1", nil, ambiguous},
		{"PUT /v1/b/objects/k?acl&uploadId=1", nil, ambiguous},
		{"PUT /v1/b/objects/k", header{"X-Copy-Source": {"/a"}}, "CopyObject"},
		{"PUT /v1/b/objects/k", header{"X_copy_source": {"/a"}}, ambiguous},
		{"PUT /v1/b/objects/k?acl", header{"X-Copy-Source": {"/a"}}, ambiguous},

		{"GET /v1/v2/status", nil, "status"},
		{"GET /v1/v3/status", nil, none},
	} {
		method, target, _ := strings.Cut(test.request, " ")
		if got, err := outcomeOf(t, routes, method, target, test.header); got != test.want {
			t.Errorf("%s %v: got %s (%v), want %s", test.request, test.header, got, err, test.want)
		}
	}
}

// TestMatch_excluded_sibling checks one operation alone: a request that names a
// sibling which the Toolset excludes is not of it.
func TestMatch_excluded_sibling(t *testing.T) {
	routes := NewRoutes(buildTools(t, testkit.SharedPaths, tools.BuildOptions{Include: []build.Selector{{By: "operation", Value: "GetItem"}, {By: "path", Value: "/services/rest/?method=photos.get"}}}))
	for _, test := range []struct {
		request string
		target  string
		want    string
	}{
		{"POST /v1/", "Store.GetItem", "GetItem"},
		{"POST /v1/", "Store.DeleteItem", "none"},
		{"POST /v1/", "", "none"},
		{"GET /v1/services/rest/?method=photos.get", "", "get_services_rest_method_photos_get"},
		{"GET /v1/services/rest/?method=photos.delete", "", "none"},
		{"GET /v1/services/rest/", "", "none"},
	} {
		method, target, _ := strings.Cut(test.request, " ")
		header := http.Header{}
		if test.target != "" {
			header.Set("X-Amz-Target", test.target)
		}
		if got, err := outcomeOf(t, routes, method, target, header); got != test.want {
			t.Errorf("%s %s: got %s (%v), want %s", test.request, test.target, got, err, test.want)
		}
	}
}

// TestMatchCall checks that a call is of the tool that was called unless its request
// shows another operation.
func TestMatchCall_shared_paths(t *testing.T) {
	toolset := buildTools(t, testkit.SharedPaths, tools.BuildOptions{})
	routes := NewRoutes(toolset)
	for _, test := range []struct {
		tool, arguments string
		header          http.Header // of the caller's own request
		want            string
	}{
		{"update_file", `{"id":"7","name":"x"}`, nil, "update_file"},
		{"update_file", `{"id":"7","fields":"name"}`, nil, "update_file"},
		{"put_files_id_add_shared_link", `{"id":"7","fields":"a"}`, nil, "put_files_id_add_shared_link"},
		{"fast", `{}`, nil, "fast"},
		{"search", `{"mode":"slow"}`, nil, "search"},
		{"search", `{"mode":"fast"}`, nil, "fast"}, // the error says to call that
		{"search", `{"mode":"Fast"}`, nil, "ambiguous"},
		{"GetItem", `{}`, nil, "GetItem"},
		{"PutObject", `{"bucket":"b","key":"k"}`, nil, "PutObject"},
		{"PutObject", `{"bucket":"b","key":"k"}`, http.Header{"X-Copy-Source": {"/a"}}, "CopyObject"},
		{"PutAcl", `{"bucket":"b","key":"k"}`, http.Header{"X-Copy-Source": {"/a"}}, "ambiguous"},
		{"UploadPart", `{"bucket":"b","key":"k","uploadId":"1"}`, nil, "UploadPart"},
	} {
		called, _ := toolset.Tool(test.tool)
		r := callRequest(t, called, test.arguments)
		maps.Copy(r.Header, test.header)
		got := ""
		found, err := routes.MatchCall(r, called)
		if _, ok := errors.AsType[*match.AmbiguousError](err); ok {
			got = "ambiguous"
		} else if found != nil {
			got = found.Name
		}
		if got != test.want {
			t.Errorf("%s %s: got %s (%v), want %s", test.tool, test.arguments, got, err, test.want)
		}
	}
}

// TestMatch_override_beside_any_query checks that a query parameter without a type
// does not count as the declaration of a method override.
func TestMatch_override_beside_any_query(t *testing.T) {
	routes := NewRoutes(buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"post":{"operationId":"a","parameters":[
		{"name":"any","in":"query","schema":{}},{"name":"filter","in":"query","schema":{"type":"object"}}]}}}}`, tools.BuildOptions{}))
	for target, want := range map[string]string{"/a?any=1": "a", "/a?_method=DELETE": "ambiguous"} {
		if got, err := outcomeOf(t, routes, "POST", target, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", target, got, err, want)
		}
	}
}

// TestSelector_path_without_query_and_fragment checks that an exclude of a path
// leaves out the operations that share it.
func TestSelector_path_without_query_and_fragment(t *testing.T) {
	for value, want := range map[string]int{"/files/{id}": 2, "/files/*#add_shared_link": 1, "/services/**": 2, "/search?mode=fast": 1, "/search": 2} {
		toolset := buildTools(t, testkit.SharedPaths, tools.BuildOptions{Exclude: []build.Selector{{By: "path", Value: value}}})
		if toolset.Report.Excluded != want {
			t.Errorf("exclude path %s leaves out %d operations, want %d", value, toolset.Report.Excluded, want)
		}
	}
}

// TestMatch_override_in_the_path checks that an operation whose path has a method override
// as its constant query can be requested, and with that value only.
func TestMatch_override_in_the_path(t *testing.T) {
	routes := NewRoutes(buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a?_method=DELETE":{"post":{"operationId":"remove"}}}}`, tools.BuildOptions{}))
	for target, want := range map[string]string{"/a?_method=DELETE": "remove", "/a?_method=PUT": "none", "/a?_method=DELETE&_method=PUT": "ambiguous"} {
		if got, err := outcomeOf(t, routes, "POST", target, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", target, got, err, want)
		}
	}
}

// TestMatch_many_operations_at_one_path checks that building routes and matching take time
// in proportion to the number of operations that share a path.
func TestMatch_many_operations_at_one_path(t *testing.T) {
	toolsets := make(map[int]*tools.Toolset)
	testkit.InProportion(t, 2_000, 10, func(operations int) time.Duration {
		if toolsets[operations] == nil {
			var document strings.Builder
			document.WriteString(`{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{`)
			for i := range operations {
				fmt.Fprintf(&document, `"/a#%d":{"post":{"operationId":"op%d"}},`, i, i)
			}
			document.WriteString(`"/b":{"get":{"operationId":"b"}}}}`)
			toolsets[operations] = buildTools(t, document.String(), tools.BuildOptions{})
		}
		last := toolsets[operations].Tools()[operations-1]
		started := time.Now()
		routes := NewRoutes(toolsets[operations])
		if got, err := outcomeOf(t, routes, "POST", "/a", nil); got != "ambiguous" {
			t.Errorf("a plain request: %s (%v)", got, err)
		}
		if got, err := routes.MatchCall(callRequest(t, last, "{}"), last); got != last {
			t.Errorf("a call: %v (%v)", got, err)
		}
		return time.Since(started)
	})
}

// TestPath_repeated_parameter checks that a parameter that a path has twice is read once.
func TestPath_repeated_parameter(t *testing.T) {
	called, _ := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/{id}/copies/{id}":{"get":{"operationId":"a"}}}}`, tools.BuildOptions{}).Tool("a")
	r := callRequest(t, called, `{"id":"7"}`)
	if arguments, err := reader.ReadRequest(called, r, nil); err != nil || string(arguments) != `{"id":"7"}` {
		t.Errorf("%s is read as %s, %v", r.URL, arguments, err)
	}
	r.URL.Path = "/7/copies/8"
	var misread *match.RequestError
	if _, err := reader.ReadRequest(called, r, nil); !errors.As(err, &misread) || misread.Kind != request.Ambiguous {
		t.Errorf("two values: %v", err)
	}
}
