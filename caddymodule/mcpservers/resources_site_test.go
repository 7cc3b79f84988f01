package mcpservers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestServer_resource_that_changes is reported to clients that have subscribed to it.
func TestServer_resource_that_changes(t *testing.T) {
	for era, stateless := range eras {
		t.Run(era, func(t *testing.T) {
			u := newUpstream(t, stateless)
			var version, reads atomic.Int64
			u.AddResource(&mcp.Resource{URI: "memo://plan", Name: "plan"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				reads.Add(1)
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: fmt.Sprint("version ", version.Load())}}}, nil
			})
			site := sitetest.Run(t, "agents {\ntoolset calc {\nmcp_server "+u.url+"\n}\n}", "mcp {\nwatch_interval 50ms\n}\nmcp_servers\nrespond 418")
			updated := make(chan string, 100)
			session := connect(t, site, "/mcp", &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				updated <- r.Params.URI
			}})
			if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "memo://plan"}); err != nil {
				t.Fatal(err)
			}
			before := reads.Load()
			testkit.Eventually(t, "the resource is read", func() bool { return reads.Load() > before+1 })
			version.Add(1)
			select {
			case uri := <-updated:
				if uri != "memo://plan" {
					t.Errorf("the notification is about %s", uri)
				}
			case <-time.After(testkit.Patience):
				t.Error("no notification")
			}
		})
	}
}

// TestServer_with_an_app has a tool with a page, which calls tools by the server's own names.
func TestServer_with_an_app(t *testing.T) {
	const page, kind = "ui://calc/board.html", "text/html;profile=mcp-app"
	u := newUpstream(t, false)
	csp := map[string]any{"ui": map[string]any{"csp": map[string]any{"connectDomains": []any{"https://example.com"}}}}
	u.AddResource(&mcp.Resource{URI: page, Name: "board", MIMEType: kind, Meta: csp}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: page, MIMEType: kind, Text: "<p>board", Meta: csp}}}, nil
	})
	mcp.AddTool(u.Server, &mcp.Tool{Name: "show-board", Description: "Shows.", Meta: mcp.Meta{"ui": map[string]any{"resourceUri": page, "visibility": []any{"app"}}, "ui/resourceUri": page}},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "shown"}}}, nil, nil
		})
	site := sitetest.Run(t, "agents {\ntoolset trips TRIPS\ntoolset calc {\nmcp_server "+u.url+"\n}\n}", "mcp /mcp trips calc\nmcp /calc-mcp calc\nmcp_servers\nrespond 418")
	for _, path := range []string{"/mcp", "/calc-mcp"} {
		session := connect(t, site, path, nil)
		sitetest.Eventually(t, "the page is listed", func() bool {
			resources, err := session.ListResources(t.Context(), nil)
			return err == nil && len(resources.Resources) == 1 && resources.Resources[0].URI == page && resources.Resources[0].MIMEType == kind && resources.Resources[0].Meta["ui"] != nil
		})
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, tool := range tools.Tools {
			if tool.Name == "show_board" {
				ui, _ := tool.Meta["ui"].(map[string]any)
				found = ui["resourceUri"] == page && ui["visibility"] != nil && tool.Meta["ui/resourceUri"] == page
			}
		}
		if !found {
			t.Errorf("%s: the list lacks the tool with its page: %+v", path, tools.Tools)
		}
		r, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: page})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Contents[0]; c.MIMEType != kind || c.Text != "<p>board" || c.Meta["ui"] == nil {
			t.Errorf("%s: got the page %+v, want <p>board of the type %s with ui", path, c, kind)
		}
		called, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "show-board"})
		if err != nil || called.IsError || called.Content[0].(*mcp.TextContent).Text != "shown" {
			t.Errorf("%s: a call of the own name returned %+v, %v", path, called, err)
		}
	}
}
