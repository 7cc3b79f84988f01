package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
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

// listedArguments returns the required arguments of each tool of an MCP endpoint, and those
// that are listed with the name.
func listedArguments(s *sitetest.Site, path, name string) (required map[string][]string, listed []string) {
	s.T.Helper()
	required = make(map[string][]string)
	for cursor := ""; ; {
		a := s.Post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"})
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
		if err := json.Unmarshal([]byte(a.Body), &message); err != nil {
			s.T.Fatalf("%v: %.200s", err, a.Body)
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
	s := sitetest.NewSite(t)
	s.Write("keyed.yaml", keyedDocument)
	s.Start("", `mcp /mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		mcp /open DIR/keyed.yaml
		otc /otc DIR/keyed.yaml {
			credential query token s3cret
		}
		reverse_proxy `+sitetest.Upstream(t, sitetest.Echo))
	required, listed := listedArguments(s, "/mcp", "token")
	if want := []string{"byBody"}; !slices.Equal(listed, want) {
		t.Errorf("listed: got %q, want %q", listed, want)
	}
	if q, f := required["byQuery"], required["byForm"]; len(q) != 0 || !slices.Equal(f, []string{"text"}) {
		t.Errorf("required: got %q by query and %q by form, want none and text", q, f)
	}
	if required, listed := listedArguments(s, "/open", "token"); len(listed) != 4 || !slices.Equal(required["byQuery"], []string{"token"}) {
		t.Errorf("without a credential: listed %v, required %v", listed, required)
	}
	if tools := s.Request("GET", "/otc/tools", "").Body; strings.Count(tools, `"token":`) != 2 { // byBody in both forms of the list
		t.Errorf("otc lists %s", tools)
	}
	for tool, test := range map[string]struct{ arguments, want string }{
		"byQuery":  {`{"q":"1"}`, "GET /query?q=1&token=s3cret "},
		"byHeader": {`{}`, "GET /header?token=s3cret s3cret"},
		"byForm":   {`{"text":"a"}`, "POST /form?token=s3cret token=s3cret&text=a"},
		"byBody":   {`{"token":"t","body_token":"b"}`, `POST /items/t?token=s3cret {"token":"b"}`},
	} {
		e := s.Echo(s.CallRequest(tool, test.arguments))
		if got := e.Method + " " + e.URI + " " + e.Header.Get("Token") + e.Body; got != test.want {
			t.Errorf("%s sends %s, want %s", tool, got, test.want)
		}
	}
	r := s.CallRequest("byHeader", `{}`)
	r.Header.Set("Token", "callers")
	if e := s.Echo(r); e.Header.Get("Token") != "s3cret" {
		t.Errorf("the caller's own header wins: %v", e.Header)
	}
	s.Fail("byQuery", `{"token":"made up"}`, "token")
	if a := s.Request("POST", "/otc/call", `{"request":{"tool_id":"Keyed.byForm","input":{"text":"a"}}}`); a.Status != http.StatusOK || !strings.Contains(a.Body, "token=s3cret") {
		t.Errorf("otc: %d %s", a.Status, a.Body)
	}
}

// TestCredentialFills_declared_key checks that a document which declares the
// credential as an API key keeps other arguments of its name.
func TestCredentialFills_declared_key(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("keyed.yaml", keyedDocument+"components: {securitySchemes: {key: {type: apiKey, in: query, name: token}}}\n")
	s.Start("", `mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		reverse_proxy `+sitetest.Upstream(t, sitetest.Echo))
	_, listed := listedArguments(s, "/mcp", "token")
	if slices.Sort(listed); !slices.Equal(listed, []string{"byBody", "byForm", "byHeader"}) {
		t.Errorf("listed %v", listed)
	}
}

// TestCredentialFills_behind_guard checks that a guard neither demands nor records
// what a credential fills.
func TestCredentialFills_behind_guard(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("keyed.yaml", keyedDocument)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  by-query: {user_identity: false}\n  by-header: {user_identity: false}\n"+
		"  by-form: {user_identity: false, input_restriction: {assertion: recent.by-form.inputs.text == \"a\" && !has(recent.by-form.inputs.token)}}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", `mcp DIR/keyed.yaml {
			credential query token s3cret
		}
		oagent DIR/agent.yaml
		reverse_proxy `+sitetest.Upstream(t, sitetest.Echo))
	for tool, arguments := range map[string]string{"byQuery": `{}`, "byHeader": `{}`, "byForm": `{"text":"a"}`} {
		if r := s.Call(tool, arguments); r.IsError {
			t.Errorf("%s: %s", tool, r.Text())
		}
	}
	if a := s.Request("GET", "/query?token=own", ""); a.Status != http.StatusOK {
		t.Errorf("a plain request with a key of its own: %d %s", a.Status, a.Body)
	}
}

// TestCredentialFills_real_document checks the document of Slack, 123 of whose 174 tools
// require a token.
func TestCredentialFills_real_document(t *testing.T) {
	document := string(testkit.ReadDocument(t, "openapi/slack-web-v2.json.gz"))
	for _, credential := range []string{"query token s3cret", "header token s3cret", `header Authorization "Bearer s3cret"`} {
		t.Run(credential, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("slack.json", document)
			s.Start("", "mcp DIR/slack.json {\n\tcredential "+credential+"\n\tsearch off\n}\nmcp /open DIR/slack.json {\n\tsearch off\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
			required, listed := listedArguments(s, "/mcp", "token")
			if len(required) != 175 || len(listed) != 0 {
				t.Errorf("%d tools, of which %d list a token: %v", len(required), len(listed), listed)
			}
			called := 0
			for name, needs := range required {
				if len(needs) > 0 || !strings.HasPrefix(credential, "header Authorization") {
					continue
				}
				called++
				if e := s.Echo(s.CallRequest(name, "{}")); e.Header.Get("Authorization") != "Bearer s3cret" || strings.Contains(e.URI+e.Body, "token=") {
					t.Errorf("%s sends %s %v %s", name, e.URI, e.Header, e.Body)
				}
			}
			if called < 60 && strings.HasPrefix(credential, "header Authorization") {
				t.Errorf("%d tools called", called)
			}
			if strings.Contains(s.Log(), "required arguments have the name of a credential") {
				t.Error("the log has a warning about arguments")
			}
			needed := 0
			required, _ = listedArguments(s, "/open", "token")
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

// TestCredentialFills_satisfied_scheme checks that an argument which only repeats the credential of the operation's
// security scheme is neither listed nor sent, and that others stay.
func TestCredentialFills_satisfied_scheme(t *testing.T) {
	const operation = `
  /%[1]s:
    post:
      operationId: %[1]s
      security: %[2]s
      parameters: [{name: %[3]s, in: %[4]s, required: %[5]t, description: "%[6]s", schema: {type: string}}]
      responses: {"200": {description: ok}}`
	document := "openapi: 3.0.3\ninfo: {title: Keyed, version: '1'}\ncomponents: {securitySchemes: {oauth: {type: http, scheme: bearer}, key: {type: apiKey, in: header, name: X-Key}}}\npaths:"
	for _, o := range []struct {
		id, security, name, in string
		required               bool
		description            string
	}{
		{"inHeader", "[{oauth: []}]", "token", "header", true, "Authentication token. Requires scope: none"},
		{"inQuery", "[{key: []}, {oauth: []}]", "access_token", "query", true, "Your access token"},
		{"otherScheme", "[{key: []}]", "token", "query", true, "Authentication token."},
		{"bothSchemes", "[{oauth: [], key: []}]", "token", "query", true, "Authentication token."},
		{"noScheme", "[]", "token", "query", true, "Authentication token."},
		{"data", "[{oauth: []}]", "token", "query", true, "The access token to revoke."},
		{"optionalData", "[{oauth: []}]", "token", "query", false, "package token"},
		{"page", "[{oauth: []}]", "page_token", "query", true, "Authentication token."},
	} {
		document += fmt.Sprintf(operation, o.id, o.security, o.name, o.in, o.required, o.description)
	}
	s := sitetest.NewSite(t)
	s.Write("keyed.yaml", document)
	s.Start("", "mcp DIR/keyed.yaml {\n\tcredential header Authorization \"Bearer s3cret\"\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	required, _ := listedArguments(s, "/mcp", "token")
	for name, names := range required {
		if filled := name == "inHeader" || name == "inQuery" || name == "optionalData"; filled != (len(names) == 0) {
			t.Errorf("%s requires %v", name, names)
		}
	}
	for name, want := range map[string]string{"inHeader": "/inHeader", "inQuery": "/inQuery"} {
		if e := s.Echo(s.CallRequest(name, `{}`)); e.URI != want || e.Header.Get("Token") != "" || e.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("%s sends %s %v", name, e.URI, e.Header)
		}
	}
	s.Logged("required arguments have the name of a credential", `"arguments":["data.token"]`)
}
