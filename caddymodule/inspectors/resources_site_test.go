package inspectors_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const notesDocument = `openapi: 3.0.3
info: {title: Notes, version: '1'}
paths:
  /notes:
    get:
      operationId: listNotes
      description: Returns all notes.
      x-mcp: {resource: {uri: "notes://all"}, prompt: {name: recall}}
      responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}
  /drafts:
    get:
      operationId: listDrafts
      description: Returns all drafts.
      x-mcp: {resource: {uri: "notes://drafts", description: "Ask ada.lovelace@example.com."}}
      responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}
`

// memo is the URI of a resource of the MCP server. It has a planted value, and must not change.
const memo = "memo://ada.lovelace@example.com/plan"

// cursor is a position that has a planted value in base64, and must not change.
var cursor = base64.StdEncoding.EncodeToString([]byte("after ada.lovelace@example.com"))

// notesServer is an MCP server whose resources, prompts and completions have the planted values.
func notesServer(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "memos", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"plain", all}}}, nil
		},
	})
	text := `{"to":` + quoted(all) + `,"next_cursor":"` + cursor + `"}`
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: r.Params.URI, MIMEType: "application/json", Text: text},
			{URI: r.Params.URI, MIMEType: "text/plain", Blob: []byte(strings.Repeat("x", 70<<10) + " " + all)},
		}}, nil
	}
	server.AddResource(&mcp.Resource{URI: memo, Name: "plan"}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "memo://of/{person}", Name: "of"}, read)
	server.AddPrompt(&mcp.Prompt{Name: "brief", Arguments: []*mcp.PromptArgument{{Name: "for"}}}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: "Brief for " + all, Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Brief " + all}},
			{Role: "user", Content: &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: memo, Text: text}}},
		}}, nil
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	return h.URL
}

// contentsSite runs a site with an API and an MCP server that both have the planted values. Options are those of both toolsets.
func contentsSite(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("notes.yaml", notesDocument)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"to":%s,"next_cursor":%q}`, quoted(all), cursor)
	})
	s.Start("agents {\n\tstore bolt DIR/store.db\ncalls {\nresults\n}\ntoolset notes {\nopenapi DIR/notes.yaml\n"+options+"\n}\ntoolset memos {\nmcp_server "+notesServer(t)+"\n"+options+"\n}\n}",
		"mcp /mcp notes memos\nmcp_servers\nreverse_proxy "+api)
	sitetest.Eventually(t, "the MCP server is loaded", func() bool {
		return strings.Contains(rpc(s, "2025-11-25", "prompts/list", "", ""), `"brief"`)
	})
	return s
}

// rpc sends a request in a revision of MCP, and returns the body of the response.
func rpc(s *sitetest.Site, revision, method, name, params string) string {
	header := map[string]string{"Mcp-Protocol-Version": revision, "Accept": "application/json, text/event-stream"}
	if revision == "2026-07-28" {
		params = strings.TrimPrefix(params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`, ",")
		header["Mcp-Method"], header["Mcp-Name"] = method, name
	}
	return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, header).Body
}

// contents are the requests for resources and prompts, with what the response must have.
var contents = []struct{ method, name, params, want string }{
	{"resources/read", "notes://all", `"uri":"notes://all"`, quoted(`{"to":"` + masked + `","next_cursor":"` + cursor + `"}`)},
	{"resources/read", memo, `"uri":"` + memo + `"`, `"uri":"` + memo + `"`},
	{"resources/read", memo, `"uri":"` + memo + `"`, quoted(`{"to":"` + masked + `","next_cursor":"` + cursor + `"}`)},
	{"resources/read", "memo://of/ada", `"uri":"memo://of/ada","ref":{"type":"ref/prompt"}`, masked},
	{"prompts/get", "recall", `"name":"recall"`, masked},
	{"prompts/get", "brief", `"name":"brief","arguments":{"for":"Bern"}`, `"Brief ` + masked + `"`},
	{"prompts/get", "brief", `"name":"brief","arguments":{"for":"Bern"}`, `"uri":"` + memo + `"`},
	{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"brief"},"argument":{"name":"for","value":""}`, `["plain","` + masked + `"]`},
	{"completion/complete", "", `"ref":{"type":"ref/resource","uri":"memo://of/{person}"},"argument":{"name":"person","value":""}`, `["plain","` + masked + `"]`},
}

// TestInspect_resources_and_prompts plants values in the resources, prompts and completions of an API and of an MCP server.
func TestInspect_resources_and_prompts(t *testing.T) {
	s := contentsSite(t, "inspect secrets\ninspect pii")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for _, c := range contents {
			got := rpc(s, revision, c.method, c.name, c.params)
			if !json.Valid([]byte(got)) || !strings.Contains(got, c.want) {
				t.Errorf("%s %s %s: got %.600s\nwant %s", revision, c.method, c.name, got, c.want)
			}
			without(t, c.method+" "+c.name, strings.ReplaceAll(got, memo, ""))
			withoutBlobs(t, got)
		}
		if list := rpc(s, revision, "resources/list", "", ""); !strings.Contains(list, "notes://all") {
			t.Errorf("the list is %s", list)
		}
	}
	without(t, "the log", strings.ReplaceAll(s.Log(), memo, ""))
}

// TestInspect_list_of_resources wants an operation to be withheld if the texts of its resource have what inspectors find.
func TestInspect_list_of_resources(t *testing.T) {
	s := contentsSite(t, "inspect pii {\nphases list\n}")
	if list := rpc(s, "2025-11-25", "resources/list", "", ""); !strings.Contains(list, "notes://all") || strings.Contains(list, "notes://drafts") {
		t.Errorf("the list is %s", list)
	}
}

// withoutBlobs reports each planted value in the blobs of a response.
func withoutBlobs(t *testing.T, response string) {
	t.Helper()
	var r struct {
		Result struct{ Contents []struct{ Blob []byte } }
	}
	if err := json.Unmarshal([]byte(response), &r); err != nil {
		t.Fatal(err)
	}
	for _, item := range r.Result.Contents {
		without(t, "a blob", string(item.Blob))
	}
}

// TestInspect_contents_fail_closed wants resources and prompts to be withheld if an inspector rejects them or is not available, and
// only by inspectors with these phases.
func TestInspect_contents_fail_closed(t *testing.T) {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(down.Close)
	for name, inspectors := range map[string]string{
		"reject": "inspect pii reject {\nphases resources prompts\n}",
		"down":   "inspect webhook " + down.URL + " {\nsecret 0123456789abcdef0123456789abcdef\nphases resources prompts\n}",
	} {
		t.Run(name, func(t *testing.T) {
			s := contentsSite(t, inspectors)
			for _, c := range contents {
				got := rpc(s, "2025-11-25", c.method, c.name, c.params)
				if !strings.Contains(got, `"error":{`) {
					t.Errorf("%s %s: %.300s", c.method, c.name, got)
				}
				without(t, c.method, strings.ReplaceAll(got, memo, ""))
			}
			if got := rpc(s, "2025-11-25", "tools/call", "", `"name":"listNotes","arguments":{}`); !strings.Contains(got, planted[0]) {
				t.Errorf("a result was inspected: %s", got)
			}
		})
	}
}

// TestInspect_contents_keep_their_URIs wants contents to be withheld if a webhook returns others.
func TestInspect_contents_keep_their_URIs(t *testing.T) {
	replies := map[string]string{
		"masked":  `{"contents":[{"uri":"","text":"masked"},{"uri":"","text":"too"}]}`,
		"removed": `{"contents":[{"uri":"","text":"masked"}]}`,
		"changed": `{"contents":[{"uri":"memo://other","text":"masked"},{"uri":"","text":"too"}]}`,
		"added":   `{"contents":[{"uri":"","text":"masked"},{"uri":"","text":"too"},{"uri":"","text":"three"}]}`,
	}
	var reply, asked string
	checker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = string(body)
		_, _ = io.WriteString(w, `{"decision":"mask","content":`+reply+`}`)
	}))
	t.Cleanup(checker.Close)
	s := contentsSite(t, "inspect webhook "+checker.URL+" {\nsecret 0123456789abcdef0123456789abcdef\nphases resources\n}")
	for name := range replies {
		reply = replies[name]
		got := rpc(s, "2025-11-25", "resources/read", "", `"uri":"`+memo+`"`)
		if passed := strings.Contains(got, `{"uri":"`+memo+`","text":"masked"}`) && strings.Count(got, memo) == 2; passed != (name == "masked") || passed == strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s", name, got)
		}
		if strings.Contains(asked, memo) || !strings.Contains(asked, `"phase":"resources"`) {
			t.Errorf("the webhook got %.300s", asked)
		}
	}
}
