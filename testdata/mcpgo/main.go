// Program mcpgo is an MCP server for tests, made with github.com/mark3labs/mcp-go. Its tools need what the examples of
// mcp-go, which the tests run as processes, do not offer over HTTP.
//
//	go -C testdata/mcpgo run . streamable|sse ADDRESS
//
// It is a module of its own, so that Fairway does not depend on mcp-go.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// sum is the result of the tool add.
type sum struct {
	Sum int `json:"sum"`
}

// addends are the arguments of the tool add.
type addends struct {
	A int `json:"a"`
	B int `json:"b"`
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: mcpgo streamable|sse ADDRESS")
	}
	s := server.NewMCPServer("mcpgo", "1.0.0", server.WithToolCapabilities(true), server.WithElicitation(), server.WithRecovery())
	s.AddTool(mcp.NewTool("add", mcp.WithInputSchema[addends](), mcp.WithOutputSchema[sum]()),
		mcp.NewStructuredToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in addends) (sum, error) {
			return sum{in.A + in.B}, nil
		}))
	s.AddTool(mcp.NewTool("count"), count)
	s.AddTool(mcp.NewTool("ask"), ask)
	s.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("the tool panics")
	})
	handler := http.Handler(server.NewStreamableHTTPServer(s))
	if os.Args[1] == "sse" {
		handler = server.NewSSEServer(s, server.WithBaseURL("http://"+os.Args[2]))
	}
	log.Fatal(http.ListenAndServe(os.Args[2], handler))
}

// count reports progress three times.
func count(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := range 3 {
		if r.Params.Meta == nil {
			break
		}
		err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
			map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "total": 3})
		if err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText("counted to 3"), nil
}

// ask returns the name that the user answers. It asks by a result that requires input, which mcp-go sends to clients of
// older revisions as a request.
func ask(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer := server.ElicitationResponse(r.Params.InputResponses, "name"); answer != nil {
		return mcp.NewToolResultText(fmt.Sprintf("%s: %v", answer.Action, answer.Content)), nil
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}
	return server.NewInputRequestBuilder("state of ask").
		Elicit("name", mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "Your name?", RequestedSchema: schema}).
		ToolResult(), nil
}
