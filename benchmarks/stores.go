package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	storedCall   = 1700 // bytes that an OTC call takes in the store
	fillers      = 64   // connections that fill the stores
	backupRounds = 5
)

// compareStores compares this version with another binary (-base), each with a store of the same size (-stored) in bolt.
func compareStores(ctx context.Context, t *table, g *gateway, s settings) error {
	if s.base == "" {
		t.note("\nnot compared: the embedded store with that of another version, because there is no -base")
		return nil
	}
	var nodes [2]*gateway
	for i, binary := range []string{s.base, g.cmd.Path} {
		node, err := newNode(ctx, binary, g.dir, fmt.Sprint("stores", i), g.upstream)
		if err != nil {
			return err
		}
		if err := node.start(ctx, node.tools); err != nil {
			return err
		}
		defer node.stop()
		nodes[i] = node
		if err := makeCalls(ctx, recordedCall(node, "create_item", newItem), fillers, s.stored/storedCall); err != nil {
			return err
		}
	}
	t.section(fmt.Sprintf("The embedded store with %d MB, beside %s", s.stored>>20, s.base), callColumns...)
	for _, kind := range []struct {
		call   func(*gateway) probe
		target bound
	}{
		{guardedCall, atLeast(0.85)},
		{func(g *gateway) probe { return recordedCall(g, "create_item", newItem) }, atLeast(0.8)},
		{func(g *gateway) probe { return recordedCall(g, "read_item", `{"item_id":"42","currency":"CHF"}`) }, atLeast(0.9)},
	} {
		for _, connections := range []int{32, 64} {
			if err := compareNodesBy(ctx, t, nodes, kind.call, connections, kind.target, s); err != nil {
				return err
			}
		}
	}
	return compareBackups(ctx, t, nodes)
}

func compareNodesBy(ctx context.Context, t *table, nodes [2]*gateway, call func(*gateway) probe, connections int, target bound, s settings) error {
	var sides [2]*side
	for i, node := range nodes {
		measured, err := node.side(ctx, call(node), connections)
		if err != nil {
			return err
		}
		defer measured.load.close()
		sides[i] = measured
	}
	m, err := measureSides(ctx, sides[0], sides[1], s)
	if err == nil {
		m.line(t, onConnections(call(nodes[0]).name, connections), target)
	}
	return err
}

// newNode prepares a process with a data directory of its own. It has all sites.
func newNode(ctx context.Context, binary, dir, name, upstream string) (*gateway, error) {
	g := &gateway{upstream: upstream, dir: dir}
	err := freeAddresses(&g.admin, &g.plain, &g.context, &g.forward, &g.enhance, &g.tools, &g.guarded, &g.many, &g.respond)
	if err != nil {
		return nil, err
	}
	return g, g.prepare(ctx, binary, name, g.caddyfile(""))
}

// compareBackups compares the longest durable write while a backup is made. The rounds alternate.
func compareBackups(ctx context.Context, t *table, nodes [2]*gateway) error {
	var longest [2][]float64
	var ratios []float64
	for range backupRounds {
		for i, node := range nodes {
			d, err := longestWrite(ctx, node)
			if err != nil {
				return err
			}
			longest[i] = append(longest[i], d.Seconds()*1000)
		}
		ratios = append(ratios, longest[1][len(longest[1])-1]/longest[0][len(longest[0])-1])
	}
	t.section("The longest OTC call that creates, while a backup is made", "call", "ms", "ratio", "target")
	t.line("OTC create_item, 1 connection", pairCell("%.0f", median(longest[0]), median(longest[1])), ratioCell(ratios), atMost(2).verdict(median(ratios)))
	return nil
}

// longestWrite returns the duration of the longest call while a backup is made.
func longestWrite(ctx context.Context, g *gateway) (longest time.Duration, err error) {
	c, err := dial(g.tools)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ended := make(chan error, 1)
	go func() { ended <- discard(ctx, "http://"+g.admin+"/agents/store/backup") }()
	for call := recordedCall(g, "create_item", newItem); ; {
		select {
		case err := <-ended:
			return longest, err
		default:
		}
		start := time.Now()
		if err := c.roundTrip(call); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(start))
	}
}

// discard reads a response to its end.
func discard(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return err
}
