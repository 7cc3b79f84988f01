package main

import (
	"context"
	"fmt"
	"net/http"
)

// searchConnections is the number of connections for calls through a built-in tool.
const searchConnections = 8

// compareSearch measures the CPU time of the gateway for a tool call through the built-in tool
// call_read_tool or call_write_tool, compared with the call of the tool by its own name.
func compareSearch(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("A tool call through call_read_tool or call_write_tool: CPU time of the gateway, beside the direct call", cpuColumns...)
	const revision, want = "2025-11-25", "sku-42"
	for _, c := range []struct{ through, tool, arguments string }{
		{"call_read_tool", "read_item", `{"item_id":"42","currency":"CHF"}`},
		{"call_write_tool", "create_item", newItem},
	} {
		call := func(params string) probe {
			return newProbe(c.through, g.tools, http.MethodPost, "/search", want, mcpRequest("tools/call", params), mcpHeader(revision, "tools/call", ""))
		}
		direct := call(fmt.Sprintf(`"name":%q,"arguments":%s`, c.tool, c.arguments))
		through := call(fmt.Sprintf(`"name":%q,"arguments":{"name":%q,"arguments":%s}`, c.through, c.tool, c.arguments))
		m, err := g.measureBoth(ctx, direct, through, searchConnections, s)
		if err != nil {
			return err
		}
		m.cpuLine(t, onConnections(c.through, searchConnections), atMost(1.1))
	}
	return nil
}
