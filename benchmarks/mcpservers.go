package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServerConnections is the number of calls at the same time.
const mcpServerConnections = 8

// mcpServerTarget is the CPU time of the gateway for a call of a tool of an MCP server, as a share of the CPU time that
// a process with the client of the official Go SDK needs for the same call of the same server.
var mcpServerTarget = atMost(1.5)

// serveMCP runs an MCP server of the official Go SDK, as serveUpstream runs the API.
func serveMCP(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "items", Version: "1.0.0"}, nil)
	server.AddTool(&mcp.Tool{Name: "read_item", InputSchema: map[string]any{"type": "object", "properties": map[string]any{
		"item_id": map[string]any{"type": "string"}, "currency": map[string]any{"type": "string"},
	}}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(item)}}}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	return serveUntilClosed(ctx, listener, handler)
}

// compareMCPServers compares a call through the gateway to an MCP server with the same call by the client of the
// official Go SDK. The gateway is the server of one side and the client of the other; the CPU time of both is counted.
// That of the MCP server and of the load generator is not.
func compareMCPServers(ctx context.Context, t *table, g *gateway, s settings) error {
	if _, err := ownCPU(); err != nil {
		t.note("\nnot compared: MCP servers, because the CPU time of a process is not known on this system")
		return nil
	}
	server, stop, err := startChild(ctx, "mcp-upstream")
	if err != nil {
		return err
	}
	defer stop()
	gateway, err := g.startMCPServers(ctx, server)
	if err != nil {
		return err
	}
	defer gateway.stop()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "benchmarks", Version: "1.0.0"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + server}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	t.section("A tool call through the gateway to an MCP server, beside the same call by the client of the Go SDK alone",
		"call", "CPU us", "ratio", "target", "calls/s")
	for _, call := range toolCalls(gateway.tools, "GET", "read_item", `{"item_id":"42","currency":"CHF"}`, "sku-42")[:2] {
		if err := gateway.compareWithClient(ctx, t, session, call, s); err != nil {
			return err
		}
	}
	return nil
}

// startMCPServers starts a gateway with a toolset of the MCP server, and waits until its tools are loaded.
func (g *gateway) startMCPServers(ctx context.Context, server string) (*gateway, error) {
	started := &gateway{dir: g.dir}
	if err := freeAddresses(&started.admin, &started.plain, &started.tools); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level ERROR
	}
	agents {
		toolset items {
			mcp_server http://%s
		}
	}
}
http://%s {
	reverse_proxy %s
}
http://%s {
	mcp items
	mcp_servers
}
`, started.admin, server, started.plain, g.upstream, started.tools)
	if err := started.prepare(ctx, g.cmd.Path, "mcpservers", config); err != nil {
		return nil, err
	}
	if err := started.start(ctx, started.plain); err != nil {
		return nil, err
	}
	call := toolCalls(started.tools, "GET", "read_item", `{"item_id":"42"}`, "sku-42")[0]
	for deadline := time.Now().Add(startTimeout); ; {
		_, err := call.once()
		if err == nil {
			return started, nil
		}
		if time.Now().After(deadline) {
			started.stop()
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// compareWithClient alternates between the client and the gateway, and prints a line of the table.
func (g *gateway) compareWithClient(ctx context.Context, t *table, session *mcp.ClientSession, call probe, s settings) error {
	through, err := g.side(ctx, call, mcpServerConnections)
	if err != nil {
		return err
	}
	defer through.load.close()
	var ratios, rates, cpu []float64
	for range s.rounds {
		direct, err := runClient(ctx, session, s.segment)
		if err != nil {
			return err
		}
		after, err := through.run(ctx, s.segment)
		if err != nil {
			return err
		}
		ratios, rates, cpu = append(ratios, after.cpu/direct.cpu), append(rates, direct.rate), append(cpu, direct.cpu)
	}
	t.line(onConnections(call.name, mcpServerConnections), pairCell("%.0f", median(cpu)*1e6, through.perCall(through.used.cpu)*1e6),
		ratioCell(ratios), mcpServerTarget.verdict(median(ratios)), pairCell("%.0f", median(rates), median(through.rates)))
	return nil
}

// runClient makes calls with the client of the Go SDK in this process for about d.
func runClient(ctx context.Context, session *mcp.ClientSession, d time.Duration) (segment, error) {
	before, err := ownCPU()
	if err != nil {
		return segment{}, err
	}
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	began := time.Now()
	for range mcpServerConnections {
		workers.Go(func() {
			for time.Since(began) < d && failed.Load() == nil {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "read_item", Arguments: map[string]any{"item_id": "42", "currency": "CHF"}})
				if err != nil {
					failed.Store(&err)
				}
				calls.Add(1)
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return segment{}, *err
	}
	after, err := ownCPU()
	n := float64(calls.Load())
	return segment{rate: n / took.Seconds(), cpu: (after - before) / n}, err
}
