package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

const (
	talkInputs  = 10 // of a conversation
	inputSteps  = 3  // of an input: the model requests a call, the call is made, the model answers
	talkUsers   = 10
	talkers     = 8 // conversations at the same time
	talkWorkers = 256
	fewTalks    = 400 // of fewer conversations, the heap says nothing: what waits to be written to the store varies by 1 MB or so

	crowdShare = 10 // the node has one worker for crowdShare runs of the user with many
	fewRuns    = 6  // of the other user, without and with them
)

// Targets of hosted agents.
var (
	stepTarget       = atMost(2)   // milliseconds of CPU of a step
	growthTarget     = atMost(8)   // KB of heap for a further conversation: its record in the cache of the Guard
	listOfRunsTarget = atMost(20)  // milliseconds until the list of a user's runs is there
	delayTarget      = atMost(1.2) // time of a run while another user has many, beside that without
)

const deskDocument = `kind: openagentspec:v1/agent
name: desk
description: Answers questions about items.
intent: You answer questions about items.
owner: benchmarks
lifespan: {retain_memory: false}
capabilities:
  read-item: {user_identity: false}
`

// serveModel serves a model that calls read-item once for each input. The name of the model is the time of each response.
func serveModel(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return serveUntilClosed(ctx, listener, &modelserver.Server{Forget: true, Respond: func(r *modelserver.Request) modelserver.Step {
		step := modelserver.Step{Text: "It is a folding chair of 49.50 francs, and 17 of them are in stock."}
		if r.Messages[len(r.Messages)-1].Role == "user" {
			step = modelserver.Step{Calls: []modelserver.Call{{ID: "call", Name: r.Tools[0].Name, Arguments: `{"item_id":"42","currency":"CHF"}`}}}
		}
		if d, err := time.ParseDuration(r.Model); err == nil && d > 0 {
			elapsed := make(chan struct{})
			time.AfterFunc(d, func() { close(elapsed) })
			step.Wait = elapsed
		}
		return step
	}})
}

// agentNode is a gateway with a hosted agent.
type agentNode struct {
	*gateway
	client    *http.Client
	stopModel func()
}

// startAgent starts a gateway with that many workers, whose model takes the given time for each response.
func (g *gateway) startAgent(ctx context.Context, name string, workers int, response time.Duration) (*agentNode, error) {
	model, stopModel, err := startChild(ctx, "model")
	if err != nil {
		return nil, err
	}
	n := &agentNode{gateway: &gateway{dir: g.dir}, stopModel: stopModel, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: talkers},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if err := n.startSite(ctx, g, name, model, workers, response); err != nil {
		stopModel()
		return nil, err
	}
	return n, nil
}

func (n *agentNode) startSite(ctx context.Context, g *gateway, name, model string, workers int, response time.Duration) error {
	if err := freeAddresses(&n.admin, &n.plain, &n.guarded); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.dir, "desk.yaml"), []byte(deskDocument), 0o600); err != nil {
		return err
	}
	var keys strings.Builder
	for u := range talkUsers {
		fmt.Fprintf(&keys, "\t\t\tkey %s %s\n", talkUser(u), secretOf(talkUser(u)))
	}
	config := fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	log {
		level ERROR
	}
}
http://%s {
	reverse_proxy %[6]s
}
http://%[3]s {
	agent_auth {
		api_key {
%[4]s		}
	}
	oagent desk.yaml {
		toolset items.json
		serve /agents
		engagements /engagements
		workers %[7]d
		model openai {
			base_url http://%[5]s
			model %[8]s
		}
	}
	reverse_proxy %[6]s
}
`, n.admin, n.plain, n.guarded, keys.String(), model, g.upstream, workers, response)
	if err := n.prepare(ctx, g.cmd.Path, name, config); err != nil {
		return err
	}
	return n.start(ctx, n.plain)
}

func (n *agentNode) stop() {
	n.client.CloseIdleConnections()
	n.gateway.stop()
	n.stopModel()
}

func talkUser(n int) string { return fmt.Sprint("user", n) }

func secretOf(user string) string { return "0123456789abcdef-" + user }

// send sends a request of a user, and returns the body and the Location of the response.
func (n *agentNode) send(ctx context.Context, user, method, path, body string, header ...string) (content []byte, location string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.guarded+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("X-Api-Key", secretOf(user))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := n.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK && response.StatusCode != http.StatusSeeOther {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, content)
	}
	return content, response.Header.Get("Location"), err
}

const question = `{"input":"What does item 42 cost, and how many of it are in stock?"}`

// begin begins a run, and returns its path.
func (n *agentNode) begin(ctx context.Context, user string) (string, error) {
	_, location, err := n.send(ctx, user, http.MethodPost, "/agents/desk", question)
	return location, err
}

// answer sends a request to a run with a response after the answer.
func (n *agentNode) answer(ctx context.Context, user, method, path, body string) error {
	for {
		content, _, err := n.send(ctx, user, method, path, body, "Prefer", "wait=60")
		if err != nil {
			return err
		}
		var state struct{ Status string }
		if err := json.Unmarshal(content, &state); err != nil {
			return err
		}
		switch state.Status {
		case "complete":
			return nil
		case "error":
			return fmt.Errorf("the run has failed: %s", content)
		}
		method, body = http.MethodGet, ""
	}
}

// talk has a conversation.
func (n *agentNode) talk(ctx context.Context, user string) error {
	location, err := n.begin(ctx, user)
	if err == nil {
		err = n.answer(ctx, user, http.MethodGet, location, "")
	}
	for i := 1; i < talkInputs && err == nil; i++ {
		err = n.answer(ctx, user, http.MethodPost, location, question)
	}
	return err
}

// each calls do for each number below count, some at the same time.
func each(count, atOnce int, do func(int) error) error {
	numbers := make(chan int)
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for n := range numbers {
				if errs[i] == nil {
					errs[i] = do(n)
				}
			}
		})
	}
	for n := range count {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	return errors.Join(errs...)
}

// heap returns the bytes on the heap after a garbage collection.
func (g *gateway) heap(ctx context.Context) (float64, error) {
	if _, err := get(ctx, "http://"+g.admin+"/debug/pprof/heap?gc=1"); err != nil {
		return 0, err
	}
	return g.metric(ctx, "go_memstats_heap_alloc_bytes")
}

// measureConversations measures conversations of ten inputs with a hosted agent: the CPU of the gateway for a step, its memory,
// and the list of a user's runs. The model, the API and the users are other processes. A step is a response of the model or a
// tool call; the requests of the user are part of it.
func measureConversations(ctx context.Context, t *table, g *gateway, s settings) error {
	n, err := g.startAgent(ctx, "conversations", talkWorkers, 0)
	if err != nil {
		return err
	}
	defer n.stop()
	t.section(fmt.Sprintf("Conversations of %d inputs with a hosted agent; each input takes %d steps", talkInputs, inputSteps),
		"conversations", "CPU ms/step", "target", "allocations/step", "steps/s", "heap MB", "KB/conversation", "target")
	last := 0.0
	for done, part := 0, 0; part < 3; part++ {
		until := []int{s.talks / 10, s.talks / 2, s.talks}[part]
		before, err := n.cost(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		err = each(until-done, talkers, func(i int) error { return n.talk(ctx, talkUser((done+i)%talkUsers)) })
		if err != nil {
			return err
		}
		took := time.Since(began)
		used, err := n.cost(ctx)
		if err != nil {
			return err
		}
		used = used.minus(before)
		heap, err := n.heap(ctx)
		if err != nil {
			return err
		}
		grown, verdict := "-", "-"
		if more := until - done; more >= fewTalks {
			growth := max(0, heap-last) / 1024 / float64(more)
			grown, verdict = fmt.Sprintf("%.1f", growth), growthTarget.verdict(growth)
		}
		steps := float64((until - done) * talkInputs * inputSteps)
		cpu, cpuVerdict := used.cpu/steps*1e3, "-"
		if part > 0 { // the first part warms up
			cpuVerdict = stepTarget.verdict(cpu)
		}
		t.line(fmt.Sprint(until), fmt.Sprintf("%.2f", cpu), cpuVerdict, fmt.Sprintf("%.0f", used.allocs/steps),
			fmt.Sprintf("%.0f", steps/took.Seconds()), fmt.Sprintf("%.1f", heap/(1<<20)), grown, verdict)
		done, last = until, heap
	}
	t.note("The heap is measured after a garbage collection. Records of Engagements are cached, up to 64 MiB.")
	t.section(fmt.Sprintf("The list of the runs of a user with %d of %d", s.talks/talkUsers, s.talks), "list", "ms (median)", "target", "KB")
	for _, query := range []string{"", "?order=newest", "?order=newest&limit=20"} {
		var times []float64
		size := 0
		for range 5 * s.rounds {
			began := time.Now()
			page, _, err := n.send(ctx, talkUser(0), http.MethodGet, "/engagements"+query, "")
			if err != nil {
				return err
			}
			times, size = append(times, time.Since(began).Seconds()*1e3), len(page)
		}
		took := median(times)
		t.line("GET /engagements"+query, fmt.Sprintf("%.1f", took), listOfRunsTarget.verdict(took), fmt.Sprintf("%.0f", float64(size)/1024))
	}
	return nil
}

// compareShares compares the time of a user's runs while another user has many in progress with the time without.
func compareShares(ctx context.Context, t *table, g *gateway, s settings) error {
	n, err := g.startAgent(ctx, "shares", s.crowd/crowdShare, s.slow)
	if err != nil {
		return err
	}
	defer n.stop()
	one := func() (float64, error) {
		began := time.Now()
		location, err := n.begin(ctx, talkUser(1))
		if err == nil {
			err = n.answer(ctx, talkUser(1), http.MethodGet, location, "")
		}
		return time.Since(began).Seconds() * 1e3, err
	}
	var alone, crowded []float64
	for range min(fewRuns, s.rounds) {
		took, err := one()
		if err != nil {
			return err
		}
		alone = append(alone, took)
	}
	locations := make([]string, s.crowd)
	err = each(s.crowd, talkers, func(i int) (err error) {
		locations[i], err = n.begin(ctx, talkUser(0))
		return err
	})
	if err != nil {
		return err
	}
	least := 0.0 // queued runs after the last measured one
	for range min(fewRuns, s.rounds) {
		took, err := one()
		if err != nil {
			return err
		}
		queued, err := n.metric(ctx, `fairway_agent_runs{status="queued"}`)
		if err != nil {
			return err
		}
		if queued == 0 {
			break
		}
		crowded, least = append(crowded, took), queued
	}
	if len(crowded) == 0 {
		return errors.New("all runs of the other user ended before a run was measured")
	}
	if err := each(len(locations), talkers, func(i int) error { return n.answer(ctx, talkUser(0), http.MethodGet, locations[i], "") }); err != nil {
		return err
	}
	t.section(fmt.Sprintf("A run of a user while another user has %d runs in progress, beside one without; the model takes %s for a response, and a run has two", s.crowd, s.slow),
		"run", "ms (median)", "ratio", "target", "ms (slowest)", "runs", "still queued")
	ratio := median(crowded) / median(alone)
	t.line("two users", pairCell("%.0f", median(alone), median(crowded)), fmt.Sprintf("%.3f", ratio), delayTarget.verdict(ratio),
		pairCell("%.0f", alone[len(alone)-1], crowded[len(crowded)-1]), fmt.Sprint(len(crowded)), fmt.Sprintf("%.0f", least))
	return nil
}
