package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

const (
	agentClients = 64
	agentLimit   = 100 // calls that the agent may make
)

// limitedAgent may order so often.
func limitedAgent(limit int) string {
	return fmt.Sprintf(`kind: "openagentspec:v1/agent"
name: buyer
description: Orders things.
intent: You order things.
owner: tests
capabilities:
  order:
    user_identity: False
    input_restriction:
      assertion: history._total < %d
`, limit)
}

// agentSite is the Caddyfile of a node whose agent orders.
func agentSite(address, store string, api *orders) string {
	return fmt.Sprintf(`{
	admin off
	agents {
		toolset orders orders.yaml
		store %s
	}
}
http://%s {
	mcp /mcp orders
	otc /otc orders
	oagent buyer.yaml {
		engagement {http.request.header.X-Engagement}
	}
	reverse_proxy %s
}
`, store, address, strings.TrimPrefix(api.URL, "http://"))
}

// buy asks for an order by MCP, OTC or plain HTTP, and reports whether it was made.
func (n *brittleNode) buy(ctx context.Context, protocol int, name string) (bool, error) {
	path, body, made := "/orders", fmt.Sprintf(`{"name":%q}`, name), `"number":`
	switch protocol % 3 {
	case 1:
		path = "/otc/call"
		body = fmt.Sprintf(`{"request":{"tool_id":"Orders.order","input":{"name":%q}}}`, name)
	case 2:
		path = "/mcp"
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","arguments":{"name":%q}}}`, name)
		made = `"structuredContent":`
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if protocol%3 == 2 {
		request.Header.Set("MCP-Protocol-Version", "2025-06-18")
	}
	request.Header.Set("X-Engagement", "one")
	response, err := stormClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	switch text := string(content); {
	case strings.Contains(text, made):
		return true, nil
	case strings.Contains(text, "history._total"):
		return false, nil
	default:
		return false, fmt.Errorf("%s: %d %s", path, response.StatusCode, text)
	}
}

// startBuyers starts nodes whose agent orders.
func startBuyers(t *testing.T, api *orders, limit int, stores ...string) []*brittleNode {
	t.Helper()
	nodes := make([]*brittleNode, len(stores))
	for i, address := range stores {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "buyer.yaml"), limitedAgent(limit))
		own := freeAddress(t)
		nodes[i] = startBrittle(t, dir, own, agentSite(own, address, api))
	}
	return nodes
}

// TestOAgent_limit has many clients of all protocols ask for more than an agent may
// do in its Engagement, on one node and on two.
func TestOAgent_limit(t *testing.T) {
	stores := map[string]func(t *testing.T) []string{
		"bolt": func(t *testing.T) []string { return []string{"bolt " + filepath.Join(t.TempDir(), "store.db")} },
	}
	for name, start := range storetest.Shared() {
		stores["two nodes on "+name] = func(t *testing.T) []string {
			store := start(t).Option
			return []string{store, store}
		}
	}
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			api := startOrders(t)
			close(api.hold)
			nodes := startBuyers(t, api, agentLimit, start(t)...)
			ctx, cancel := context.WithTimeout(t.Context(), 3*waitTimeout)
			defer cancel()
			var made atomic.Int64
			var group sync.WaitGroup
			for i := range agentClients {
				group.Go(func() {
					for turn := range 4 {
						ok, err := nodes[(i+turn)%len(nodes)].buy(ctx, i, fmt.Sprintf("%d-%d", i, turn))
						if err != nil {
							t.Error(err)
						}
						if ok {
							made.Add(1)
						}
					}
				})
			}
			group.Wait()
			if begun, _ := api.total(); begun != agentLimit || made.Load() != agentLimit {
				t.Errorf("%d calls reached the API and %d clients got a success; want %d", begun, made.Load(), agentLimit)
			}
		})
	}
}

// TestOAgent_killed kills a node in the middle of many calls. The record has every
// call that has reached the API.
func TestOAgent_killed(t *testing.T) {
	api := startOrders(t)
	close(api.hold)
	file := filepath.Join(t.TempDir(), "store.db")
	node := startBuyers(t, api, 1_000_000, "bolt "+file)[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				if _, err := node.buy(ctx, i, fmt.Sprintf("%d-%d", i, turn)); err != nil {
					return // the node is gone
				}
			}
		})
	}
	waitFor(t, waitTimeout, "calls that are under way", func() bool { begun, _ := api.total(); return begun > 200 })
	node.kill()
	cancel()
	group.Wait()

	recorded := recordedOrders(t, file)
	api.mu.Lock()
	defer api.mu.Unlock()
	for name := range api.counts {
		if !recorded[name] {
			t.Errorf("the order %s reached the API and is not in the record", name)
		}
	}
	if len(recorded) < len(api.counts) {
		t.Errorf("%d recorded, %d made", len(recorded), len(api.counts))
	}
}

// recordedOrders reads the names of all orders in the records of a store.
func recordedOrders(t *testing.T, file string) map[string]bool {
	t.Helper()
	s, err := embedded.Open(file, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	guard, err := oagent.NewGuard(oagent.GuardOptions{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	engagements, _, err := guard.Engagements.Page(t.Context(), "", "", 10)
	if err != nil || len(engagements) != 1 {
		t.Fatalf("%d Engagements, %v", len(engagements), err)
	}
	names := make(map[string]bool)
	for from := int64(0); ; {
		entries, err := guard.Engagements.Entries(t.Context(), engagements[0].Key, from, engagement.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			return names
		}
		from += int64(len(entries))
		for _, e := range entries {
			var inputs struct{ Name string }
			if e.Event != engagement.EntryBegun {
				continue
			}
			if err := json.Unmarshal(e.Inputs, &inputs); err != nil {
				t.Fatal(err)
			}
			names[inputs.Name] = true
		}
	}
}

// TestOAgent_admin looks at what the admin endpoint says.
func TestOAgent_admin(t *testing.T) {
	api := startOrders(t)
	close(api.hold)
	dir, own, admin := t.TempDir(), freeAddress(t), freeAddress(t)
	writeFile(t, filepath.Join(dir, "buyer.yaml"), limitedAgent(10))
	node := startBrittle(t, dir, own, strings.Replace(agentSite(own, "bolt", api), "admin off", "admin "+admin, 1))
	if ok, err := node.buy(t.Context(), 0, "book"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for path, want := range map[string][]string{
		"/agents/toolsets":            {`"name":"orders"`, `"loaded":true`, `"agent_name":"order"`, `"path":"/orders"`},
		"/agents/agents":              {`"name":"buyer"`, `"reference":"order"`, `"toolset":"orders"`, `"tool":"order"`, "buyer.yaml"},
		"/agents/engagements":         {`"oagent":"buyer"`, `"total":1`, `"engagement_id":"one@127.0.0.1"`},
		"/agents/engagements?limit=0": {"a number from 1 to 1000"},
	} {
		response, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(content), text) {
				t.Errorf("%s: no %s in %d %s", path, text, response.StatusCode, content)
			}
		}
	}
}
