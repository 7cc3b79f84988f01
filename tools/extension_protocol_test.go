package tools

import (
	"maps"
	"strings"
	"testing"
)

func TestProtocolExtensions(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: T, version: "1"}
x-mcp: {instructions: hi}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
    login:
      type: oauth2
      flows: {authorizationCode: {authorizationUrl: "https://a", tokenUrl: "https://t", scopes: {read: r, write: w}}}
paths:
  /trips/{region}:
    get:
      operationId: get
      x-mcp: {tool: false}
      x-otc-non-inferrable: [tenant]
      parameters:
        - {name: region, in: path, required: true, schema: {type: string}, x-mcp-header: Region}
        - {name: admin, in: query, schema: {type: boolean}, x-otc-non-inferrable: true}
        - {name: tenant, in: query, schema: {type: string}}
        - {name: price, in: query, schema: {type: number, x-mcp-header: Price}}
        - {name: again, in: query, schema: {type: string, x-mcp-header: REGION}}
        - {name: bad, in: query, schema: {type: string, x-mcp-header: "a b"}}
        - {name: mine, in: query, schema: {type: string}}
      responses: {"200": {description: ok}}
`
	tools := buildTools(t, document, BuildOptions{NonInferrable: []string{"get.mine"}})
	if string(tools.MCP) != `{"instructions":"hi"}` {
		t.Errorf("the document says %s", tools.MCP)
	}
	tool, _ := tools.Tool("get")
	if string(tool.MCP) != `{"tool":false}` {
		t.Errorf("the operation says %s", tool.MCP)
	}
	hidden, headers := map[string]bool{}, map[string]string{}
	for _, a := range tool.Definition.Arguments {
		if a.NonInferrable {
			hidden[a.Name] = true
		}
		if a.MCPHeader != "" {
			headers[a.Name] = a.MCPHeader
		}
	}
	if want := map[string]bool{"admin": true, "tenant": true, "mine": true}; !maps.Equal(hidden, want) {
		t.Errorf("not inferrable: got %v, want %v", hidden, want)
	}
	if len(headers) != 1 || headers["region"] != "Region" {
		t.Errorf("headers: %v", headers)
	}
	if !strings.Contains(string(tool.Definition.InputSchema), `"x-mcp-header":"Region"`) || strings.Contains(string(tool.Definition.InputSchema), "Price") {
		t.Errorf("the schema is %s", tool.Definition.InputSchema)
	}
	if len(tools.Report.Warnings) != 3 {
		t.Errorf("warnings %v", tools.Report.Warnings)
	}
	login := tools.SecuritySchemes["login"]
	if login == nil || len(login.Flows) != 1 {
		t.Fatalf("got %+v, want one flow", login)
	}
	if f := login.Flows[0]; f.TokenURL != "https://t" || strings.Join(f.Scopes, " ") != "read write" {
		t.Errorf("got the scopes %q at %s, want read and write at https://t", f.Scopes, f.TokenURL)
	}
	if key := tools.SecuritySchemes["key"]; key == nil || key.ParameterName != "X-Key" || key.In != "header" {
		t.Errorf("got %+v", key)
	}
}
