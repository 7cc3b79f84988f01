// Package integration drives a real Caddy with Fairway in it, the program that
// users run, from outside: over HTTP, with the MCP clients that others have
// written, in front of APIs that answer well and of APIs that do not.
//
// TestMain builds ./cmd/caddy once, with the race detector if the tests have it.
// A test starts it with a configuration of its own (gateway_test.go), before the
// API of Caddyfile.example (example_test.go, clients_test.go, node_test.go) or
// one that misbehaves on demand (upstream_test.go, upstream_faults_test.go), and
// says what a client must get. Tables say what must come of quirky MCP servers
// (mcp_servers_quirks_test.go) and issuers (issuers_quirks_test.go); the one of
// clients that log in is caddymodule/login/clients_site_test.go. Whatever a test sends, the same process must
// go on answering.
package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Limits for what hangs: a machine that is busy may be slow.
const (
	startTimeout = time.Minute // until the gateway answers
	stopTimeout  = time.Minute // until it has ended; Caddy waits 5 s for a connection on which nothing was sent
	waitTimeout  = time.Minute // until a condition holds
)

// The shortest and the longest time between two checks of a condition.
const (
	minPause = 10 * time.Millisecond
	maxPause = 100 * time.Millisecond
)

// caddy is the binary under test.
var caddy string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fairway-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	caddy = filepath.Join(dir, "caddy")
	if err := os.Setenv("NODE_COMPILE_CACHE", filepath.Join(dir, "node")); err != nil { // each script is compiled once, and not in each process
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if race {
		err = goBuild(nil, "", "../cmd/caddy", caddy, "-race")
	} else {
		err = goBuild(nil, "", "../cmd/caddy", caddy)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// buildProgram builds a program of a test, in the folder of its module. It uses the settings of .ci/run, whose builds have
// compiled the same dependencies without the race detector.
func buildProgram(folder, source, program string, flags ...string) error {
	var environment []string
	if race {
		environment = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -tags=nobadger,nomysql,nopgx")
	}
	return goBuild(environment, folder, source, program, flags...)
}

// goBuild builds a program. "go run" keeps the programs that it links in the build cache, and "go build" links each time.
func goBuild(environment []string, folder, source, program string, flags ...string) error {
	build := exec.Command("go", append(append([]string{"run", "-exec", "cp"}, flags...), source, program)...)
	build.Dir, build.Env = folder, environment
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", build.Args[1:], err, out)
	}
	return nil
}

// A gateway is a running Caddy.
type gateway struct {
	url string // of the site under test, without a trailing slash
	pid int
	log *output
}

// startGateway runs Caddy with a Caddyfile until the test ends, and waits until
// its site at address answers. Paths in it are relative to dir.
func startGateway(t *testing.T, dir, address, caddyfile string) *gateway {
	t.Helper()
	state := t.TempDir()
	config := filepath.Join(state, "Caddyfile")
	writeFile(t, config, caddyfile)

	g := &gateway{url: "http://" + address, log: &output{}}
	cmd := exec.Command(caddy, "run", "--config", config, "--adapter", "caddyfile")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+state, "XDG_CONFIG_HOME="+state, "GORACE=halt_on_error=1")
	cmd.Stdout, cmd.Stderr = g.log, g.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { g.stop(t, cmd, ended) })

	waitFor(t, startTimeout, "the gateway to answer", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("caddy ended: %v\n%s", err, g.log)
		default:
		}
		response, err := http.Get(g.url)
		if err != nil {
			return false
		}
		response.Body.Close()
		return true
	})
	return g
}

// stop ends the process, which must still be running and must end in order.
func (g *gateway) stop(t *testing.T, cmd *exec.Cmd, ended chan error) {
	select {
	case err := <-ended:
		t.Errorf("caddy ended during the test: %v\n%s", err, g.log)
		return
	default:
	}
	cmd.Process.Signal(os.Interrupt)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("caddy: %v\n%s", err, g.log)
		}
	case <-time.After(stopTimeout):
		cmd.Process.Kill()
		t.Errorf("caddy did not stop within %s\n%s", stopTimeout, g.log)
	}
	if text := g.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic in a tool call") {
		t.Errorf("caddy's log:\n%s", text)
	} else if t.Failed() {
		t.Logf("caddy's log:\n%s", text)
	}
}

// output keeps what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
}

// waitForOneListener waits until a configuration that was replaced has closed its
// socket (see testkit.Listeners).
func waitForOneListener(t *testing.T, address string) {
	t.Helper()
	number, err := strconv.Atoi(port(address))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, waitTimeout, "one listener alone on "+address, func() bool { return testkit.Listeners(number) <= 1 })
}

// waitFor checks again and again whether the condition holds: often at first, and then every maxPause, because most
// conditions make a request.
func waitFor(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for pause := minPause; !holds(); pause = min(pause*3/2, maxPause) {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after %s waiting for %s", limit, what)
		case <-time.After(pause):
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An answer is what came back from the gateway.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send makes one request and reads the whole answer.
func (g *gateway) send(t *testing.T, method, path, contentType string, body io.Reader, header map[string]string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, g.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return answer{response.StatusCode, response.Header, content}
}
