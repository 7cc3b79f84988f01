package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
)

// listedItems is the number of items in a large response.
const listedItems = 1000

// lastItem is the SKU of the last item in a large response.
const lastItem = "sku-0999"

// largeConnections is the number of connections for large responses.
const largeConnections = 8

// itemList is a large JSON response of the benchmark API: 1,000 items, 141 KB.
var itemList = func() []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := range listedItems {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%[1]d","sku":"sku-%04[1]d","name":"Chair %[1]d","price":{"amount":%[2]d,"currency":"CHF"},`+
			`"stock":%[3]d,"tags":["garden","wood"],"note":"folds"}`, i, 4950+i, i%50)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}()

// compareLarge measures the CPU time of the gateway for a tool call with a large JSON
// response, compared with plain reverse_proxy for the same response. MCP 2025-03-26 has the
// response once, as text. MCP 2025-11-25 has it twice, as text and as structured content.
func compareLarge(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section(fmt.Sprintf("A tool call with a JSON response of %d items, %d KB: CPU time of the gateway, beside plain reverse_proxy",
		listedItems, (len(itemList)+500)/1000), cpuColumns...)
	baseline := newProbe("GET", g.plain, http.MethodGet, "/items", lastItem, "", nil)
	for _, c := range []struct {
		revision string
		target   bound
	}{
		{"2025-03-26", atMost(2)},
		{"2025-11-25", atMost(2.5)},
	} {
		call := largeCall(g, c.revision)
		m, err := g.measureBoth(ctx, baseline, call, largeConnections, s)
		if err != nil {
			return err
		}
		m.cpuLine(t, onConnections(call.name, largeConnections), c.target)
	}
	return nil
}

// largeCall is a tool call of that MCP revision with a large response.
func largeCall(g *gateway, revision string) probe {
	return newProbe("MCP "+revision, g.tools, http.MethodPost, "/mcp", lastItem,
		mcpRequest("tools/call", `"name":"list_items","arguments":{}`), mcpHeader(revision, "tools/call", ""))
}
