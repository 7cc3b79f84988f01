package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/shared"
)

// keyedDocument declares a key in each place that documents have one in.
const keyedDocument = `openapi: 3.0.3
info: {title: Keyed, version: "1"}
paths:
  /query:
    get:
      operationId: byQuery
      parameters: [{name: token, in: query, required: true, schema: {type: string}}, {name: q, in: query, schema: {type: string}}]
      responses: {"200": {description: ok}}
  /header:
    get:
      operationId: byHeader
      parameters: [{name: token, in: header, required: true, schema: {type: string}}]
      responses: {"200": {description: ok}}
  /form:
    post:
      operationId: byForm
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, required: [token, text], properties: {token: {type: string}, text: {type: string}}}
      responses: {"200": {description: ok}}
  /items/{token}:
    post:
      operationId: byBody
      parameters: [{name: token, in: path, required: true, schema: {type: string}}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [token], properties: {token: {type: string}}}
      responses: {"200": {description: ok}}
`

// listed returns the required arguments of each tool of an MCP endpoint, and those
// that are listed with the name.
func (s *site) listed(path, name string) (required map[string][]string, listed []string) {
	s.t.Helper()
	required = make(map[string][]string)
	for cursor := ""; ; {
		a := s.post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"})
		var message struct {
			Result struct {
				NextCursor string
				Tools      []struct {
					Name        string
					InputSchema struct {
						Properties map[string]json.RawMessage
						Required   []string
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(a.body), &message); err != nil {
			s.t.Fatalf("%v: %.200s", err, a.body)
		}
		for _, tool := range message.Result.Tools {
			required[tool.Name] = tool.InputSchema.Required
			for property := range tool.InputSchema.Properties {
				if strings.EqualFold(property, name) {
					listed = append(listed, tool.Name)
				}
			}
		}
		if message.Result.NextCursor == "" {
			return required, listed
		}
		cursor = fmt.Sprintf(`"cursor":%q`, message.Result.NextCursor)
	}
}

// TestCredentialFills_arguments checks that an argument which a credential fills is
// neither listed nor required, on each protocol and of this endpoint alone, and
// that the credential goes where the operation declares it.
func TestCredentialFills_arguments(t *testing.T) {
	s := newSite(t)
	s.write("keyed.yaml", keyedDocument)
	s.start("", `mcp /mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		mcp /open DIR/keyed.yaml
		otc /otc DIR/keyed.yaml {
			credential query token s3cret
		}
		reverse_proxy `+upstream(t, echo))
	required, listed := s.listed("/mcp", "token")
	if len(listed) != 1 || listed[0] != "byBody" || len(required["byQuery"]) != 0 || !slices.Equal(required["byForm"], []string{"text"}) {
		t.Errorf("listed %v, required %v", listed, required)
	}
	if required, listed := s.listed("/open", "token"); len(listed) != 4 || !slices.Equal(required["byQuery"], []string{"token"}) {
		t.Errorf("without a credential: listed %v, required %v", listed, required)
	}
	if tools := s.request("GET", "/otc/tools", "").body; strings.Count(tools, `"token":`) != 2 { // byBody in both forms of the list
		t.Errorf("otc lists %s", tools)
	}
	for tool, test := range map[string]struct{ arguments, want string }{
		"byQuery":  {`{"q":"1"}`, "GET /query?q=1&token=s3cret "},
		"byHeader": {`{}`, "GET /header?token=s3cret s3cret"},
		"byForm":   {`{"text":"a"}`, "POST /form?token=s3cret token=s3cret&text=a"},
		"byBody":   {`{"token":"t","body_token":"b"}`, `POST /items/t?token=s3cret {"token":"b"}`},
	} {
		e := s.echo(s.callRequest(tool, test.arguments))
		if got := e.Method + " " + e.URI + " " + e.Header.Get("Token") + e.Body; got != test.want {
			t.Errorf("%s sends %s, want %s", tool, got, test.want)
		}
	}
	r := s.callRequest("byHeader", `{}`)
	r.Header.Set("Token", "callers")
	if e := s.echo(r); e.Header.Get("Token") != "s3cret" {
		t.Errorf("the caller's own header wins: %v", e.Header)
	}
	s.fail("byQuery", `{"token":"made up"}`, "token")
	if a := s.request("POST", "/otc/call", `{"request":{"tool_id":"Keyed.byForm","input":{"text":"a"}}}`); a.status != http.StatusOK || !strings.Contains(a.body, "token=s3cret") {
		t.Errorf("otc: %d %s", a.status, a.body)
	}
}

// TestCredentialFills_declared_key checks that a document which declares the
// credential as an API key keeps other arguments of its name.
func TestCredentialFills_declared_key(t *testing.T) {
	s := newSite(t)
	s.write("keyed.yaml", keyedDocument+"components: {securitySchemes: {key: {type: apiKey, in: query, name: token}}}\n")
	s.start("", `mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		reverse_proxy `+upstream(t, echo))
	_, listed := s.listed("/mcp", "token")
	if slices.Sort(listed); !slices.Equal(listed, []string{"byBody", "byForm", "byHeader"}) {
		t.Errorf("listed %v", listed)
	}
}

// TestCredentialFills_behind_guard checks that a guard neither demands nor records
// what a credential fills.
func TestCredentialFills_behind_guard(t *testing.T) {
	s := newSite(t)
	s.write("keyed.yaml", keyedDocument)
	s.write("agent.yaml", agentDocument("desk", "  by-query: {user_identity: false}\n  by-header: {user_identity: false}\n"+
		"  by-form: {user_identity: false, input_restriction: {assertion: recent.by-form.inputs.text == \"a\" && !has(recent.by-form.inputs.token)}}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", `mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		oagent DIR/agent.yaml
		reverse_proxy `+upstream(t, echo))
	for tool, arguments := range map[string]string{"byQuery": `{}`, "byHeader": `{}`, "byForm": `{"text":"a"}`} {
		if r := s.call(tool, arguments); r.IsError {
			t.Errorf("%s: %s", tool, r.text())
		}
	}
	if a := s.request("GET", "/query?token=own", ""); a.status != http.StatusOK {
		t.Errorf("a plain request with a key of its own: %d %s", a.status, a.body)
	}
}

// TestCredentialFills_real_document checks the document of Slack, 123 of whose 174 tools
// require a token.
func TestCredentialFills_real_document(t *testing.T) {
	document := string(shared.Read(t, "openapi/slack-web-v2.json.gz"))
	for _, in := range []string{"query", "header"} {
		t.Run(in, func(t *testing.T) {
			s := newSite(t)
			s.write("slack.json", document)
			s.start("", "mcp DIR/slack.json {\n\tcredential "+in+" token s3cret\n\tsearch off\n}\nmcp /open DIR/slack.json {\n\tsearch off\n}\nreverse_proxy "+upstream(t, echo))
			required, listed := s.listed("/mcp", "token")
			if len(required) != 175 || len(listed) != 0 {
				t.Errorf("%d tools, of which %d list a token: %v", len(required), len(listed), listed)
			}
			needed := 0
			required, _ = s.listed("/open", "token")
			for _, names := range required {
				if slices.Contains(names, "token") {
					needed++
				}
			}
			if needed != 123 {
				t.Errorf("without a credential %d tools require a token", needed)
			}
		})
	}
}
