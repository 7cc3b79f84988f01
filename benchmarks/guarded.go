package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// agentDocument describes an agent that may read items, with an assertion on the input
// and an assertion on the output.
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

// guardedEngagements is the number of Engagements that the guarded calls alternate
// between, like the calls of many conversations.
const guardedEngagements = 32

// compareGuarded measures the cost of guarding and recording a REST call. Each record is
// durable before the API receives the call.
func compareGuarded(ctx context.Context, t *table, g *gateway, s settings) error {
	call := guardedCall(g)
	t.section("A REST call guarded by one input and one output assertion, recorded in the embedded store, beside plain reverse_proxy", callColumns...)
	connections := connectionCounts[0].connections
	name := onConnections(call.name, connections)
	return g.compare(ctx, t, name, callKinds(g)[0].baseline, call, connections, atLeast(0.75), s)
}

// withArchive is the option of agents for an audit archive in a file.
const withArchive = "audit {\n\t\t\tsink file archived.jsonl\n\t\t}"

// compareArchived measures what the archive of the audit costs guarded calls. Two processes have the same site, but only one has an
// archive, with a file. The entries of a call are durable in the store before the API receives the call, and before its result is released.
func compareArchived(ctx context.Context, t *table, g *gateway, s settings) error {
	connections := connectionCounts[0].connections
	var sides []*side
	for i, options := range []string{"", withArchive} {
		own, err := g.startNode(ctx, fmt.Sprint("archived", i), options)
		if err != nil {
			return err
		}
		defer own.stop()
		measured, err := own.side(ctx, guardedCall(own), connections)
		if err != nil {
			return err
		}
		defer measured.load.close()
		sides = append(sides, measured)
	}
	m, err := measureSides(ctx, sides[0], sides[1], s)
	if err != nil {
		return err
	}
	t.section("The same guarded call with an audit archive in a file, beside the call without an archive", callColumns...)
	m.line(t, onConnections("oagent GET, archived", connections), bound{})
	return nil
}

// compareHistories measures the same for calls of a single Engagement, which run one
// after the other, when the Engagement already has a history of calls.
func compareHistories(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("The same calls, all in one Engagement, after others in it",
		"calls before", "calls/s", "ratio", "target", "CPU us", "allocations", "KB")
	connections := connectionCounts[0].connections
	for _, length := range s.history {
		call := engagementCall(g, fmt.Sprint("after-", length))
		if err := makeCalls(ctx, call, connections, length); err != nil {
			return err
		}
		if err := g.compare(ctx, t, fmt.Sprint(length), callKinds(g)[0].baseline, call, connections, bound{}, s); err != nil {
			return err
		}
	}
	return nil
}

// makeCalls makes at least the given number of calls, and few more.
func makeCalls(ctx context.Context, p probe, connections, calls int) error {
	l, err := openLoad(p, min(connections, calls))
	if err != nil {
		return err
	}
	defer l.close()
	for made := len(l.conns); made < calls; {
		if err := ctx.Err(); err != nil {
			return err
		}
		answers, _, err := l.run(100 * time.Millisecond)
		if err != nil {
			return err
		}
		made += answers
	}
	return nil
}

// guardedCall is a REST call that alternates between many Engagements.
func guardedCall(g *gateway) probe {
	call := engagementCall(g, "e0")
	for i := 1; i < guardedEngagements; i++ {
		call.others = append(call.others, engagementCall(g, fmt.Sprint("e", i)).request)
	}
	return call
}

// engagementCall is a REST call in an Engagement.
func engagementCall(g *gateway, id string) probe {
	return newProbe("oagent GET", g.guarded, http.MethodGet, "/items/42?currency=CHF", "sku-42", "", map[string]string{"X-Engagement": id})
}
