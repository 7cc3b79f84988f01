package main

import (
	"context"
	"fmt"
	"net/http"
)

// agentDocument is an agent that may read items, with an assertion on what it asks
// for and one on what it gets.
const agentDocument = `kind: "openagentspec:v1/agent"
name: buyer
description: Looks at items.
intent: Look at items.
owner: benchmarks
capabilities:
  read-item:
    user_identity: false
    input_restriction:
      assertion: history._total < 1000000 && recent.read-item.inputs.item_id != "13"
    output_restriction:
      assertion: recent.read-item.outputs.stock > 0
`

// guardedEngagements is how many Engagements the guarded calls are spread over, as
// those of many conversations are.
const guardedEngagements = 32

// compareGuarded prints what it costs to guard and record a REST call, each of
// which is on disk before the API sees it.
func compareGuarded(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("A REST call guarded by one input and one output assertion, recorded in the embedded store, beside plain reverse_proxy",
		"call", "calls/s", "ratio", "target", "CPU us", "allocations", "KB")
	call := newProbe("oagent GET", g.guarded, http.MethodGet, "/items/42?currency=CHF", "sku-42", "", map[string]string{"X-Engagement": "e0"})
	for i := 1; i < guardedEngagements; i++ {
		other := newProbe("", g.guarded, http.MethodGet, "/items/42?currency=CHF", "sku-42", "", map[string]string{"X-Engagement": fmt.Sprint("e", i)})
		call.others = append(call.others, other.request)
	}
	connections := connectionCounts[0].connections
	name := fmt.Sprintf("%s, %d connections", call.name, connections)
	return g.compare(ctx, t, name, callKinds(g)[0].baseline, call, connections, atLeast(0.7), s)
}
