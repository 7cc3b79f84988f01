package mcpadapter

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

func TestTools_name_their_apps(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got struct {
				Tools []struct {
					Name            string
					Icons           []any
					SecuritySchemes json.RawMessage
					Meta            map[string]json.RawMessage `json:"_meta"`
				}
			}
			shelved(t, server, v, "tools/list", "").result(t, "ListToolsResult", &got)
			if len(got.Tools) != 6 {
				t.Fatalf("%d tools", len(got.Tools))
			}
			for _, tool := range got.Tools {
				if v < protocol.V20250618 && tool.Meta != nil || v < protocol.V20251125 && (tool.Icons != nil || tool.SecuritySchemes != nil) {
					t.Errorf("%s has what the revision does not know: %+v", tool.Name, tool)
				}
				want := map[string]map[string]string{
					"list_stations": {
						"ui":                             `{"resourceUri":"ui://trains/board.html","visibility":["app"]}`,
						"openai/outputTemplate":          `"ui://trains/board.skybridge.html"`,
						"openai/toolInvocation/invoking": `"Looking"`,
						"openai/toolInvocation/invoked":  `"Found"`,
						"openai/widgetAccessible":        `true`,
						"openai/visibility":              `"private"`,
						"securitySchemes":                `[{"type":"noauth"}]`,
					},
					"get_board": {
						"ui":                      `{"resourceUri":"ui://board"}`,
						"openai/outputTemplate":   `"ui://board"`,
						"openai/widgetAccessible": `true`,
						"securitySchemes":         `[{"type":"noauth"}]`,
					},
					"get_secret": {"securitySchemes": `[{"type":"oauth2","scopes":["read","write"]}]`},
				}[tool.Name]
				if want == nil || v < protocol.V20250618 {
					continue
				}
				has := make(map[string]string)
				for key, value := range tool.Meta {
					has[key] = string(value)
				}
				if !reflect.DeepEqual(has, want) {
					t.Errorf("%s has %v", tool.Name, has)
				}
				if v >= protocol.V20251125 && string(tool.SecuritySchemes) != want["securitySchemes"] {
					t.Errorf("%s has %s", tool.Name, tool.SecuritySchemes)
				}
				if tool.Name == "get_board" && (len(tool.Icons) == 1) != (v >= protocol.V20251125) {
					t.Errorf("icons %v", tool.Icons)
				}
			}
		})
	}
}

func TestSecuritySchemes_of_a_site_that_demands_a_login(t *testing.T) {
	server := stocked(t, Options{})
	for rule, c := range map[string]struct {
		login        *Login
		free, secret string // of a tool without security and of one with scopes
	}{
		"none":               {nil, `[{"type":"noauth"}]`, `[{"type":"oauth2","scopes":["read","write"]}]`},
		"token":              {&Login{OAuth: true}, `[{"type":"oauth2"}]`, `[{"type":"oauth2","scopes":["read","write"]}]`},
		"token with a scope": {&Login{OAuth: true, Scopes: []string{"base"}}, `[{"type":"oauth2","scopes":["base"]}]`, `[{"type":"oauth2","scopes":["base","read","write"]}]`},
		"API key":            {&Login{}, ``, ``},
	} {
		t.Run(rule, func(t *testing.T) {
			r := conformant(protocol.V20251125, "tools/list", "")
			r.server, r.tools, r.login = server, stationTools(t), c.login
			var list struct {
				Tools []struct {
					Name            string          `json:"name"`
					SecuritySchemes json.RawMessage `json:"securitySchemes"`
				}
			}
			if err := json.Unmarshal(parse(t, r.Send(t)).Result, &list); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"list_stations": c.free, "get_secret": c.secret}
			found := 0
			for _, tool := range list.Tools {
				schemes, checked := want[tool.Name]
				if !checked {
					continue
				}
				if found++; string(tool.SecuritySchemes) != schemes {
					t.Errorf("%s has %s, want %s", tool.Name, tool.SecuritySchemes, schemes)
				}
			}
			if found != len(want) {
				t.Errorf("found %d of the tools in %+v", found, list)
			}
		})
	}
}

func TestPages_of_apps_say_what_they_need(t *testing.T) {
	server := stocked(t, Options{})
	for uri, want := range map[string]string{
		"ui://trains/board.html": `{"ui":{"csp":{"connectDomains":["https://api.example.com"],"resourceDomains":["https://cdn.example.com"]},` +
			`"domain":"https://app.example.com","prefersBorder":true}}`,
		"ui://trains/board.skybridge.html": `{"openai/widgetCSP":{"connect_domains":["https://api.example.com"],"resource_domains":["https://cdn.example.com"]},` +
			`"openai/widgetDescription":"Shows stations","openai/widgetDomain":"https://app.example.com","openai/widgetPrefersBorder":true}`,
	} {
		var got readAnswer
		shelved(t, server, protocol.V20251125, "resources/read", `"uri":"`+uri+`"`).result(t, "ReadResourceResult", &got)
		if meta, _ := json.Marshal(got.Contents[0].Meta); string(meta) != want {
			t.Errorf("%s\ngot  %s\nwant %s", uri, meta, want)
		}
		got = readAnswer{}
		shelved(t, server, protocol.V20250326, "resources/read", `"uri":"`+uri+`"`).result(t, "ReadResourceResult", &got)
		if got.Contents[0].Meta != nil {
			t.Errorf("_meta before there was any")
		}
	}
}

func TestHidden_operation_is_no_tool(t *testing.T) {
	server := stocked(t, Options{})
	shelved(t, server, protocol.V20251125, "tools/call", `"name":"get_photo","arguments":{"id":7}`).fault(t, 200, protocol.InvalidParams)
}

// A page that an operation answers with is listed and read as what a host takes for
// a page: what the document says it is, or else one of MCP Apps.
func TestOperations_are_pages(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Pages, version: "1"}
paths:
  /board: {get: {operationId: board, x-mcp: {resource: {uri: "ui://p/board"}}, responses: {'200': {description: ok, content: {text/html: {}}}}}}
  /older: {get: {operationId: older, x-mcp: {resource: {uri: "ui://p/older", mimeType: text/html+skybridge}}, responses: {'200': {description: ok, content: {text/html: {}}}}}}
  /plain: {get: {operationId: plain, x-mcp: {resource: {uri: "web://p/plain"}}, responses: {'200': {description: ok, content: {text/html: {}}}}}}
`
	toolset, server := buildTools(t, document, tools.BuildOptions{Name: "pages"}), New(Options{})
	ask := func(method, params string) testRequest {
		r := conformant(protocol.V20251125, method, params)
		r.server, r.tools = server, toolset
		r.caller = through(toolset, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<p>"))
		})
		return r
	}
	want := map[string]string{"ui://p/board": library.AppType, "ui://p/older": "text/html+skybridge", "web://p/plain": "text/html"}
	var list resourceList
	ask("resources/list", "").result(t, "ListResourcesResult", &list)
	if len(list.Resources) != len(want) {
		t.Errorf("listed %+v", list.Resources)
	}
	for _, r := range list.Resources {
		var got readAnswer
		ask("resources/read", `"uri":"`+r.URI+`"`).result(t, "ReadResourceResult", &got)
		if r.MIMEType != want[r.URI] || got.Contents[0].MIMEType != want[r.URI] {
			t.Errorf("%s is listed as %s and read as %s, want %s", r.URI, r.MIMEType, got.Contents[0].MIMEType, want[r.URI])
		}
	}
}

// A document can declare a whole app: the page, what the page needs, and the tool.
func TestDocument_declares_an_app(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Apps, version: "1"}
paths:
  /page:
    get:
      operationId: page
      x-mcp:
        tool: false
        resource: {uri: "ui://a/board.html", mimeType: "text/html;profile=mcp-app", _meta: {own: 1}}
        ui: {csp: {connectDomains: ["https://a.test"]}, prefersBorder: true, domain: a}
        openai: {widgetCSP: {connect_domains: [], resource_domains: []}, "openai/widgetDescription": Board}
      responses: {'200': {description: ok, content: {text/html: {}}}}
  /board:
    get:
      operationId: board
      x-mcp:
        ui: {resourceUri: "ui://a/board.html", visibility: [app]}
        openai: {outputTemplate: "ui://a/board.html", widgetAccessible: true}
      responses: {'200': {description: ok, content: {application/json: {}}}}
`
	toolset, server := buildTools(t, document, tools.BuildOptions{Name: "apps"}), New(Options{})
	ask := func(v protocol.Revision, method, params string) testRequest {
		r := conformant(v, method, params)
		r.server, r.tools = server, toolset
		r.caller = through(toolset, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<p>"))
		})
		return r
	}
	const page = `{"own":1,"ui":{"csp":{"connectDomains":["https://a.test"]},"prefersBorder":true,"domain":"a"},` +
		`"openai/widgetCSP":{"connect_domains":[],"resource_domains":[]},"openai/widgetDescription":"Board"}`
	for method, params := range map[string]string{"resources/list": "", "resources/read": `"uri":"ui://a/board.html"`} {
		var got struct {
			Resources, Contents []struct {
				Meta json.RawMessage `json:"_meta"`
			}
		}
		ask(protocol.V20251125, method, params).result(t, "", &got)
		if all := append(got.Resources, got.Contents...); len(all) != 1 || !sameJSON(t, string(all[0].Meta), page) {
			t.Errorf("%s: %s", method, all)
		}
	}
	var list struct {
		Tools []struct {
			Meta json.RawMessage `json:"_meta"`
		}
	}
	ask(protocol.V20251125, "tools/list", "").result(t, "ListToolsResult", &list)
	const tool = `{"ui":{"resourceUri":"ui://a/board.html","visibility":["app"]},"openai/outputTemplate":"ui://a/board.html","openai/widgetAccessible":true}`
	if len(list.Tools) != 1 || !sameJSON(t, string(list.Tools[0].Meta), tool) {
		t.Errorf("tools/list: %s", list.Tools)
	}
	var found struct {
		Capabilities struct{ Extensions map[string]any }
	}
	ask(protocol.V20260728, "server/discover", "").result(t, "DiscoverResult", &found)
	if found.Capabilities.Extensions[uiExtension] == nil {
		t.Errorf("server/discover does not declare apps: %+v", found)
	}
	if warnings := server.Warnings(toolset); len(warnings) > 0 {
		t.Errorf("warned: %v", warnings)
	}
}
