package mcpadapter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Every key in x-mcp is used or reported: where it is, what it must be, and what
// it may have been meant to be.
func TestWhatCannotBeUsedIsWarnedAbout(t *testing.T) {
	for rule, c := range map[string]struct{ extension, want string }{
		"prompt/kind":         {`prompt: 5`, `prompt must be true, or an object that describes it, not 5; it is left out`},
		"prompt/name":         {`prompt: {name: 5}`, `prompt.name must be a string, not 5`},
		"prompt/argument":     {`prompt: {arguments: [{nam: id}]}`, "ignored unknown key `prompt.arguments[0].nam`; did you mean prompt.arguments[0].name?"},
		"tool/kind":           {`tool: "no"`, `tool must be true or false, not "no"; it is left out`},
		"resource/kind":       {`resource: [1]`, `resource must be true, or an object`},
		"resource/member":     {`resource: {url: "a://b"}`, "ignored unknown key `resource.url`; did you mean resource.uri?"},
		"openai/kind":         {`openai: 7`, `openai must be an object, not 7`},
		"openai/slip":         {`openai: {outputTemplat: "ui://x"}`, "unknown key `openai.outputTemplat` is passed on as it is; did you mean openai.outputTemplate?"},
		"openai/text":         {`openai: {toolInvocation/invoking: "` + strings.Repeat("a", 65) + `"}`, `openai.toolInvocation/invoking must be a string of at most 64 characters`},
		"openai/csp":          {`openai: {widgetCSP: {connect: []}}`, `openai.widgetCSP must be an object of connect_domains`},
		"openai/twice":        {`openai: {widgetAccessible: true, openai/widgetAccessible: false}`, `openai.widgetAccessible is given twice; the first counts`},
		"icons/kind":          {`icons: {}`, `icons must be an array, not {}`},
		"icons/empty":         {`icons: [{}]`, `icons[0] must be an object whose src is an https:, http: or data: URI`},
		"icons/many":          {`icons: [` + strings.Repeat(`{src: "https://a.test/i"},`, 17) + `]`, `icons has more than 16 items; the rest is left out`},
		"ui/said-in-meta":     {`{resource: {uri: "ui://a/{id}", _meta: {ui: {}}}, ui: {prefersBorder: true}}`, `ui.prefersBorder is left out, as _meta of the resource says it already`},
		"icons/scheme":        {`icons: [{src: "javascript:alert(1)"}]`, `icons[0] must be an object whose src`},
		"unknown/far":         {`frobnicate: 1`, "ignored unknown key `frobnicate`; known keys are icons, openai, prompt, resource, tool, ui"},
		"unknown/near":        {`resourcez: true`, "ignored unknown key `resourcez`; did you mean resource?"},
		"ui/kind":             {`ui: true`, `ui must be an object, not true`},
		"ui/scheme":           {`ui: {resourceUri: "http://x"}`, `ui.resourceUri must be a URI that begins with ui://, not "http://x"; it is left out`},
		"ui/missing":          {`ui: {resourceUri: "ui://missing/x.html"}`, `ui.resourceUri: there is no resource ui://missing/x.html`},
		"ui/visibility":       {`ui: {visibility: [all]}`, `ui.visibility must be an array of "model" and "app"`},
		"ui/page-of-no-page":  {`ui: {csp: {}}`, `ui.csp is of a page, and the operation is none; it is left out`},
		"ui/tool-of-no-tool":  {`{tool: false, ui: {visibility: [app]}}`, `ui.visibility is of a tool, and the operation is none (tool: false)`},
		"ui/csp-of-no-origin": {`{resource: {uri: "ui://a"}, ui: {csp: {connectDomains: ["https://a;script-src *"]}}}`, `ui.csp must be an object of connectDomains`},
	} {
		t.Run(rule, func(t *testing.T) {
			if !strings.HasPrefix(c.extension, "{") {
				c.extension = "{" + c.extension + "}"
			}
			tools := build(t, `
openapi: 3.1.0
info: {title: Wrong, version: "1"}
paths:
  /a/{id}: {get: {operationId: a, parameters: [{name: id, in: path, required: true, schema: {type: string}}], x-mcp: `+c.extension+`, responses: {'200': {description: ok}}}}
`, tool.BuildOptions{Name: "wrong"})
			var all []string
			for _, w := range New(Options{}).Warnings(tools) {
				if w.Operation == "GET /a/{id}" {
					all = append(all, w.Reason)
				}
			}
			if !strings.Contains(strings.Join(all, "\n"), "x-mcp: "+c.want) {
				t.Errorf("%q is not in\n%s", c.want, strings.Join(all, "\n"))
			}
		})
	}
}

// Valid entries cause no warning, and invalid ones are not listed.
func TestUnusableLinkToAPageIsNotListed(t *testing.T) {
	tools := build(t, `
openapi: 3.1.0
info: {title: Good, version: "1"}
x-mcp: {icons: [{src: "https://a.test/i.png", mimeType: image/png, sizes: ["48x48"], theme: dark}]}
paths:
  /a: {get: {operationId: a, x-mcp: {ui: {resourceUri: "http://x"}}, responses: {'200': {description: ok}}}}
  /b: {get: {operationId: b, x-mcp: {tool: true, prompt: false, resource: {uri: "b://b", name: b, title: B, description: b, mimeType: text/plain},
    ui: {visibility: [model, app]}, openai: {somethingNew: 1}}, responses: {'200': {description: ok}}}}
`, tool.BuildOptions{Name: "good"})
	server := New(Options{})
	if warnings := server.Warnings(tools); len(warnings) != 1 || warnings[0].Operation != "GET /a" {
		t.Errorf("warnings %v", warnings)
	}
	r := conformant(revision.V20251125, "tools/list", "")
	r.server, r.tools = server, tools
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
