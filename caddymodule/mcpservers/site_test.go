package mcpservers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// An upstream is an MCP server of the official Go SDK behind a site.
type upstream struct {
	*mcp.Server
	url      string
	calls    atomic.Int64
	requests atomic.Int64 // for something that a policy may forbid
}

type sum struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b"`
}

type total struct {
	Sum int `json:"sum"`
}

// newUpstream starts a server. A stateless one speaks 2026-07-28, another one the revisions before.
func newUpstream(t *testing.T, stateless bool, complete ...func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)) *upstream {
	t.Helper()
	o := &mcp.ServerOptions{Instructions: "Adds numbers."}
	if len(complete) > 0 {
		o.CompletionHandler = complete[0]
	}
	u := &upstream{Server: mcp.NewServer(&mcp.Implementation{Name: "calculator", Title: "Calculator", Version: "3.1"}, o)}
	mcp.AddTool(u.Server, &mcp.Tool{Name: "add-numbers", Title: "Add", Description: "Adds two numbers.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in sum) (*mcp.CallToolResult, total, error) {
			u.calls.Add(1)
			return nil, total{in.A + in.B}, nil
		})
	mcp.AddTool(u.Server, &mcp.Tool{Name: "fail", Description: "Fails."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("the disk is full")
		})
	mcp.AddTool(u.Server, &mcp.Tool{Name: "picture", Description: "Returns several blocks."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: "a picture"}, &mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
				&mcp.ResourceLink{URI: "file:///picture.png", Name: "picture"},
			}}, nil, nil
		})
	mcp.AddTool(u.Server, &mcp.Tool{Name: "steps", Description: "Reports progress."},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			if token := r.Params.GetProgressToken(); token != nil {
				for i := range 3 {
					_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3, Message: fmt.Sprint("step ", i+1)})
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	u.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch method {
			case "tools/call", "resources/read", "prompts/get", "completion/complete":
				u.requests.Add(1)
			}
			return next(ctx, method, r)
		}
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return u.Server }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// connect returns a session of the official Go SDK's client with the endpoint of a site.
func connect(t *testing.T, site *sitetest.Site, path string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	sitetest.Eventually(t, "the tools are loaded", func() bool {
		return site.Post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-06-18"}).Status == http.StatusOK
	})
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: site.URL + path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

var eras = map[string]bool{"2025-11-25": false, "2026-07-28": true}

// TestServer_is_served_as_a_toolset lists and calls the tools of a server of each era.
func TestServer_is_served_as_a_toolset(t *testing.T) {
	for era, stateless := range eras {
		t.Run(era, func(t *testing.T) {
			u := newUpstream(t, stateless)
			site := sitetest.Run(t, "agents {\ntoolset calc {\nmcp_server "+u.url+"\n}\n}", "mcp\notc\nmcp_servers\nrespond 418")
			session := connect(t, site, "/mcp", nil)
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
				if tool.Name == "add_numbers" && (tool.Title != "Add" || tool.Description != "Adds two numbers." || !tool.Annotations.ReadOnlyHint || tool.OutputSchema == nil) {
					t.Errorf("the tool is %+v", tool)
				}
			}
			if got := strings.Join(names, " "); got != "add_numbers fail picture steps next_page" {
				t.Errorf("tools %q", got)
			}
			for _, name := range []string{"add_numbers", "add-numbers"} {
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: sum{1, 2}})
				if err != nil {
					t.Fatal(err)
				}
				if value, _ := json.Marshal(r.StructuredContent); string(value) != `{"sum":3}` || r.IsError || len(r.Content) != 1 {
					t.Errorf("%s returned %s %+v", name, value, r)
				}
			}
			if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "add_numbers", Arguments: map[string]any{"a": "x"}}); err != nil || !r.IsError {
				t.Errorf("wrong arguments: %v, %v", r, err)
			}
			if n := u.calls.Load(); n != 2 {
				t.Errorf("the server got %d calls, want 2", n)
			}
			if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail"}); err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "disk is full") {
				t.Errorf("fail: %v, %v", r, err)
			}
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "picture"})
			if err != nil || len(r.Content) != 3 {
				t.Fatalf("picture: got %+v, %v; want 3 contents", r, err)
			}
			data, uri := string(r.Content[1].(*mcp.ImageContent).Data), r.Content[2].(*mcp.ResourceLink).URI
			if data != "png" || uri != "file:///picture.png" {
				t.Errorf("picture: got %q and %q, want png and file:///picture.png", data, uri)
			}
			if direct := site.Request("POST", "/calc/add-numbers", `{"a":1,"b":2}`); direct.Status != 418 {
				t.Errorf("a client reached the server: %d %s", direct.Status, direct.Body)
			}
			if otc := site.Request("POST", "/otc/tools/call", `{"request":{"tool_id":"Calculator.add_numbers","input":{"a":1,"b":2}}}`); !strings.Contains(otc.Body, `"value":{"sum":3}`) {
				t.Errorf("OTC: %s", otc.Body)
			}
		})
	}
}

// TestServer_tools_can_be_tasks lists that calls of a server's tools can be tasks of the gateway.
func TestServer_tools_can_be_tasks(t *testing.T) {
	u := newUpstream(t, false)
	for options, want := range map[string]bool{"": false, "{\ntask_after 10s\n}": true} {
		site := sitetest.Run(t, "agents {\ntoolset calc {\nmcp_server "+u.url+"\n}\n}", "mcp "+options+"\nmcp_servers\nrespond 418")
		var list sitetest.Response
		sitetest.Eventually(t, "the tools are loaded", func() bool {
			list = site.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"})
			return list.Status == http.StatusOK
		})
		if got := strings.Contains(list.Body, `"execution":{"taskSupport":"optional"}`); got != want {
			t.Errorf("options %q: %d %s", options, list.Status, list.Body)
		}
	}
}

// TestServer_reports_progress passes progress notifications through.
func TestServer_reports_progress(t *testing.T) {
	for era, stateless := range eras {
		t.Run(era, func(t *testing.T) {
			u := newUpstream(t, stateless)
			site := sitetest.Run(t, "agents {\ntoolset calc {\nmcp_server "+u.url+"\n}\n}", "mcp\nmcp_servers\nrespond 418")
			reported := make(chan string, 10)
			session := connect(t, site, "/mcp", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				reported <- r.Params.Message
			}})
			p := &mcp.CallToolParams{Name: "steps"}
			p.SetProgressToken("p")
			r, err := session.CallTool(t.Context(), p)
			if err != nil || r.IsError || r.Content[0].(*mcp.TextContent).Text != "done" {
				t.Fatalf("%+v, %v", r, err)
			}
			for last := ""; last != "step 3"; {
				select {
				case last = <-reported:
				case <-time.After(testkit.Patience):
					t.Fatalf("no more progress after %q", last)
				}
			}
		})
	}
}

// Of prompts of several servers with one name, the first keeps it, as tools do. The others have the names of their toolsets as prefixes. The operator's keeps its name.
func TestServer_prompts_with_equal_names_get_prefixes(t *testing.T) {
	var toolsets string
	for _, name := range []string{"Rail", "bus", "air"} {
		u := newUpstream(t, false)
		for _, prompt := range []string{"plan", "greet", "only-" + name} {
			u.AddPrompt(&mcp.Prompt{Name: prompt}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt + " of " + name}}}}, nil
			})
		}
		toolsets += "toolset " + name + " {\nmcp_server " + u.url + "\n}\n"
	}
	s := sitetest.NewSite(t)
	s.Write("prompts.yaml", "- {name: greet, messages: [{role: user, content: greet of the operator}]}\n")
	s.Start("agents {\n"+toolsets+"}", "mcp /mcp Rail bus air {\nprompts DIR/prompts.yaml\n}\nmcp_servers\nrespond 418")
	session := connect(t, s, "/mcp", nil)
	var list *mcp.ListPromptsResult
	sitetest.Eventually(t, "the prompts of all", func() (all bool) {
		var err error
		list, err = session.ListPrompts(t.Context(), nil)
		return err == nil && len(list.Prompts) == 10
	})
	got := make(map[string]string)
	for _, p := range list.Prompts {
		r, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: p.Name})
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		got[p.Name] = r.Messages[0].Content.(*mcp.TextContent).Text
	}
	want := map[string]string{
		"greet": "greet of the operator", "Rail_greet": "greet of Rail", "bus_greet": "greet of bus", "air_greet": "greet of air",
		"plan": "plan of Rail", "bus_plan": "plan of bus", "air_plan": "plan of air",
		"only-Rail": "only-Rail of Rail", "only-bus": "only-bus of bus", "only-air": "only-air of air",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// addLibrary adds resources, a template, prompts and completion to a server.
func addLibrary(t *testing.T, stateless bool) *upstream {
	t.Helper()
	u := newUpstream(t, stateless, func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		name := r.Params.Ref.Name + r.Params.Ref.URI
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{name + " " + r.Params.Argument.Value + "!"}, Total: 1}}, nil
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: "content of " + r.Params.URI}}}, nil
	}
	u.AddResource(&mcp.Resource{URI: "memo://plan", Name: "plan", Title: "Plan", MIMEType: "text/plain", Size: 12}, read)
	u.AddResource(&mcp.Resource{URI: "memo://secret", Name: "secret"}, read)
	u.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "memo://notes/{year}/{+name}", Name: "notes"}, read)
	u.AddPrompt(&mcp.Prompt{Name: "summarise", Description: "Summarises.", Arguments: []*mcp.PromptArgument{{Name: "topic-name", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Summarise " + r.Params.Arguments["topic-name"]}}}}, nil
		})
	return u
}

// TestServer_resources_prompts_and_completion pass through, under the same policies as tools.
func TestServer_resources_prompts_and_completion(t *testing.T) {
	for era, stateless := range eras {
		t.Run(era, func(t *testing.T) {
			u := addLibrary(t, stateless)
			site := sitetest.Run(t, "agents {\ntoolset calc {\nmcp_server "+u.url+"\nexclude operation resource_secret\n}\n}", "mcp\notc\nmcp_servers\nrespond 418")
			session := connect(t, site, "/mcp", nil)
			resources, err := session.ListResources(t.Context(), nil)
			if err != nil || len(resources.Resources) != 1 {
				t.Fatalf("got the resources %+v, %v; want one", resources, err)
			}
			if r := resources.Resources[0]; r.URI != "memo://plan" || r.Title != "Plan" || r.Size != 12 {
				t.Fatalf("got %q at %s with %d bytes, want Plan at memo://plan with 12", r.Title, r.URI, r.Size)
			}
			templates, err := session.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "memo://notes/{year}/{+name}" {
				t.Fatalf("templates %+v, %v", templates, err)
			}
			for _, uri := range []string{"memo://plan", "memo://notes/2026/a%20b/c"} {
				r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				if err != nil || r.Contents[0].Text != "content of "+uri || r.Contents[0].URI != uri {
					t.Errorf("%s: %+v, %v", uri, r, err)
				}
			}
			if r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "memo://secret"}); err == nil {
				t.Errorf("an excluded resource was read: %+v", r)
			}
			prompts, err := session.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) != 1 {
				t.Fatalf("got the prompts %+v, %v; want one", prompts, err)
			}
			if p := prompts.Prompts[0]; p.Name != "summarise" || p.Arguments[0].Name != "topic-name" {
				t.Fatalf("got the prompt %s of %s, want summarise of topic-name", p.Name, p.Arguments[0].Name)
			}
			p, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summarise", Arguments: map[string]string{"topic-name": "rain"}})
			if err != nil || p.Messages[0].Content.(*mcp.TextContent).Text != "Summarise rain" {
				t.Errorf("prompt %+v, %v", p, err)
			}
			c, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "summarise"}, Argument: mcp.CompleteParamsArgument{Name: "topic-name", Value: "ra"}})
			if err != nil || len(c.Completion.Values) != 1 || c.Completion.Values[0] != "summarise ra!" {
				t.Errorf("completion %+v, %v", c, err)
			}
			c, err = session.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/resource", URI: "memo://notes/{year}/{+name}"}, Argument: mcp.CompleteParamsArgument{Name: "year", Value: "20"}})
			if err != nil || len(c.Completion.Values) != 1 || c.Completion.Values[0] != "memo://notes/{year}/{+name} 20!" {
				t.Errorf("completion %+v, %v", c, err)
			}
			if list := site.Get("/otc/tools").Body; strings.Contains(list, "resource_plan") || !strings.Contains(list, "add_numbers") {
				t.Errorf("OTC lists %s", list)
			}
		})
	}
}

// TestServer_equal_URIs_of_two_servers get the name of the toolset as a prefix.
func TestServer_equal_URIs_of_two_servers(t *testing.T) {
	a, b := addLibrary(t, false), addLibrary(t, true)
	site := sitetest.Run(t, "agents {\ntoolset a {\nmcp_server "+a.url+"\n}\ntoolset b {\nmcp_server "+b.url+"\n}\n}", "mcp /mcp a b\nmcp_servers")
	session := connect(t, site, "/mcp", nil)
	var uris, names []string
	sitetest.Eventually(t, "both lists are there", func() bool {
		resources, err := session.ListResources(t.Context(), nil)
		uris = nil
		for _, r := range resources.Resources {
			uris = append(uris, r.URI)
		}
		return err == nil && len(uris) == 4
	})
	if got := strings.Join(uris, " "); got != "memo://plan memo://secret b+memo://plan b+memo://secret" {
		t.Errorf("resources %s", got)
	}
	if r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "b+memo://plan"}); err != nil || r.Contents[0].Text != "content of memo://plan" {
		t.Errorf("%+v, %v", r, err)
	}
	prompts, err := session.ListPrompts(t.Context(), nil)
	for _, p := range prompts.Prompts {
		names = append(names, p.Name)
	}
	if err != nil || strings.Join(names, " ") != "summarise b_summarise" {
		t.Errorf("prompts %q, %v", names, err)
	}
	for _, name := range names {
		c, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: name}, Argument: mcp.CompleteParamsArgument{Name: "topic-name", Value: "ra"}})
		if err != nil || c.Completion.Values[0] != "summarise ra!" {
			t.Errorf("completion of %s: %+v, %v", name, c, err)
		}
	}
}
