package integration

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/store/storetest"
)

// slower is how much more a binary with the race detector may take.
const slower = 5

// beginAll begins n Engagements, some at a time, and returns their paths.
func (n *brittleNode) beginAll(t *testing.T, count int, agent, input string) []string {
	t.Helper()
	locations := make([]string, count)
	next := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range next {
				locations[i] = n.begin(t, agent, input)
			}
		})
	}
	for i := range locations {
		next <- i
	}
	close(next)
	group.Wait()
	return locations
}

func (n *brittleNode) reach(t *testing.T, locations []string, status string) {
	t.Helper()
	for _, location := range locations {
		waitFor(t, waitTimeout, location+" is "+status, func() bool { return n.state(t, location).Status == status })
	}
}

// memory returns the resident memory of a node in bytes.
func (n *brittleNode) memory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		t.Skip("the system has no /proc")
	}
	_, after, _ := bytes.Cut(status, []byte("VmRSS:"))
	kilobytes, err := strconv.Atoi(strings.Fields(string(after))[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// cpu returns the CPU time that a node has taken.
func (n *brittleNode) cpu(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		t.Skip("the system has no /proc")
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	var ticks int
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		value, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += value
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestHosted_waiting has 1,000 Engagements wait on one node: for a reviewer, and for their user.
func TestHosted_waiting(t *testing.T) {
	const maxBytes = 500 << 20
	s := newKillSite(t)
	s.models.Respond = func(r *modelserver.Request) modelserver.Step {
		if strings.HasPrefix(r.System, "clerk") {
			return modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "order", Arguments: `{"name":"x"}`}}}
		}
		return modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"What?"}`}}}
	}
	node := s.start(t.TempDir(), freeAddress(t), "bolt")
	asking, reviewed := node.beginAll(t, 500, "buyer", strings.Repeat("text ", 500)), node.beginAll(t, 500, "clerk", strings.Repeat("text ", 500))
	node.reach(t, asking, "awaiting-additional-input")
	node.reach(t, reviewed, "awaiting-verification")
	took := node.memory(t)
	t.Logf("a node with %d Engagements that wait takes %d MB", len(asking)+len(reviewed), took>>20)
	if limit := maxBytes; took > limit && !race || took > slower*limit {
		t.Errorf("the node takes %d bytes; the limit is %d", took, limit)
	}
}

// TestHosted_step compares the CPU time that a node takes for a step of a model or a tool, with the embedded
// store, with that of a request for the state of an Engagement, because machines differ.
func TestHosted_step(t *testing.T) {
	const runs, turns, requests, maxRatio = 5, 40, 1000, 15
	s := newKillSite(t)
	s.models.Respond = func(r *modelserver.Request) modelserver.Step {
		if n := len(r.Messages); n < 2*turns {
			return modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "order", Arguments: fmt.Sprintf(`{"name":"%d"}`, n)}}}
		}
		return modelserver.Step{Text: "Ordered."}
	}
	node := s.start(t.TempDir(), freeAddress(t), "bolt")
	before, began := node.cpu(t), time.Now()
	var location string
	for range runs {
		location = node.begin(t, "buyer", "Go")
		node.wait(t, location)
	}
	const steps = runs * (2*turns + 1)
	own, all := (node.cpu(t)-before)/steps, time.Since(began)/steps
	before = node.cpu(t)
	for range requests {
		node.state(t, location)
	}
	request := (node.cpu(t) - before) / requests
	t.Logf("a step takes %s of CPU on the node, and a request for the state %s; with the model, the API and the test a step takes %s", own, request, all)
	if own > maxRatio*request {
		t.Errorf("a step takes %s of CPU; the limit is %s, %d requests for the state", own, maxRatio*request, maxRatio)
	}
}

// wait waits with one request until a run has ended.
func (n *brittleNode) wait(t *testing.T, location string) {
	t.Helper()
	response, body := n.as(t, "ann", "GET", location, "", "Prefer", "wait=60")
	if response.StatusCode != 200 || !strings.Contains(body, `"status":"complete"`) {
		t.Errorf("state: %d %s", response.StatusCode, body)
	}
}

// TestHosted_two_nodes finishes 200 Engagements whose model is slow, on one node and on two.
func TestHosted_two_nodes(t *testing.T) {
	const runs, atLeast = 200, 1.5 // of 2 nodes with enough CPU
	var latency atomic.Int64       // of the model
	s := newKillSite(t)
	s.more = "workers 64" // by default a node would work on all of them at once
	redis, _ := storetest.Redis(t)
	s.models.Respond = func(*modelserver.Request) modelserver.Step {
		over := make(chan struct{})
		time.AfterFunc(time.Duration(latency.Load()), func() { close(over) })
		return modelserver.Step{Text: "Ordered.", Wait: over}
	}
	first := s.start(t.TempDir(), freeAddress(t), "redis "+redis)
	finish := func(runs int) time.Duration {
		began := time.Now()
		for _, location := range first.beginAll(t, runs, "buyer", "Go") {
			first.wait(t, location)
		}
		return time.Since(began)
	}
	// The model takes longer than the machine needs for the runs, because one machine has both nodes.
	const sample = runs / 4
	latency.Store(int64(max(2*time.Second, runs/sample*finish(sample))))
	alone := finish(runs)
	s.start(t.TempDir(), freeAddress(t), "redis "+redis)
	together := finish(runs)
	ratio := alone.Seconds() / together.Seconds()
	t.Logf("%d Engagements take %s on one node and %s on two: %.2f", runs, alone, together, ratio)
	if ratio < atLeast && !race {
		t.Errorf("two nodes are %.2f times as fast as one; want %.1f", ratio, atLeast)
	}
}
