// Program counted is an MCP server for tests. It reports each execution of its tool count to a URL, with its own process id,
// and waits for the response before it returns a result. Its tool grow adds the tool grown.
//
//	go run ./testdata/counted [REPORT_URL [ADDRESS [stateless]]]
//
// Without an address, it speaks MCP on its standard input and output.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// countInput is the input of the tool count.
type countInput struct {
	ID string `json:"id"`
}

func main() {
	arguments := append(os.Args[1:], "", "")
	server := newServer(arguments[0])
	if arguments[1] == "" {
		log.Fatal(server.Run(context.Background(), &mcp.StdioTransport{}))
	}
	options := &mcp.StreamableHTTPOptions{Stateless: arguments[2] == "stateless"}
	log.Fatal(http.ListenAndServe(arguments[1], mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)))
}

func newServer(report string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "counted", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, func(ctx context.Context, _ *mcp.CallToolRequest, in countInput) (*mcp.CallToolResult, any, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/?id=%s&pid=%d", report, in.ID, os.Getpid()), nil)
		if err != nil {
			return nil, nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, nil, err
		}
		response.Body.Close()
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted " + in.ID}}}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		server.AddTool(&mcp.Tool{Name: "grown", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return new(mcp.CallToolResult), nil
		})
		return new(mcp.CallToolResult), nil, nil
	})
	return server
}
