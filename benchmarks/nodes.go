package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// coresForNodes is the number of cores at which two nodes can handle more calls than one:
// both nodes, Redis, the API and the load generator run on this machine.
const coresForNodes = 8

// compareNodes compares guarded calls on two nodes that share one Redis with the same calls
// on one node. Each connection has an Engagement of its own, like a conversation that makes
// one call after the other.
func compareNodes(ctx context.Context, t *table, g *gateway, s settings) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.note("\nnot compared: two nodes on one Redis, because redis-server is not in the PATH")
		return nil
	}
	address, stop, err := startRedis(ctx, program)
	if err != nil {
		return err
	}
	defer stop()
	var nodes []*gateway
	for i := range 2 {
		node, err := g.startNode(ctx, fmt.Sprint("node", i+1), "store redis "+address)
		if err != nil {
			return err
		}
		defer node.stop()
		nodes = append(nodes, node)
	}
	one, err := openCluster(nodes[:1], "one")
	if err != nil {
		return err
	}
	defer one.close()
	two, err := openCluster(nodes, "two")
	if err != nil {
		return err
	}
	defer two.close()
	return compareClusters(ctx, t, one, two, s)
}

// compareClusters alternates between both clusters and prints a line of the table.
func compareClusters(ctx context.Context, t *table, one, two *cluster, s settings) error {
	t.section("A guarded REST call on two nodes that share one Redis, beside one node",
		"call", "calls/s", "ratio", "target", "CPU us", "ratio", "target")
	var rates, cpu []float64
	for range s.rounds {
		before, err := one.run(ctx, s.segment)
		if err != nil {
			return err
		}
		after, err := two.run(ctx, s.segment)
		if err != nil {
			return err
		}
		rates = append(rates, after.rate/before.rate)
		cpu = append(cpu, after.cpu/before.cpu)
	}
	target := bound{}
	if runtime.NumCPU() >= coresForNodes {
		target = atLeast(1.8)
	}
	t.line(onConnections("oagent GET", clusterConnections),
		pairCell("%.0f", median(one.rates), median(two.rates)), ratioCell(rates), target.verdict(median(rates)),
		pairCell("%.0f", one.perCall()*1e6, two.perCall()*1e6), ratioCell(cpu), atMost(1.1).verdict(median(cpu)))
	if target == (bound{}) {
		t.note("This machine has %d cores; two nodes can handle more calls than one from %d cores on.", runtime.NumCPU(), coresForNodes)
	}
	return nil
}

// clusterConnections is the number of connections to all nodes of a cluster together.
const clusterConnections = 32

// cluster is a load on one or more nodes.
type cluster struct {
	nodes   []*gateway
	loads   []*load // one for each connection
	rates   []float64
	answers int
	cpu     float64 // seconds of all nodes
}

// openCluster opens the connections, distributed over the nodes.
func openCluster(nodes []*gateway, name string) (*cluster, error) {
	c := &cluster{nodes: nodes}
	for i := range clusterConnections {
		l, err := openLoad(engagementCall(nodes[i%len(nodes)], fmt.Sprintf("%s-%d", name, i)), 1)
		if err != nil {
			c.close()
			return nil, err
		}
		c.loads = append(c.loads, l)
	}
	return c, nil
}

func (c *cluster) close() {
	for _, l := range c.loads {
		l.close()
	}
}

// run measures one segment.
func (c *cluster) run(ctx context.Context, d time.Duration) (segment, error) {
	before, err := c.usedCPU(ctx)
	if err != nil {
		return segment{}, err
	}
	start := time.Now()
	answers := make([]int, len(c.loads))
	errs := make([]error, len(c.loads))
	var wg sync.WaitGroup
	for i, l := range c.loads {
		wg.Go(func() { answers[i], _, errs[i] = l.run(d) })
	}
	wg.Wait()
	took := time.Since(start)
	after, err := c.usedCPU(ctx)
	if err != nil {
		return segment{}, err
	}
	sum := 0
	for i := range answers {
		if errs[i] != nil {
			return segment{}, errs[i]
		}
		sum += answers[i]
	}
	rate := float64(sum) / took.Seconds()
	c.rates = append(c.rates, rate)
	c.answers += sum
	c.cpu += after - before
	return segment{rate: rate, cpu: (after - before) / float64(max(sum, 1))}, nil
}

// usedCPU returns the CPU seconds that all nodes have used.
func (c *cluster) usedCPU(ctx context.Context) (sum float64, err error) {
	for _, node := range c.nodes {
		used, err := node.cost(ctx)
		if err != nil {
			return 0, err
		}
		sum += used.cpu
	}
	return sum, nil
}

func (c *cluster) perCall() float64 {
	return c.cpu / float64(max(c.answers, 1))
}

// startNode runs a gateway that guards REST calls, with options of the block agents.
func (g *gateway) startNode(ctx context.Context, name, options string) (*gateway, error) {
	node := &gateway{dir: g.dir}
	if err := freeAddresses(&node.admin, &node.plain, &node.guarded); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level ERROR
	}
	agents {
		%s
	}
}
http://%s {
	reverse_proxy %[5]s
}
http://%[4]s {
	oagent agent.yaml {
		toolset items.json
		engagement {http.request.header.X-Engagement}
	}
	reverse_proxy %[5]s
}
`, node.admin, options, node.plain, node.guarded, g.upstream)
	if err := node.prepare(ctx, g.cmd.Path, name, config); err != nil {
		return nil, err
	}
	return node, node.start(ctx, node.plain)
}

// startRedis runs a Redis server without persistence on a Unix socket.
func startRedis(ctx context.Context, program string) (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "fw-redis-") // short, because the path of a socket is limited
	if err != nil {
		return "", nil, err
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.CommandContext(ctx, program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		os.RemoveAll(dir)
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return "unix://" + socket, stop, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			stop()
			return "", nil, fmt.Errorf("redis-server did not start within %s", startTimeout)
		}
	}
}
