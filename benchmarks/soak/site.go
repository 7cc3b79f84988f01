package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

// startTimeout is how long a server may take to start.
const startTimeout = 60 * time.Second

// things describes the API that users call. Its slow and failing operations only read.
const things = `openapi: 3.1.0
info: {title: Things, version: 1.0.0}
paths:
  /things:
    post:
      operationId: create
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}}
      responses: {"201": {description: The thing.}}
  /things/{name}:
    get:
      operationId: read
      parameters: [{name: name, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: The thing.}}
  /slow: {get: {operationId: slow, responses: {"200": {description: Late.}}}}
  /failing: {get: {operationId: failing, responses: {"200": {description: Seldom.}}}}
  /jobs:
    post:
      operationId: job
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}}
      responses: {"202": {description: Accepted.}}
`

// orders describes the API of the agents.
const orders = `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
paths:
  PATH:
    post:
      operationId: order
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}}
      responses: {"200": {description: The order.}}
`

const agents = `kind: openagentspec:v1/agent
name: buyer
description: Orders things.
intent: buyer
owner: soak
capabilities:
  order: {user_identity: false}
---
kind: openagentspec:v1/agent
name: clerk
description: Orders things after a review.
intent: clerk
owner: soak
capabilities:
  order: {user_identity: false, input_restriction: {require_review: boss}}
`

const guard = `kind: openagentspec:v1/agent
name: guarded
description: Orders things.
intent: guarded
owner: soak
capabilities:
  order: {user_identity: false, input_restriction: {assertion: history._total < 1000000}}
`

// site is two nodes with one Redis, and the API and the model behind them.
type site struct {
	dir    string
	caddy  string
	ttl    time.Duration // of what is stored
	redis  *process
	nodes  [2]*node
	api    *api
	served []*http.Server // the API and the model
	closes []func()
	socket string // of Redis
	client *redis.Client
}

// node is a Caddy process.
type node struct {
	*process
	url, admin string
	dir        string
}

// process is a child process that a crash or an end can stop.
type process struct {
	make  func() *exec.Cmd
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *process) start() error {
	p.cmd, p.ended = p.make(), make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := p.cmd, p.ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return nil
}

func (p *process) end(signal os.Signal) {
	if p != nil && p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Signal(signal)
		<-p.ended
	}
}

func startSite(ctx context.Context, dir, caddy string, length time.Duration) (s *site, err error) {
	s = &site{dir: dir, caddy: caddy, ttl: max(length/6, 40*time.Second), api: newAPI()}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return s, fmt.Errorf("redis-server is not in the PATH: %w", err)
	}
	if caddy == "" {
		s.caddy = filepath.Join(dir, "caddy")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.caddy, "github.com/fairwayhq/fairway/cmd/caddy")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return s, fmt.Errorf("building Caddy: %w", err)
		}
	}
	short, err := os.MkdirTemp("", "fw-redis-") // the path of a socket is limited
	if err != nil {
		return s, err
	}
	s.closes = append(s.closes, func() { os.RemoveAll(short) })
	s.socket = filepath.Join(short, "s")
	logging.Disable() // the client logs each failed connection, and outages are part of the run
	s.client = redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	s.closes = append(s.closes, func() { s.client.Close() })
	s.redis = &process{make: func() *exec.Cmd {
		return exec.Command(program, "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
			"--maxmemory", "256mb", "--maxmemory-policy", "noeviction", "--dir", short)
	}}
	if err := s.startRedis(ctx); err != nil {
		return s, err
	}
	apiAddress, err := s.serve(s.api)
	if err != nil {
		return s, err
	}
	modelAddress, err := s.serve(&modelserver.Server{Respond: respond})
	if err != nil {
		return s, err
	}
	documents, realOnes, err := writeDocuments(dir)
	if err != nil {
		return s, err
	}
	fmt.Printf("%d documents, of which %d are real\n", len(documents), realOnes)
	for i := range s.nodes {
		if s.nodes[i], err = s.newNode(i, apiAddress, modelAddress, documents); err != nil {
			return s, err
		}
		if err := s.nodes[i].run(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// stop ends all processes.
func (s *site) stop() {
	for _, n := range s.nodes {
		if n != nil {
			n.end(syscall.SIGKILL)
		}
	}
	s.redis.end(syscall.SIGKILL)
	for _, c := range s.closes {
		c()
	}
}

// serve serves a handler on a free port of the loopback interface.
func (s *site) serve(h http.Handler) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: startTimeout}
	go server.Serve(listener)
	s.served = append(s.served, server)
	s.closes = append(s.closes, func() { server.Close() })
	return listener.Addr().String(), nil
}

func (s *site) startRedis(ctx context.Context) error {
	os.Remove(s.socket)
	if err := s.redis.start(); err != nil {
		return err
	}
	return until(ctx, "Redis responds", func() bool {
		info, err := s.client.Info(ctx).Result()
		return err == nil && strings.Contains(info, "used_memory:") && strings.Contains(info, "loading:0")
	})
}

func (s *site) restartRedis(ctx context.Context) error {
	s.redis.end(syscall.SIGTERM)
	wait(ctx, outage)
	return s.startRedis(ctx)
}

// restartNode kills the second node, and starts it again.
func (s *site) restartNode(ctx context.Context) error {
	n := s.nodes[1]
	n.end(syscall.SIGKILL)
	wait(ctx, outage)
	return n.run(ctx)
}

// reload loads the configuration of both nodes again, one after the other.
func (s *site) reload(ctx context.Context) error {
	for i, n := range s.nodes {
		config, err := os.ReadFile(filepath.Join(n.dir, "Caddyfile"))
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.admin+"/load", bytes.NewReader(config))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "text/caddyfile")
		r.Header.Set("Cache-Control", "must-revalidate")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return fmt.Errorf("reloading node %d: %w", i+1, err)
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("reloading node %d: %s: %s", i+1, response.Status, body)
		}
	}
	return nil
}

func (s *site) newNode(i int, api, model string, documents []string) (*node, error) {
	addresses := make([]string, 2)
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses[i] = listener.Addr().String()
	}
	n := &node{url: "http://" + addresses[0], admin: addresses[1], dir: filepath.Join(s.dir, fmt.Sprint("node", i+1))}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return nil, err
	}
	var keys, toolsets, sites strings.Builder
	for u := range users {
		fmt.Fprintf(&keys, "\t\t\tkey %s %s\n", userName(u), secretOf(userName(u)))
	}
	for d, path := range documents {
		fmt.Fprintf(&toolsets, "\t\ttoolset doc%d %s\n", d, path)
		fmt.Fprintf(&sites, "\tmcp /doc%d doc%d {\n\t\tsecret one-secret-of-all-nodes\n\t}\n", d, d)
	}
	config := fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level WARN
	}
	agents {
%s		toolset things things.yaml
		toolset orders orders.yaml
		toolset guarded guarded.yaml
		store redis unix://%s
		calls {
			keep RECORDS
		}
	}
}
http://%s {
	agents_health
	agent_auth {
		api_key {
%s			key boss %s
		}
	}
	mcp /mcp things {
		secret one-secret-of-all-nodes
	}
	mcp /tasks things {
		task_after 200ms
		task_ttl TTL
		secret one-secret-of-all-nodes
	}
%s	otc /otc things {
		idempotency {
			ttl TTL
		}
	}
	@guarded path /guarded*
	handle @guarded {
		oagent guard.yaml {
			toolset guarded
			engagement {http.request.header.X-Engagement}
			engagement_ttl RECORDS
		}
		reverse_proxy %s
	}
	@orders path /orders* /agents* /engagements* /reviews*
	handle @orders {
		oagent agents.yaml {
			toolset orders
			serve /agents
			engagements /engagements
			reviews /reviews
			engagement_ttl RECORDS
			model openai {
				base_url http://%s
				model test
			}
		}
		reverse_proxy %s
	}
	@ocp path /things/*
	handle @ocp {
		ocp
		reverse_proxy %s
	}
	reverse_proxy %s
}
`, n.admin, toolsets.String(), s.socket, addresses[0], keys.String(), secretOf("boss"), sites.String(), api, model, api, api, api)
	// Records expire in each run, but not while a run of an agent goes on.
	config = strings.NewReplacer("TTL", s.ttl.Round(time.Second).String(), "RECORDS", max(s.ttl, 2*time.Minute).Round(time.Second).String()).Replace(config)
	for name, content := range map[string]string{
		"Caddyfile": config, "things.yaml": things, "agents.yaml": agents, "guard.yaml": guard,
		"orders.yaml": strings.Replace(orders, "PATH", "/orders", 1), "guarded.yaml": strings.Replace(orders, "PATH", "/guarded", 1),
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.closes = append(s.closes, func() { log.Close() })
	n.process = &process{make: func() *exec.Cmd {
		cmd := exec.Command(s.caddy, "run", "--config", "Caddyfile", "--adapter", "caddyfile")
		cmd.Dir = n.dir
		cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(n.dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(n.dir, "config"))
		cmd.Stdout, cmd.Stderr = log, log
		return cmd
	}}
	return n, nil
}

func (n *node) logPath() string { return n.dir + ".log" }

// run starts the process, and waits until it is ready.
func (n *node) run(ctx context.Context) error {
	if err := n.start(); err != nil {
		return err
	}
	err := until(ctx, "the node is ready", func() bool {
		response, err := http.Get(n.url + "/health/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if err != nil {
		log, _ := os.ReadFile(n.logPath())
		return fmt.Errorf("%w:\n%.4000s", err, log)
	}
	return nil
}

// until waits for a condition.
func until(ctx context.Context, what string, condition func() bool) error {
	for deadline := time.Now().Add(startTimeout); !condition(); wait(ctx, 50*time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s, it is not true that %s", startTimeout, what)
		}
	}
	return nil
}
