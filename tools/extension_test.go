package tools

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/extension"
)

func TestExtensions(t *testing.T) {
	set := buildTools(t, testkit.Extended, BuildOptions{Name: "shop"})
	if set.Origin != "https://eu.shop.example" {
		t.Errorf("origin %q", set.Origin)
	}
	for _, test := range []struct {
		tool     string
		want     *extension.Operation // without Enhanced
		enhanced string
	}{
		{"listOrders", &extension.Operation{
			EnhancesWith: []string{"current_goal", "workspace", "history", "current_file"}, UpdatesContext: []string{"current_goal", "history"},
			RequiresContext: true, ContextUpdated: true,
		}, "next_actions"},
		{"addOrder", &extension.Operation{}, "relevance"},
		{"byRef", &extension.Operation{}, "hint"},
		{"wrapped", &extension.Operation{}, "a"},
		{"namedProperties", &extension.Operation{}, "properties"},
		{"none", nil, ""},
		{"broken", nil, ""},
	} {
		tool, ok := set.Tool(test.tool)
		if !ok {
			t.Fatalf("no tool %s: %v", test.tool, set.Report.Warnings)
		}
		if test.want == nil {
			if tool.OCP != nil {
				t.Errorf("%s: %+v", test.tool, tool.OCP)
			}
			continue
		}
		got := *tool.OCP
		var names []string
		for _, p := range got.Enhanced {
			names = append(names, p.Name)
		}
		got.Enhanced = nil
		if !reflect.DeepEqual(&got, test.want) || strings.Join(names, " ") != test.enhanced {
			t.Errorf("%s: got %+v %q, want %+v %q", test.tool, got, names, test.want, test.enhanced)
		}
	}
	var reasons []string
	for _, w := range set.Report.Warnings {
		reasons = append(reasons, w.Operation+" "+w.Reason)
		if w.Lost {
			t.Errorf("an extension costs an operation: %+v", w)
		}
	}
	for _, want := range []string{
		"updates_context user", "property 1st", "schema plain object", "x-ocp-context object array", "x-ocp-enhanced-response: $ref",
	} {
		if !slices.ContainsFunc(reasons, func(reason string) bool { return testkit.ContainsAll(reason, want) }) {
			t.Errorf("no warning of %s in %q", want, reasons)
		}
	}
}

func TestExtension_Check(t *testing.T) {
	set := buildTools(t, testkit.Extended, BuildOptions{})
	list, _ := set.Tool("listOrders")
	actions := &list.OCP.Enhanced[0]
	for value, want := range map[string]string{
		`[]`:               "",
		`[{"name":"pay"}]`: "",
		`[{}]`:             "next_actions/0/name: missing",
		`"pay"`:            "next_actions: array string",
		`[`:                "next_actions: ",
	} {
		err := actions.Check(jsontext.Value(value))
		if (err == nil) != (want == "") || err != nil && !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
	if !slices.Contains(list.OCP.UpdatesContext, "history") || slices.Contains(list.OCP.UpdatesContext, "user") {
		t.Error("Updates")
	}
}

// TestExtensionsAreBounded: a document cannot make tools large by one extension
// that all operations share.
func TestExtensionsAreBounded(t *testing.T) {
	var document strings.Builder
	document.WriteString(`{"openapi":"3.1.0","info":{"title":"Big","version":"1"},"components":{"x-big":{`)
	for i := range 400 {
		fmt.Fprintf(&document, `"p%d":{"type":"string","description":%q},`, i, strings.Repeat("long ", 100))
	}
	document.WriteString(`"last":{}}},"paths":{"/none":{}`)
	for i := range 600 {
		fmt.Fprintf(&document, `,"/p%d":{"get":{"x-ocp-enhanced-response":{"$ref":"#/components/x-big"},"responses":{"200":{"description":"OK"}}}}`, i)
	}
	document.WriteString(`}}`)
	set := buildTools(t, document.String(), BuildOptions{})
	total := 0
	for _, tool := range set.Tools() {
		size := 0
		for _, p := range tool.OCP.Enhanced {
			size += len(p.Schema)
		}
		if size > extension.MaxEnhancedSchemas+maxResponseSchema || len(tool.OCP.Enhanced) > extension.MaxEnhanced {
			t.Fatalf("%s: %d bytes, %d properties", tool.Name, size, len(tool.OCP.Enhanced))
		}
		total += size
	}
	if total > extension.MaxAllEnhanced+extension.MaxEnhancedSchemas {
		t.Errorf("%d bytes of schemas", total)
	}
}

func TestOrigin(t *testing.T) {
	for document, want := range map[string]string{
		`{"openapi":"3.0.0","servers":[{"url":"http://a.example:81/v1"},{"url":"http://b.example"}],"paths":{}}`:              "http://a.example:81",
		`{"openapi":"3.0.0","servers":[{"url":"/v1"}],"paths":{}}`:                                                            "https://docs.example",
		`{"openapi":"3.0.0","servers":[{"url":"//c.example/v1"}],"paths":{}}`:                                                 "https://c.example",
		`{"openapi":"3.0.0","servers":[{"url":"ftp://c.example"}],"paths":{}}`:                                                "",
		`{"openapi":"3.0.0","servers":[{"url":"https://{x}","variables":{"x":{"default":"{x}{x}{x}{x}{x}{x}"}}}],"paths":{}}`: "",
		`{"openapi":"3.0.0","servers":[{"url":"https://{host}/","variables":{"host":{"default":"d.example"}}}],"paths":{}}`:   "https://d.example",
		`{"openapi":"3.0.0","paths":{}}`:                                             "https://docs.example",
		`{"swagger":"2.0","host":"e.example","schemes":["http","https"],"paths":{}}`: "http://e.example",
		`{"swagger":"2.0","host":"e.example:8080","paths":{}}`:                       "https://e.example:8080",
		`{"swagger":"2.0","paths":{}}`:                                               "https://docs.example",
	} {
		if got := buildTools(t, document, BuildOptions{Location: "https://docs.example/openapi.json"}).Origin; got != want {
			t.Errorf("%s: got %q, want %q", document, got, want)
		}
	}
	if got := buildTools(t, `{"openapi":"3.0.0","servers":[{"url":"/v1"}],"paths":{}}`, BuildOptions{Location: "api.json"}).Origin; got != "" {
		t.Errorf("a file is at %q", got)
	}
}
