package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
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
	return largeProbe(g, "MCP "+revision, "/whole", lastItem, revision)
}

// largeProbe is a call of list_items at one of the endpoints. want is a text that the result has.
func largeProbe(g *gateway, name, path, want, revision string) probe {
	return newProbe(name, g.tools, http.MethodPost, path, want,
		mcpRequest("tools/call", `"name":"list_items","arguments":{}`), mcpHeader(revision, "tools/call", ""))
}

// selectExpression is the select of the endpoint /select.
const selectExpression = "{total: (.items | length), items: [.items[] | {sku, name, amount: .price.amount}]}"

// selectDocument is itemsDocument with a select for list_items.
func selectDocument() []byte {
	const operation = `"operationId": "list_items",`
	return []byte(strings.Replace(itemsDocument, operation, fmt.Sprintf(`%s "x-fairway": {"select": %q},`, operation, selectExpression), 1))
}

// compareShortened measures the CPU time of the gateway for a tool call whose large response is made
// smaller, compared with passing the whole response on.
func compareShortened(ctx context.Context, t *table, g *gateway, s settings) error {
	const revision = "2025-11-25"
	t.section(fmt.Sprintf("A tool call with a JSON response of %d KB that is made smaller: CPU time of the gateway, beside passing it on",
		(len(itemList)+500)/1000), cpuColumns...)
	whole := largeCall(g, revision)
	for _, c := range []struct {
		name, path, want string
		target           bound
	}{
		{"select", "/select", lastItem, atMost(6)},
		{"cut to 80 KB", "/mcp", "next_page", atMost(3)},
	} {
		call := largeProbe(g, c.name, c.path, c.want, revision)
		m, err := g.measureBoth(ctx, whole, call, largeConnections, s)
		if err != nil {
			return err
		}
		m.cpuLine(t, onConnections(call.name, largeConnections), c.target)
	}
	return nil
}

// compareInspected measures the CPU time of the gateway for a tool call whose large response is inspected for secrets and
// personal data, compared with passing the response on.
func compareInspected(ctx context.Context, t *table, g *gateway, s settings) error {
	const revision = "2025-11-25"
	t.section(fmt.Sprintf("A tool call with a JSON response of %d KB that is inspected: CPU time of the gateway, beside passing it on",
		(len(itemList)+500)/1000), cpuColumns...)
	whole := largeCall(g, revision)
	call := largeProbe(g, "secrets and pii", "/inspected", lastItem, revision)
	m, err := g.measureBoth(ctx, whole, call, largeConnections, s)
	if err != nil {
		return err
	}
	m.cpuLine(t, onConnections(call.name, largeConnections), atMost(3))
	return nil
}
