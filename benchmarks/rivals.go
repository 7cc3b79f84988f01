package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// rivalConnections is the number of connections for the comparison with other servers.
const rivalConnections = 8

// rivalTargets are the maximum costs of a tool call, as a share of the CPU time that a
// server written with the SDK uses for the same call.
var rivalTargets = []struct {
	sdk    string
	target bound
}{
	{"go-sdk", atMost(0.6)},
	{"mcp-go", atMost(1)},
}

// rival is a running server that is written with another SDK (benchmarks/rivals).
type rival struct {
	address string
	stop    func()
}

// compareRivals compares the CPU time of a tool call with servers that make the same call
// with an SDK and an HTTP client. The CPU time of Fairway is that of the whole gateway,
// from the client's connection to the API's.
func compareRivals(ctx context.Context, t *table, g *gateway, s settings) error {
	binary, err := buildRivals(ctx, g.dir)
	if err != nil {
		t.note("\nnot compared with other servers: %v", err)
		return nil
	}
	t.section("A tool call, beside an MCP server written with an SDK: CPU time of the server's process",
		"server", "CPU us", "ratio", "target", "calls/s")
	for _, c := range rivalTargets {
		r, err := startRival(ctx, binary, c.sdk, "http://"+g.upstream)
		if err != nil {
			return fmt.Errorf("%s: %w", c.sdk, err)
		}
		err = g.compareRival(ctx, t, r, c.sdk, c.target, s)
		r.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", c.sdk, err)
		}
	}
	return nil
}

func (g *gateway) compareRival(ctx context.Context, t *table, r *rival, sdk string, target bound, s settings) error {
	const arguments, want = `{"item_id":"42","currency":"CHF"}`, "sku-42"
	theirs := toolCalls(r.address, "GET", "read_item", arguments, want)[0]
	ours := toolCalls(g.tools, "GET", "read_item", arguments, want)[0]
	a, err := openMeter(theirs, r.cpu)
	if err != nil {
		return err
	}
	defer a.load.close()
	b, err := openMeter(ours, func(ctx context.Context) (float64, error) {
		c, err := g.cost(ctx)
		return c.cpu, err
	})
	if err != nil {
		return err
	}
	defer b.load.close()
	for range s.rounds {
		if err := a.run(ctx, s); err != nil {
			return err
		}
		if err := b.run(ctx, s); err != nil {
			return err
		}
	}
	ratio := b.perCall() / a.perCall()
	t.line(sdk, pairCell("%.0f", a.perCall()*1e6, b.perCall()*1e6), fmt.Sprintf("%.2f", ratio), target.verdict(ratio),
		pairCell("%.0f", median(a.rates), median(b.rates)))
	return nil
}

// meter is a load, and the CPU time of the process that serves it.
type meter struct {
	load    *load
	cpu     func(context.Context) (float64, error)
	used    float64 // seconds
	answers int
	rates   []float64
}

func openMeter(p probe, cpu func(context.Context) (float64, error)) (*meter, error) {
	l, err := openLoad(p, rivalConnections)
	if err != nil {
		return nil, err
	}
	return &meter{load: l, cpu: cpu}, nil
}

func (m *meter) run(ctx context.Context, s settings) error {
	before, err := m.cpu(ctx)
	if err != nil {
		return err
	}
	answers, took, err := m.load.run(s.segment)
	if err != nil {
		return err
	}
	after, err := m.cpu(ctx)
	if err != nil {
		return err
	}
	m.used += after - before
	m.answers += answers
	m.rates = append(m.rates, float64(answers)/took.Seconds())
	return nil
}

func (m *meter) perCall() float64 {
	return m.used / float64(max(m.answers, 1))
}

// buildRivals builds the module of the other servers. Go downloads missing dependencies.
func buildRivals(ctx context.Context, dir string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "rivals")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = filepath.Join(root, "benchmarks", "rivals")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./benchmarks/rivals: %w\n%s", err, out)
	}
	return binary, nil
}

// startRival starts a server, which ends when its standard input is closed.
func startRival(ctx context.Context, binary, sdk, upstream string) (*rival, error) {
	cmd := exec.CommandContext(ctx, binary, sdk, upstream)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &rival{stop: func() {
		stdin.Close()
		cmd.Wait()
	}}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		r.stop()
		return nil, err
	}
	r.address = strings.TrimSpace(line)
	return r, nil
}

// cpu returns the CPU time of the process in seconds.
func (r *rival) cpu(ctx context.Context) (float64, error) {
	text, err := get(ctx, "http://"+r.address+"/cpu")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}
