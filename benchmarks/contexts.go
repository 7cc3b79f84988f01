package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/ocp"
)

// distinctSessions is the number of different sessions that are sent in turn. It is larger
// than the session cache of the handler.
const distinctSessions = 4096

// compareContexts measures the cost of the ocp handler for a REST call, compared with
// plain reverse_proxy.
func compareContexts(ctx context.Context, t *table, g *gateway, s settings) error {
	t.section("A REST call with an OCP context, beside plain reverse_proxy without the handler", callColumns...)
	plainHeaders, session := make(http.Header), make(http.Header)
	agent := newAgent(0)
	if err := agent.SetHeaders(session); err != nil {
		return err
	}
	for name, values := range session {
		if name != ocp.HeaderSession {
			plainHeaders[name] = values
		}
	}
	each, err := distinct(g.enhance)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		call   probe
		target bound
	}{
		{"no OCP headers", readItem(g.context, nil), atLeast(0.98)},
		{"five plain headers", readItem(g.forward, plainHeaders), atLeast(0.95)},
		{"the same, replied to", readItem(g.context, plainHeaders), atLeast(0.75)},
		{fmt.Sprintf("session of %d B, untouched", len(session.Get(ocp.HeaderSession))), readItem(g.forward, session), atLeast(0.93)},
		{"that session, enhanced and replied to", readItem(g.enhance, session), atLeast(0.75)},
		{"likewise, each time another session", each, atLeast(0.75)},
	} {
		// The baseline carries the same headers, so the cost of parsing them in net/http is
		// on both sides.
		baseline := c.call
		baseline.name, baseline.address = "plain", g.plain
		if err := g.compare(ctx, t, c.name, baseline, c.call, 32, c.target, s); err != nil {
			return err
		}
	}
	return nil
}

func readItem(address string, header http.Header) probe {
	flat := make(map[string]string, len(header))
	for name := range header {
		flat[ocp.HeaderName(name)] = header.Get(name)
	}
	return newProbe("ocp", address, http.MethodGet, "/items/42?currency=CHF", "sku-42", "", flat)
}

// distinct returns a probe that sends another session in each request.
func distinct(address string) (probe, error) {
	var p probe
	for i := range distinctSessions {
		header := make(http.Header)
		if err := newAgent(i).SetHeaders(header); err != nil {
			return probe{}, err
		}
		one := readItem(address, header)
		if i == 0 {
			p = one
			continue
		}
		p.others = append(p.others, bytes.Clone(one.request))
	}
	return p, nil
}

// newAgent returns the context of an agent after some calls. Its session header has about
// 1.7 KB.
func newAgent(seed int) *ocp.Context {
	random := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // must be reproducible
	agent := ocp.NewContext("ide_copilot")
	agent.User, agent.Workspace = "ada", "furniture-shop"
	agent.SetGoal("find a folding chair that fits the balcony", "compares chairs by price and stock")
	start := time.Now().Add(-time.Hour)
	for i := range 40 {
		endpoint := fmt.Sprintf("GET /items/%08x%08x%08x", random.Uint32(), random.Uint32(), random.Uint32())
		agent.Record(ocp.CallEntry(start.Add(time.Duration(i)*time.Minute), endpoint, "read_item", "read_item", http.StatusOK))
	}
	return agent
}
