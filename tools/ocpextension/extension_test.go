package ocpextension_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
)

func build(t *testing.T, document string, options tools.BuildOptions) *tools.Toolset {
	t.Helper()
	set, err := tools.Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReader_reads_what_operations_declare(t *testing.T) {
	set := build(t, testkit.Extended, tools.BuildOptions{Name: "shop"})
	if set.Origin != "https://eu.shop.example" {
		t.Errorf("origin %q", set.Origin)
	}
	for _, test := range []struct {
		tool     string
		want     *ocpextension.Operation // without Enhanced
		enhanced string
	}{
		{"listOrders", &ocpextension.Operation{
			EnhancesWith: []string{"current_goal", "workspace", "history", "current_file"}, UpdatesContext: []string{"current_goal", "history"},
			RequiresContext: true, ContextUpdated: true,
		}, "next_actions"},
		{"addOrder", &ocpextension.Operation{}, "relevance"},
		{"byRef", &ocpextension.Operation{}, "hint"},
		{"wrapped", &ocpextension.Operation{}, "a"},
		{"namedProperties", &ocpextension.Operation{}, "properties"},
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

func TestProperty_checks_values(t *testing.T) {
	set := build(t, testkit.Extended, tools.BuildOptions{})
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

// A document cannot make tools large by one extension that all operations share.
func TestReader_is_bounded(t *testing.T) {
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
	const maxSchema = 32 << 10 // of one property, which may be read although there is little room left
	set := build(t, document.String(), tools.BuildOptions{})
	total := 0
	for _, tool := range set.Tools() {
		size := 0
		for _, p := range tool.OCP.Enhanced {
			size += len(p.Schema)
		}
		if size > ocpextension.MaxEnhancedSchemas+maxSchema || len(tool.OCP.Enhanced) > ocpextension.MaxEnhanced {
			t.Fatalf("%s: %d bytes, %d properties", tool.Name, size, len(tool.OCP.Enhanced))
		}
		total += size
	}
	if total > ocpextension.MaxAllEnhanced+ocpextension.MaxEnhancedSchemas {
		t.Errorf("%d bytes of schemas", total)
	}
}

func TestIsSuccess_takes_a_default_response_that_is_alone(t *testing.T) {
	for list, want := range map[string]string{"200 404": "200", "default": "default", "201 default": "201", "404 default": "", "2XX 204": "2XX 204"} {
		var all []openapi.Response
		for status := range strings.FieldsSeq(list) {
			all = append(all, openapi.Response{Status: status})
		}
		var got []string
		for i := range all {
			if ocpextension.IsSuccess(all[i].Status, all) {
				got = append(got, all[i].Status)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", list, got, want)
		}
	}
}

// Describe differs if the declaration does, and only then.
func TestOperation_Describe_shows_each_difference(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"a","x-ocp-context":{%s},"x-ocp-enhanced-response":{%s},"responses":{"200":{"description":"OK","x-ocp-context-updated":%t}}}}}}`
	described := make(map[string]bool)
	cases := []string{
		fmt.Sprintf(document, ``, ``, false), fmt.Sprintf(document, `"requires_context":true`, ``, false), fmt.Sprintf(document, `"enhances_with":["workspace"]`, ``, false),
		fmt.Sprintf(document, `"updates_context":["history"]`, ``, false), fmt.Sprintf(document, ``, `"hint":{"type":"string"}`, false),
		fmt.Sprintf(document, ``, `"hint":{"type":"integer"}`, false), fmt.Sprintf(document, ``, ``, true),
	}
	for range 2 {
		for _, text := range cases {
			tool, _ := build(t, text, tools.BuildOptions{}).Tool("a")
			described[tool.OCP.Describe()] = true
		}
	}
	if len(described) != len(cases) {
		t.Errorf("%d texts for %d declarations: %v", len(described), len(cases), described)
	}
	if text := (*ocpextension.Operation)(nil).Describe(); text != "" {
		t.Errorf("no declaration is described as %q", text)
	}
}
