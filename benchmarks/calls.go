package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// connectionCounts are the numbers of connections to measure with. For each, target is
// the share of the baseline's throughput that Fairway must reach.
var connectionCounts = []struct {
	connections int
	target      bound
}{
	{32, atLeast(0.85)},
	{1, atLeast(0.85)},
}

// listTarget is the share of the baseline's throughput that tools/list must reach.
var listTarget = atLeast(0.8)

// compareCalls compares tool calls with the same REST calls through plain Caddy, and
// tools/list with a Caddy respond handler that sends the same bytes.
func compareCalls(ctx context.Context, t *table, dir string, s settings) error {
	binary, err := buildCaddy(ctx, dir, s.caddy)
	if err != nil {
		return err
	}
	for name, document := range map[string][]byte{"items.json": []byte(itemsDocument), "select.json": selectDocument(), "many.json": manyDocument(), "agent.yaml": []byte(agentDocument)} {
		if err := os.WriteFile(filepath.Join(dir, name), document, 0o600); err != nil {
			return err
		}
	}
	upstream, stop, err := startChild(ctx, "upstream")
	if err != nil {
		return err
	}
	defer stop()
	g, err := newGateway(ctx, binary, dir, upstream, s.caddy == "")
	if err != nil {
		return err
	}
	if err := g.start(ctx, g.tools); err != nil {
		return err
	}
	err = g.measure(ctx, t, s)
	g.stop()
	if err != nil && g.log.Len() > 0 {
		return fmt.Errorf("%w; caddy wrote:\n%s", err, g.log.String())
	}
	return err
}

// measure makes the comparisons with a running gateway, or takes its profiles.
func (g *gateway) measure(ctx context.Context, t *table, s settings) error {
	if s.profile != "" {
		return profileCalls(ctx, g, s.profile)
	}
	for _, c := range comparisons {
		if c.compare == nil || !s.wants(c.name) {
			continue
		}
		if err := c.compare(ctx, t, g, s); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// maxOwnAllocations is the target for the allocations that a tool call adds to its REST call.
const maxOwnAllocations = 45

// compareToolCalls compares tool calls of each protocol with the same REST calls. It then
// prints what each tool call adds to its REST call, in the process of the gateway.
func compareToolCalls(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("A tool call, beside plain reverse_proxy doing the same REST call", callColumns...)
	type row struct {
		name string
		*comparison
	}
	var rows []row
	for _, load := range connectionCounts {
		for _, kind := range callKinds(g) {
			for _, p := range kind.calls {
				name := onConnections(p.name, load.connections)
				m, err := g.measureBoth(ctx, kind.baseline, p, load.connections, s)
				if err != nil {
					return err
				}
				m.line(t, name, load.target)
				rows = append(rows, row{name, m})
			}
		}
	}
	t.section("What a tool call adds to its REST call in the gateway's process", "call", "CPU us", "allocations", "target", "KB")
	for _, r := range rows {
		cpu, allocs, size := r.own()
		t.line(r.name, fmt.Sprintf("%.0f", cpu*1e6), fmt.Sprintf("%.0f", allocs), atMost(maxOwnAllocations).verdict(math.Round(allocs)),
			fmt.Sprintf("%.1f", size/1024))
	}
	return nil
}

// bareTarget is the share of the bare handler's throughput that a tool call must reach.
var bareTarget = atLeast(0.92)

// compareBare compares a tool call with the same POST to a handler that makes the same inner request and knows
// no MCP (benchmarks/gateway).
func compareBare(ctx context.Context, t *table, g *gateway, s settings) error {
	if g.bare == "" {
		t.note("\nnot compared with a bare handler: the binary has none; leave -caddy out")
		return nil
	}
	t.section("A tool call, beside a bare handler that reads the same POST, makes the same inner request and writes the API's response", callColumns...)
	// Both are in one site, so that both requests pass the same routes.
	call := toolCalls(g.bare, "GET", "read_item", `{"item_id":"42","currency":"CHF"}`, "sku-42")[0]
	bare := call
	bare.request = bytes.Replace(call.request, []byte("POST /mcp "), []byte("POST /bare "), 1)
	for _, load := range connectionCounts {
		name := onConnections(call.name, load.connections)
		if err := g.compare(ctx, t, name, bare, call, load.connections, bareTarget, s); err != nil {
			return err
		}
	}
	return nil
}

// compareRecorded measures the cost of storing OTC calls by call_id in the embedded store.
// It measures a call that reads, which may run again after a crash, and a call that
// creates, which is durable before the API receives it.
func compareRecorded(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("An OTC call with a call_id of its own, recorded in the embedded store, beside plain reverse_proxy", callColumns...)
	for i, tool := range []string{"read_item", "create_item"} {
		arguments := []string{`{"item_id":"42","currency":"CHF"}`, newItem}[i]
		call := recordedCall(g, tool, arguments)
		name := onConnections(call.name, connectionCounts[0].connections)
		if err := g.compare(ctx, t, name, callKinds(g)[i].baseline, call, connectionCounts[0].connections, atLeast(0.7), s); err != nil {
			return err
		}
	}
	return nil
}

// recordedCall is an OTC call with a new call_id in each request.
func recordedCall(g *gateway, tool, arguments string) probe {
	return newProbe("OTC "+tool, g.tools, http.MethodPost, "/otc/call", "sku-42",
		fmt.Sprintf(`{"request":{"call_id":"bench-%d-%s","tool_id":"Items.%s@1.0.0","input":%s}}`, os.Getpid(), serialDigits, tool, arguments), nil)
}

// callKind is a REST call and the tool calls that produce the same REST call.
type callKind struct {
	baseline probe
	calls    []probe
}

const newItem = `{"name":"Folding chair","price":4950,"stock":17,"tags":["garden","wood"],"description":"A chair that folds flat."}`

// callKinds returns a call that reads and a call that creates.
func callKinds(g *gateway) []callKind {
	const want = "sku-42"
	return []callKind{
		{
			newProbe("GET", g.plain, http.MethodGet, "/items/42?currency=CHF", want, "", nil),
			toolCalls(g.tools, "GET", "read_item", `{"item_id":"42","currency":"CHF"}`, want),
		},
		{
			newProbe("POST", g.plain, http.MethodPost, "/items", want, newItem, nil),
			toolCalls(g.tools, "POST", "create_item", newItem, want),
		},
	}
}

// toolCalls returns the call of one tool in each protocol.
func toolCalls(address, method, tool, arguments, want string) []probe {
	return []probe{
		newProbe("MCP 2025-11-25 "+method, address, http.MethodPost, "/mcp", want,
			mcpRequest("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)),
			mcpHeader("2025-11-25", "tools/call", "")),
		newProbe("MCP 2026-07-28 "+method, address, http.MethodPost, "/mcp", want,
			mcpRequest("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s,%s`, tool, arguments, statelessMeta)),
			mcpHeader("2026-07-28", "tools/call", tool)),
		newProbe("OTC "+method, address, http.MethodPost, "/otc/call", want,
			fmt.Sprintf(`{"request":{"tool_id":"Items.%s@1.0.0","input":%s}}`, tool, arguments), nil),
	}
}

// statelessMeta is the client information in each request of MCP 2026-07-28.
const statelessMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func mcpRequest(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
}

// mcpHeader returns the MCP headers of a request. Revision 2026-07-28 repeats the method
// and the name in headers.
func mcpHeader(revision, method, name string) map[string]string {
	header := map[string]string{"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
	if revision >= "2026-07-28" {
		header["Mcp-Method"] = method
		if name != "" {
			header["Mcp-Name"] = name
		}
	}
	return header
}

// compareLists compares tools/list with a respond handler that sends the same bytes.
func compareLists(ctx context.Context, t *table, g *gateway, s settings) error {
	list := newProbe("tools/list", g.many, http.MethodPost, "/mcp", "get_resource_999",
		mcpRequest("tools/list", ""), mcpHeader("2025-11-25", "tools/list", ""))
	answer, err := list.once()
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	var envelope struct {
		Result struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	if n := len(envelope.Result.Tools); n != manyOperations {
		return fmt.Errorf("tools/list returned %d tools, want %d in one page", n, manyOperations)
	}
	if err := g.can(ctx, answer); err != nil {
		return err
	}
	respond := newProbe("respond", g.respond, http.MethodGet, "/", "get_resource_999", "", nil)
	if canned, err := respond.once(); err != nil || !bytes.Equal(canned, answer) {
		return fmt.Errorf("respond does not send the bytes of tools/list (%d, want %d): %w", len(canned), len(answer), err)
	}

	t.section(fmt.Sprintf("tools/list of %d tools, beside respond sending the same %d KB", manyOperations, len(answer)>>10),
		"list", "lists/s", "ratio", "target", "CPU us", "allocations", "KB")
	for _, load := range connectionCounts {
		name := onConnections("MCP 2025-11-25", load.connections)
		if err := g.compare(ctx, t, name, respond, list, load.connections, listTarget, s); err != nil {
			return err
		}
	}
	return nil
}

// once sends the request once and returns the body of the response.
func (p probe) once() ([]byte, error) {
	c, err := dial(p.address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = c.roundTrip(p)
	return c.body, err
}

// callColumns are the columns of line.
var callColumns = []string{"call", "calls/s", "ratio", "target", "CPU us", "allocations", "KB"}

// cpuColumns are the columns of cpuLine.
var cpuColumns = []string{"call", "CPU us", "ratio", "target", "calls/s", "allocations", "KB"}

// compare alternates between the baseline and the call and prints a line of the table. The
// ratio is that of the calls per second.
func (g *gateway) compare(ctx context.Context, t *table, name string, baseline, call probe, connections int, target bound, s settings) error {
	m, err := g.measureBoth(ctx, baseline, call, connections, s)
	if err != nil {
		return err
	}
	m.line(t, name, target)
	return nil
}

// measureBoth alternates between the baseline and the call.
func (g *gateway) measureBoth(ctx context.Context, baseline, call probe, connections int, s settings) (*comparison, error) {
	a, err := g.side(ctx, baseline, connections)
	if err != nil {
		return nil, err
	}
	defer a.load.close()
	b, err := g.side(ctx, call, connections)
	if err != nil {
		return nil, err
	}
	defer b.load.close()
	return measureSides(ctx, a, b, s)
}

// measureSides alternates between both sides.
func measureSides(ctx context.Context, a, b *side, s settings) (*comparison, error) {
	m := &comparison{baseline: a, call: b}
	for range s.rounds {
		before, err := a.run(ctx, s.segment)
		if err != nil {
			return nil, err
		}
		after, err := b.run(ctx, s.segment)
		if err != nil {
			return nil, err
		}
		m.rates = append(m.rates, after.rate/before.rate)
		m.cpu = append(m.cpu, after.cpu/before.cpu)
	}
	return m, nil
}

// comparison has the measurements of a call and of its baseline.
type comparison struct {
	baseline, call *side
	rates          []float64 // ratios of the calls per second, one for each round
	cpu            []float64 // ratios of the CPU time per call, one for each round
}

// line prints the comparison by calls per second.
func (m *comparison) line(t *table, name string, target bound) {
	t.line(name, m.ratesCell(), ratioCell(m.rates), target.verdict(median(m.rates)), m.cpuCell(), m.allocsCell(), m.bytesCell())
}

// cpuLine prints the comparison by CPU time per call.
func (m *comparison) cpuLine(t *table, name string, target bound) {
	t.line(name, m.cpuCell(), ratioCell(m.cpu), target.verdict(median(m.cpu)), m.ratesCell(), m.allocsCell(), m.bytesCell())
}

// own returns what the call uses beyond the baseline: CPU seconds, allocations and bytes.
func (m *comparison) own() (cpu, allocs, size float64) {
	a, b := m.baseline, m.call
	return b.perCall(b.used.cpu) - a.perCall(a.used.cpu), b.perCall(b.used.allocs) - a.perCall(a.used.allocs),
		b.perCall(b.used.bytes) - a.perCall(a.used.bytes)
}

func (m *comparison) ratesCell() string {
	return pairCell("%.0f", median(m.baseline.rates), median(m.call.rates))
}

func (m *comparison) cpuCell() string {
	return pairCell("%.0f", m.baseline.perCall(m.baseline.used.cpu)*1e6, m.call.perCall(m.call.used.cpu)*1e6)
}

func (m *comparison) allocsCell() string {
	return pairCell("%.0f", m.baseline.perCall(m.baseline.used.allocs), m.call.perCall(m.call.used.allocs))
}

func (m *comparison) bytesCell() string {
	return pairCell("%.1f", m.baseline.perCall(m.baseline.used.bytes)/1024, m.call.perCall(m.call.used.bytes)/1024)
}

// side is one of the two requests that are compared, with its measurements so far.
type side struct {
	gateway *gateway
	load    *load
	rates   []float64
	answers int
	used    cost
}

// side opens the connections and warms up the server.
func (g *gateway) side(ctx context.Context, p probe, connections int) (*side, error) {
	l, err := openLoad(p, connections)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.run(50 * time.Millisecond); err != nil {
		l.close()
		return nil, err
	}
	return &side{gateway: g, load: l}, nil
}

// segment is the result of one round of a side.
type segment struct {
	rate float64 // responses per second
	cpu  float64 // CPU seconds of the gateway per response
}

// run measures one segment.
func (s *side) run(ctx context.Context, d time.Duration) (segment, error) {
	idle, err := s.gateway.cost(ctx)
	if err != nil {
		return segment{}, err
	}
	before, err := s.gateway.cost(ctx)
	if err != nil {
		return segment{}, err
	}
	answers, took, err := s.load.run(d)
	if err != nil {
		return segment{}, err
	}
	after, err := s.gateway.cost(ctx)
	if err != nil {
		return segment{}, err
	}
	reading := before.minus(idle)
	reading.cpu = 0 // too short for the resolution of the system's CPU clock
	used := after.minus(before)
	rate := float64(answers) / took.Seconds()
	s.rates = append(s.rates, rate)
	s.answers += answers
	s.used = s.used.plus(used.minus(reading))
	return segment{rate: rate, cpu: used.cpu / float64(max(answers, 1))}, nil
}

// perCall divides a quantity by the number of responses.
func (s *side) perCall(quantity float64) float64 {
	return quantity / float64(max(s.answers, 1))
}
