package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	pollInterval = 2 * time.Second // of the page with the calls in a browser, see its template
	pacedRate    = 1000            // calls per second
	minPolls     = 10              // of the page, for each load

	consoleRounds = 2 // in place of one, because the differences are small

	unwatchedTarget = 1.0 // CPU of a call with a console at which no one looks, beside one without; see tolerance
	watchedTarget   = 1.02
	tolerance       = 0.01 // of two measurements of the same on a quiet machine
)

// pageTarget is the time, in milliseconds, in which the page must respond at pacedRate.
var pageTarget = atMost(20)

// compareConsole measures what the console costs tool calls, and how fast its page is under load. Two
// processes have the same configuration, but only one has a console. The measurement is of CPU time, as a
// total of all rounds: that is steadier than the calls per second.
func compareConsole(ctx context.Context, t *table, g *gateway, s settings) error {
	var gateways []*gateway
	for _, name := range []string{"without", "with"} {
		own, err := g.startConsole(ctx, name)
		if err != nil {
			return err
		}
		defer own.stop()
		gateways = append(gateways, own)
	}
	connections := connectionCounts[0].connections
	t.section("A tool call on a site with agents_console, beside the same call on a site without", cpuColumns...)
	for _, row := range []struct {
		name    string
		watched bool
		target  bound
	}{
		{"no one looks", false, atMost(unwatchedTarget + tolerance)},
		{fmt.Sprintf("someone looks, every %s", pollInterval), true, atMost(watchedTarget)},
	} {
		m, err := measureConsole(ctx, gateways[0], gateways[1], row.watched, s)
		if err != nil {
			return err
		}
		ratio := m.call.perCall(m.call.used.cpu) / m.baseline.perCall(m.baseline.used.cpu)
		t.line(row.name, m.cpuCell(), fmt.Sprintf("%.3f", ratio), row.target.verdict(ratio), m.ratesCell(), m.allocsCell(), m.bytesCell())
	}
	t.section("The page with the calls, while a site with agents_console serves tool calls", "load", "calls/s", "ms (median)", "target", "ms (slowest)")
	for _, rate := range []int{pacedRate, 0} {
		if err := pageUnderLoad(ctx, t, gateways[1], connections, rate, s); err != nil {
			return err
		}
	}
	return nil
}

// startConsole starts a process with one site: with a console, or without.
func (g *gateway) startConsole(ctx context.Context, name string) (*gateway, error) {
	own := &gateway{upstream: g.upstream, dir: g.dir}
	if err := freeAddresses(&own.admin, &own.tools); err != nil {
		return nil, err
	}
	console := ""
	if name == "with" {
		console = "agents_console"
	}
	caddyfile := fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	log {
		level ERROR
	}
}
http://%s {
	%s
	mcp /mcp items.json
	reverse_proxy %s
}
`, own.admin, own.tools, console, g.upstream)
	if err := own.prepare(ctx, g.cmd.Path, "console-"+name, caddyfile); err != nil {
		return nil, err
	}
	return own, own.start(ctx, own.tools)
}

// consoleCall is the tool call that all measurements make.
func consoleCall(g *gateway) probe {
	return toolCalls(g.tools, "GET", "read_item", `{"item_id":"42","currency":"CHF"}`, "sku-42")[0]
}

// measureConsole alternates between the site without a console and the one with it. If the console is
// watched, its page is polled as often as a browser does, measured in the time under load.
func measureConsole(ctx context.Context, without, with *gateway, watched bool, s settings) (*comparison, error) {
	connections := connectionCounts[0].connections
	a, err := without.side(ctx, consoleCall(without), connections)
	if err != nil {
		return nil, err
	}
	defer a.load.close()
	b, err := with.side(ctx, consoleCall(with), connections)
	if err != nil {
		return nil, err
	}
	defer b.load.close()
	if watched {
		if _, _, err := with.pollPage(ctx); err != nil { // begins the recording
			return nil, err
		}
	}
	m := &comparison{baseline: a, call: b}
	loaded := pollInterval / 2
	for range consoleRounds * s.rounds {
		if _, err := a.run(ctx, s.segment); err != nil {
			return nil, err
		}
		polled := make(chan error, 1)
		if loaded += s.segment; watched && loaded >= pollInterval {
			loaded -= pollInterval
			go func() {
				_, _, err := with.pollPage(ctx)
				polled <- err
			}()
		} else {
			polled <- nil
		}
		if _, err := b.run(ctx, s.segment); err != nil {
			return nil, err
		}
		if err := <-polled; err != nil {
			return nil, err
		}
	}
	return m, nil
}

// pollPage requests the rows of the page with the calls, as the script of the page does. It returns how long
// that took.
func (g *gateway) pollPage(ctx context.Context) (took time.Duration, rows []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.tools+"/console/calls", nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Hx-Request", "true")
	began := time.Now()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return 0, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, nil, fmt.Errorf("the page of the console: %s: %.300s", response.Status, body.Bytes())
	}
	return time.Since(began), body.Bytes(), nil
}

// pageUnderLoad measures how fast the page responds while the site serves calls: rate calls per second, or
// as many as it can if rate is 0.
func pageUnderLoad(ctx context.Context, t *table, g *gateway, connections, rate int, s settings) error {
	l, err := openLoad(consoleCall(g), connections)
	if err != nil {
		return err
	}
	defer l.close()
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	var answers int
	var took time.Duration
	ended := make(chan error, 1)
	go func() {
		var err error
		answers, took, err = l.paced(loaded, rate)
		ended <- err
	}()
	var times []float64 // milliseconds
	every := time.NewTicker(s.segment / 4)
	defer every.Stop()
	for len(times) < max(s.rounds, minPolls) {
		select {
		case err := <-ended:
			return errors.Join(err, ctx.Err())
		case <-every.C:
		}
		d, rows, err := g.pollPage(ctx)
		if err != nil {
			return err
		}
		if !bytes.Contains(rows, []byte("read_item")) {
			return errors.New("the page of the console does not show the calls")
		}
		times = append(times, float64(d)/float64(time.Millisecond))
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	name, target := fmt.Sprintf("%d calls/s", rate), pageTarget
	if rate == 0 {
		name, target = "as many calls as it can serve", bound{}
	}
	t.line(name, fmt.Sprintf("%.0f", float64(answers)/took.Seconds()), fmt.Sprintf("%.1f", median(times)), target.verdict(median(times)),
		fmt.Sprintf("%.1f", slices.Max(times)))
	return nil
}

// paced sends requests until ctx ends: rate per second, or one after the other on each connection if rate is
// 0. It returns the number of responses.
func (l *load) paced(ctx context.Context, rate int) (answers int, took time.Duration, err error) {
	counts := make([]int, len(l.conns))
	errs := make([]error, len(l.conns))
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range l.conns {
		wg.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				if rate > 0 { // each request has its time
					at := float64(counts[i]*len(l.conns)+i) / float64(rate)
					time.Sleep(time.Until(start.Add(time.Duration(at * float64(time.Second)))))
				}
				errs[i] = c.roundTrip(l.probe)
				counts[i]++
			}
		})
	}
	wg.Wait()
	for _, n := range counts {
		answers += n
	}
	return answers, time.Since(start), errors.Join(errs...)
}
