//go:build unix

// Command rivals is an MCP server with one tool, written by hand against an SDK
// as a client would without a gateway: read_item asks the same benchmark API for
// the same item. It is a module of its own, so that Fairway does not depend on the
// SDKs that it is compared with.
//
//	rivals go-sdk http://127.0.0.1:9000
//	rivals mcp-go http://127.0.0.1:9000
//
// It prints its address, serves MCP at /mcp and the CPU seconds that it has used
// at /cpu, and ends when its standard input does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const description = "Reads one item."

var schema = json.RawMessage(`{"type":"object","properties":{"item_id":{"type":"string"},"currency":{"type":"string"}},` +
	`"required":["item_id"],"additionalProperties":false}`)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: rivals go-sdk|mcp-go UPSTREAM")
	}
	api := &api{address: args[1], client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
	mux := http.NewServeMux()
	switch args[0] {
	case "go-sdk":
		mux.Handle("/mcp", api.withGoSDK())
	case "mcp-go":
		mux.Handle("/mcp", api.withMCPGo())
	default:
		return fmt.Errorf("there is no SDK %q here", args[0])
	}
	mux.HandleFunc("/cpu", func(w http.ResponseWriter, _ *http.Request) {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		fmt.Fprintf(w, "%f", used.Seconds())
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Println(listener.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		httpServer.Close()
	}()
	if err := httpServer.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// api is the benchmark API behind the tool.
type api struct {
	address string
	client  *http.Client
}

type arguments struct {
	ItemID   string `json:"item_id"`
	Currency string `json:"currency"`
}

// item reads an item as text and as a value.
func (a *api) item(ctx context.Context, args arguments) (text string, value map[string]any, err error) {
	address := a.address + "/items/" + url.PathEscape(args.ItemID)
	if args.Currency != "" {
		address += "?currency=" + url.QueryEscape(args.Currency)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", nil, err
	}
	if response.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("the API answered %s", response.Status)
	}
	return string(body), value, json.Unmarshal(body, &value)
}

// withGoSDK serves with the official SDK: stateless, and JSON instead of streams,
// which is its leanest way.
func (a *api) withGoSDK() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "rival", Version: "1.0.0"}, nil)
	s.AddTool(&sdk.Tool{Name: "read_item", Description: description, InputSchema: schema},
		func(ctx context.Context, call *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args arguments
			if err := json.Unmarshal(call.Params.Arguments, &args); err != nil {
				return nil, err
			}
			text, value, err := a.item(ctx, args)
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: value}, nil
		})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// withMCPGo serves with mcp-go, without sessions.
func (a *api) withMCPGo() http.Handler {
	s := server.NewMCPServer("rival", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewToolWithRawSchema("read_item", description, schema),
		func(ctx context.Context, call mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args arguments
			if err := call.BindArguments(&args); err != nil {
				return nil, err
			}
			text, value, err := a.item(ctx, args)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultStructured(value, text), nil
		})
	return server.NewStreamableHTTPServer(s, server.WithStateLess(true))
}
