package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	startTimeout = 20 * time.Second // until a server responds
	stopTimeout  = 10 * time.Second // until it has ended
)

// item is the response of the benchmark API. It has about 1 KB, a common size.
var item = []byte(`{"id":"42","sku":"sku-42","name":"Folding chair","price":{"amount":4950,"currency":"CHF"},"stock":17,"tags":["garden","wood"],` +
	`"description":"` + strings.Repeat("A chair that folds flat and weighs little. ", 18) + `"}`)

// serveUpstream runs the upstream API of all comparisons. It prints its address and
// ends when its standard input is closed, so that it cannot outlive the benchmark.
func serveUpstream(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, status int, body []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		w.Write(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{item_id}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, item)
	})
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, _ *http.Request) {
		// Without Content-Length, like an API that encodes its list while it sends it.
		w.Header().Set("Content-Type", "application/json")
		w.Write(itemList)
	})
	mux.HandleFunc("POST /items", func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n == 0 {
			http.Error(w, "no item", http.StatusBadRequest)
			return
		}
		answer(w, http.StatusCreated, item)
	})
	return serveUntilClosed(ctx, listener, mux)
}

// serveUntilClosed prints the address and serves until the standard input is closed.
func serveUntilClosed(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: startTimeout}
	fmt.Println(listener.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// startChild runs this program in a child process that prints its address: "upstream", "mcp-upstream" or "model".
func startChild(ctx context.Context, name string) (address string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		stdin.Close()
		cmd.Wait()
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(line), stop, nil
}

// gateway is a running Caddy with Fairway, and the addresses of its sites.
type gateway struct {
	admin string // the admin API

	plain   string // reverse_proxy alone
	context string // ocp and reverse_proxy
	forward string // the same with an ocp handler that adds nothing to responses
	enhance string // the same with an ocp handler that enhances responses
	tools   string // mcp, otc and reverse_proxy in front of the same API
	guarded string // oagent and reverse_proxy
	many    string // mcp with a toolset of 1,000 tools
	respond string // sends the tools/list response of that site with respond
	bare    string // mcp, a bare handler and reverse_proxy; "" if the binary has no bare handler

	upstream string
	dir      string // of the documents
	cmd      *exec.Cmd
	log      bytes.Buffer
}

// buildCaddy builds ./benchmarks/gateway unless a binary is given.
func buildCaddy(ctx context.Context, dir, binary string) (string, error) {
	if binary != "" {
		return filepath.Abs(binary)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "caddy")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./benchmarks/gateway")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./benchmarks/gateway: %w\n%s", err, out)
	}
	return binary, nil
}

// moduleRoot returns the directory of Fairway's go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it inside a checkout of Fairway: no go.mod here or above")
		}
		dir = parent
	}
}

// newGateway prepares a gateway with all sites and the documents in dir. HasBare says that the binary has the
// bare handler.
func newGateway(ctx context.Context, binary, dir, upstream string, hasBare bool) (*gateway, error) {
	g := &gateway{upstream: upstream, dir: dir}
	err := freeAddresses(&g.admin, &g.plain, &g.context, &g.forward, &g.enhance, &g.tools, &g.guarded, &g.many, &g.respond, &g.bare)
	if err != nil {
		return nil, err
	}
	if !hasBare {
		g.bare = ""
	}
	return g, g.prepare(ctx, binary, "gateway", g.caddyfile(""))
}

// freeAddresses sets each address to a free port of the loopback interface.
func freeAddresses(addresses ...*string) error {
	for _, address := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*address = listener.Addr().String()
		defer listener.Close() // after all of them are found, so that they differ
	}
	return nil
}

// prepare writes the configuration and prepares the process. The process has a data
// directory of its own, called name.
func (g *gateway) prepare(ctx context.Context, binary, name, caddyfile string) error {
	config := filepath.Join(g.dir, name+".Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile), 0o600); err != nil {
		return err
	}
	data := filepath.Join(g.dir, name)
	g.cmd = exec.CommandContext(ctx, binary, "run", "--config", config, "--adapter", "caddyfile")
	g.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(data, "data"), "XDG_CONFIG_HOME="+filepath.Join(data, "config"))
	g.cmd.Dir = g.dir
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	g.cmd.Cancel = func() error { return g.cmd.Process.Signal(os.Interrupt) }
	g.cmd.WaitDelay = stopTimeout
	return nil
}

// start runs the process and waits until the site at the address responds.
func (g *gateway) start(ctx context.Context, address string) error {
	if err := g.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		answer, err := get(ctx, "http://"+address+"/items/42")
		if err == nil && bytes.Contains(answer, []byte("sku-42")) {
			return nil
		}
		select {
		case <-ctx.Done():
			g.stop()
			return fmt.Errorf("caddy did not respond within %s:\n%s", startTimeout, g.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (g *gateway) stop() {
	g.cmd.Process.Signal(os.Interrupt)
	g.cmd.Wait()
}

// caddyfile returns the configuration. canned is the response of the last site.
func (g *gateway) caddyfile(canned string) string {
	bare := ""
	if g.bare != "" {
		bare = fmt.Sprintf("http://%s {\n\tmcp /mcp items.json\n\tbare /bare /items/42?currency=CHF\n\treverse_proxy %s\n}\n", g.bare, g.upstream)
	}
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level ERROR
	}
	agents {
		toolset inspected items.json {
			inspect secrets
			inspect pii
		}
	}
}
http://%s {
	reverse_proxy %[6]s
}
http://%[3]s {
	mcp /mcp items.json
	mcp /search items.json {
		search on
	}
	mcp /whole items.json {
		max_tokens off
	}
	mcp /inspected inspected {
		max_tokens off
	}
	mcp /select select.json
	otc /otc items.json
	reverse_proxy %[6]s
}
http://%[4]s {
	mcp /mcp many.json {
		search off
		max_tokens off
	}
	reverse_proxy %[6]s
}
http://%[5]s {
	header Content-Type application/json
	respond `+"`%[7]s`"+`
}
http://%[8]s {
	ocp
	reverse_proxy %[6]s
}
http://%[9]s {
	ocp {
		reply off
	}
	reverse_proxy %[6]s
}
http://%[10]s {
	ocp {
		enhance next_actions "[ocp.current_goal, response.body.name]"
	}
	reverse_proxy %[6]s
}
http://%[11]s {
	oagent agent.yaml {
		toolset items.json
		engagement {http.request.header.X-Engagement}
	}
	reverse_proxy %[6]s
}
`, g.admin, g.plain, g.tools, g.many, g.respond, g.upstream, canned, g.context, g.forward, g.enhance, g.guarded) + bare
}

// can reloads the configuration so that the respond site sends body.
func (g *gateway) can(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.admin+"/load", strings.NewReader(g.caddyfile(string(body))))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		problem, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return fmt.Errorf("reload: %s: %s", response.Status, problem)
	}
	return nil
}

// cost is what the gateway has used since it started, or between two readings.
type cost struct {
	cpu    float64 // seconds, user and system
	allocs float64 // heap objects
	bytes  float64 // bytes on the heap
}

func (c cost) minus(d cost) cost {
	return cost{c.cpu - d.cpu, c.allocs - d.allocs, c.bytes - d.bytes}
}

func (c cost) plus(d cost) cost {
	return cost{c.cpu + d.cpu, c.allocs + d.allocs, c.bytes + d.bytes}
}

// cost reads the metrics of the Caddy process.
func (g *gateway) cost(ctx context.Context) (c cost, err error) {
	err = g.metrics(ctx, map[string]*float64{
		"process_cpu_seconds_total":     &c.cpu,
		"go_memstats_mallocs_total":     &c.allocs,
		"go_memstats_alloc_bytes_total": &c.bytes,
	})
	return c, err
}

// metric reads one metric of the Caddy process. It is 0 if the process does not have it.
func (g *gateway) metric(ctx context.Context, name string) (value float64, err error) {
	err = g.metrics(ctx, map[string]*float64{name: &value})
	return value, err
}

// metrics sets those metrics of the Caddy process that are wanted.
func (g *gateway) metrics(ctx context.Context, wanted map[string]*float64) error {
	metrics, err := get(ctx, "http://"+g.admin+"/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(metrics)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if into, ok := wanted[name]; ok {
			if *into, err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("metric %s: %w", name, err)
			}
		}
	}
	return nil
}

// get returns the body of a response with status 200.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return body, nil
}
