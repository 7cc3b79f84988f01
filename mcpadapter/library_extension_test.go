package mcpadapter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Every key in x-mcp is either used or reported. The warning contains its path, its expected
// kind, and the nearest known key.
func TestExtensionWarnings(t *testing.T) {
	for rule, c := range map[string]struct{ extension, want string }{
		"prompt/kind":         {`prompt: 5`, `prompt object 5`},
		"prompt/name":         {`prompt: {name: 5}`, `prompt.name string 5`},
		"prompt/argument":     {`prompt: {arguments: [{nam: id}]}`, `prompt.arguments[0].nam prompt.arguments[0].name`},
		"tool/kind":           {`tool: "no"`, `tool true "no"`},
		"resource/kind":       {`resource: [1]`, `resource object [1]`},
		"resource/member":     {`resource: {url: "a://b"}`, `resource.url resource.uri`},
		"openai/kind":         {`openai: 7`, `openai object 7`},
		"openai/slip":         {`openai: {outputTemplat: "ui://x"}`, `openai.outputTemplat passed openai.outputTemplate`},
		"openai/text":         {`openai: {toolInvocation/invoking: "` + strings.Repeat("a", 65) + `"}`, `openai.toolInvocation/invoking 64`},
		"openai/csp":          {`openai: {widgetCSP: {connect: []}}`, `openai.widgetCSP connect_domains`},
		"openai/twice":        {`openai: {widgetAccessible: true, openai/widgetAccessible: false}`, `openai.widgetAccessible twice`},
		"icons/kind":          {`icons: {}`, `icons array {}`},
		"icons/empty":         {`icons: [{}]`, `icons[0] src data: {}`},
		"icons/many":          {`icons: [` + strings.Repeat(`{src: "https://a.test/i"},`, 17) + `]`, `icons 16`},
		"ui/said-in-meta":     {`{resource: {uri: "ui://a/{id}", _meta: {ui: {}}}, ui: {prefersBorder: true}}`, `ui.prefersBorder _meta`},
		"icons/scheme":        {`icons: [{src: "javascript:alert(1)"}]`, `icons[0] src data: javascript`},
		"unknown/far":         {`frobnicate: 1`, `frobnicate icons openai prompt resource tool ui`},
		"unknown/near":        {`resourcez: true`, `resourcez resource`},
		"ui/kind":             {`ui: true`, `ui object true`},
		"ui/scheme":           {`ui: {resourceUri: "http://x"}`, `ui.resourceUri ui:// "http://x"`},
		"ui/missing":          {`ui: {resourceUri: "ui://missing/x.html"}`, `ui.resourceUri ui://missing/x.html`},
		"ui/visibility":       {`ui: {visibility: [all]}`, `ui.visibility array model app`},
		"ui/page-of-no-page":  {`ui: {csp: {}}`, `ui.csp page`},
		"ui/tool-of-no-tool":  {`{tool: false, ui: {visibility: [app]}}`, `ui.visibility tool false`},
		"ui/csp-of-no-origin": {`{resource: {uri: "ui://a"}, ui: {csp: {connectDomains: ["https://a;script-src *"]}}}`, `ui.csp connectDomains`},
	} {
		t.Run(rule, func(t *testing.T) {
			if !strings.HasPrefix(c.extension, "{") {
				c.extension = "{" + c.extension + "}"
			}
			toolset := buildTools(t, `
openapi: 3.1.0
info: {title: Wrong, version: "1"}
paths:
  /a/{id}: {get: {operationId: a, parameters: [{name: id, in: path, required: true, schema: {type: string}}], x-mcp: `+c.extension+`, responses: {'200': {description: ok}}}}
`, tools.BuildOptions{Name: "wrong"})
			var all []string
			for _, w := range New(Options{}).Warnings(toolset) {
				if w.Operation == "GET /a/{id}" {
					all = append(all, w.Reason)
				}
			}
			if !anyHas(all, "x-mcp: "+c.want) {
				t.Errorf("no warning has the words %s:\n%s", c.want, strings.Join(all, "\n"))
			}
		})
	}
}

// anyHas reports whether one of the texts has all of the words.
func anyHas(texts []string, words string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return testkit.ContainsAll(text, words) })
}

// Valid entries cause no warning, and invalid ones are not listed.
func TestUnusable_link_to_a_page_is_not_listed(t *testing.T) {
	toolset := buildTools(t, `
openapi: 3.1.0
info: {title: Good, version: "1"}
x-mcp: {icons: [{src: "https://a.test/i.png", mimeType: image/png, sizes: ["48x48"], theme: dark}]}
paths:
  /a: {get: {operationId: a, x-mcp: {ui: {resourceUri: "http://x"}}, responses: {'200': {description: ok}}}}
  /b: {get: {operationId: b, x-mcp: {tool: true, prompt: false, resource: {uri: "b://b", name: b, title: B, description: b, mimeType: text/plain},
    ui: {visibility: [model, app]}, openai: {somethingNew: 1}}, responses: {'200': {description: ok}}}}
`, tools.BuildOptions{Name: "good"})
	server := New(Options{})
	if warnings := server.Warnings(toolset); len(warnings) != 1 || warnings[0].Operation != "GET /a" {
		t.Errorf("warnings %v", warnings)
	}
	r := conformant(protocol.V20251125, "tools/list", "")
	r.server, r.tools = server, toolset
	var list struct {
		Tools []struct {
			Name string
			Meta json.RawMessage `json:"_meta"`
		}
	}
	r.result(t, "ListToolsResult", &list)
	for _, tool := range list.Tools {
		if want := map[string]string{"b": `{"ui":{"visibility":["model","app"]},"openai/somethingNew":1}`}[tool.Name]; string(tool.Meta) != want {
			t.Errorf("%s has %s, want %s", tool.Name, tool.Meta, want)
		}
	}
}
