package tools

import (
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
)

// TestOCP has one test for each MUST of OCP 1.0 about tools, under the section that has
// it.
func TestOCP(t *testing.T) {
	t.Run("Schema_Discovery", testSchemaDiscovery)
	t.Run("Client_Libraries", func(t *testing.T) {
		t.Run("4_Error_Handling/malformed_operation_costs_no_other", func(t *testing.T) {
			tools := buildTools(t, strings.Replace(testkit.Shop, `"/slow":{"get":{`, `"/slow":{"get":{"parameters":[{"name":"x","in":"nowhere","required":true}],`, 1), BuildOptions{})
			if _, ok := tools.Tool("getOrder"); !ok || len(tools.Report.Warnings) == 0 {
				t.Errorf("%v", tools.Report.Warnings)
			}
		})
		t.Run("3_Tool_Execution/answers_validated", TestCheckResponse)
	})
	t.Run("Performance_Requirements", func(t *testing.T) {
		t.Run("Memory_Efficiency", func(t *testing.T) {
			data := testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz")
			const most = 16 << 20
			live := func() uint64 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				return stats.HeapAlloc
			}
			before := live()
			tools := buildTools(t, string(data), BuildOptions{Include: []build.Selector{{By: "tag", Value: "issues"}}})
			if len(tools.Tools()) < 30 {
				t.Fatalf("%d tools", len(tools.Tools()))
			}
			if kept := int64(live()) - int64(before); kept > most {
				t.Errorf("%d bytes are kept for %d tools", kept, len(tools.Tools()))
			}
			runtime.KeepAlive(tools)
			runtime.KeepAlive(data)
		})
	})
	t.Run("Validation_Requirements", func(t *testing.T) {
		t.Run("tool_parameters", func(t *testing.T) {
			tool, _ := buildTools(t, testkit.Shop, BuildOptions{}).Tool("getOrder")
			for _, arguments := range []string{`{}`, `{"id":"x"}`, `{"id":1,"other":1}`, `[]`} {
				if _, err := tool.Bind([]byte(arguments)); err == nil {
					t.Errorf("%s is taken", arguments)
				}
			}
		})
	})
}

func testSchemaDiscovery(t *testing.T) {
	t.Run("OpenAPI_3.0_and_3.1", func(t *testing.T) {
		for _, version := range []string{"3.0.0", "3.0.3", "3.1.0"} {
			document := strings.Replace(testkit.Shop, "3.0.3", version, 1)
			if tools := buildTools(t, document, BuildOptions{}); len(tools.Tools()) != 2 {
				t.Errorf("%s: %d tools", version, len(tools.Tools()))
			}
		}
	})
	t.Run("Tool_Schema_Definition", func(t *testing.T) {
		c := newToolChecker(t)
		for _, document := range []string{testkit.Shop, testkit.Trains, testkit.Extended} {
			for _, tool := range buildTools(t, document, BuildOptions{ResponseSchemas: true}).Tools() {
				c.check(t, tool)
			}
		}
	})
	t.Run("Deterministic_Naming", func(t *testing.T) {
		for _, test := range []struct{ id, method, path, want string }{
			{"listRepositories", "GET", "/repos", "listRepositories"},
			{"", "GET", "/repos/{owner}/{repo}/issues", "get_repos_owner_repo_issues"},
			{"", "POST", "/users", "post_users"},
		} {
			if got := build.NameForOperation(test.id, test.method, test.path); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		}
	})
	t.Run("Parameter_Processing", func(t *testing.T) {
		tools := buildTools(t, `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/a/{p}":{"post":{"operationId":"x",
			"parameters":[{"name":"p","in":"path","required":true,"schema":{"type":"string"}},{"name":"q","in":"query","schema":{"type":"integer"}},
				{"name":"X-H","in":"header","schema":{"type":"string"}}],
			"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["b"],"properties":{"b":{"type":"boolean"}}}}}},
			"responses":{"200":{"description":"OK"}}}}}}`, BuildOptions{})
		tool, _ := tools.Tool("x")
		var got []string
		for _, a := range tool.Definition.Arguments {
			got = append(got, a.Name+" "+string(a.In)+" "+a.mainType())
		}
		if want := []string{"p path string", "q query integer", "X_H header string", "b body boolean"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, err := tool.Bind([]byte(`{"p":"x","q":"no number","b":true}`)); err == nil || !strings.Contains(err.Error(), "/q") {
			t.Errorf("a parameter of the wrong type: %v", err)
		}
		call, err := tool.Bind([]byte(`{"p":"a b","q":2,"X_H":"h","b":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := call.Request(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		if r.URL.String() != "/a/a%20b?q=2" || r.Header.Get("X-H") != "h" || string(body) != `{"b":true}` {
			t.Errorf("%s %v %s", r.URL, r.Header, body)
		}
	})
	t.Run("Specification_Validation", func(t *testing.T) {
		for document, want := range map[string]string{
			`{`: "", ``: "", `[]`: "list", `{"asyncapi":"2.0"}`: "AsyncAPI", `{"openapi":"4.0.0"}`: "4.0.0 supported", `{}`: "no openapi",
		} {
			if _, err := Build([]byte(document), BuildOptions{Location: "api.json"}); err == nil || !testkit.ContainsAll(err.Error(), want) || !strings.Contains(err.Error(), "api.json") {
				t.Errorf("%s: %v", document, err)
			}
		}
	})
}
