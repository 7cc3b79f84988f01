package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// countedServer builds the program of testdata/counted, and returns its path.
var countedServer = sync.OnceValues(func() (string, error) {
	program := filepath.Join(filepath.Dir(caddy), "counted")
	return program, buildProgram("", "../testdata/counted", program)
})

func counted(t *testing.T) string {
	t.Helper()
	program, err := countedServer()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// executions counts the executions of calls by their id, and kills the server during calls whose id begins with "kill".
type executions struct {
	mu    sync.Mutex
	count map[string]int
}

func (e *executions) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	e.mu.Lock()
	e.count[id]++
	e.mu.Unlock()
	if pid, err := strconv.Atoi(r.URL.Query().Get("pid")); err == nil && strings.HasPrefix(id, "kill") {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
		<-r.Context().Done() // the call never returns
	}
}

// keepRunning starts the server again whenever it has ended, until the test ends.
func keepRunning(t *testing.T, arguments ...string) {
	t.Helper()
	program := counted(t)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			_ = exec.CommandContext(ctx, program, arguments...).Run() // it is killed, which is an error
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

// TestMCPServers_killed kills a server during calls. Other calls are in progress then. No call is executed twice, each
// client gets a result, and the next calls succeed without help.
//
//nolint:tparallel // other tests have the processors to themselves; the subtests mostly wait
func TestMCPServers_killed(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for _, name := range []string{"stdio", "stateful", "stateless"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			e := &executions{count: make(map[string]int)}
			report := httptest.NewServer(e)
			t.Cleanup(report.Close)
			site, upstream := freeAddress(t), freeAddress(t)
			server := "http://" + upstream
			switch name {
			case "stdio":
				server = fmt.Sprintf("command %q %q", counted(t), report.URL)
			case "stateful":
				keepRunning(t, report.URL, upstream)
			default:
				keepRunning(t, report.URL, upstream, "stateless")
			}
			g := startGateway(t, t.TempDir(), site, fmt.Sprintf("{\nadmin off\ndefault_bind 127.0.0.1\nagents {\ntoolset counted {\nmcp_server %s\nrefresh 1s\n}\n}\n}\nhttp://%s {\nmcp counted\nmcp_servers\n}\n", server, site))
			g.waitForTools(t, "/mcp", "count")
			var sessions []*mcp.ClientSession
			for _, revision := range []string{"2025-11-25", "2026-07-28"} {
				sessions = append(sessions, connect(context.Background(), t, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}, revision, nil))
			}
			succeeded := make(map[string]bool)
			for round := range rounds {
				var mu sync.Mutex
				var calls sync.WaitGroup
				for i, kind := range []string{"kill", "beside", "beside"} {
					id := fmt.Sprint(kind, "-", round, "-", i)
					session := sessions[(round+i)%len(sessions)]
					calls.Go(func() {
						ok := countCall(t, session, id)
						mu.Lock()
						defer mu.Unlock()
						succeeded[id] = ok
					})
				}
				calls.Wait()
				attempt := 0
				waitFor(t, waitTimeout, "a call to succeed after the server was killed", func() bool {
					id := fmt.Sprint("after-", round, "-", attempt)
					attempt++
					succeeded[id] = countCall(t, sessions[round%len(sessions)], id)
					return succeeded[id]
				})
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			killed := 0
			for id, n := range e.count {
				if n > 1 {
					t.Errorf("the call %s was executed %d times", id, n)
				}
				if strings.HasPrefix(id, "kill") {
					killed++
				}
			}
			for id, ok := range succeeded {
				if ok && e.count[id] != 1 {
					t.Errorf("the call %s succeeded, and was executed %d times", id, e.count[id])
				}
				if ok && strings.HasPrefix(id, "kill") {
					t.Errorf("the call %s succeeded, although the server was killed", id)
				}
			}
			if killed < rounds/2 {
				t.Errorf("the server was killed %d times in %d rounds", killed, rounds)
			}
			t.Logf("killed %d times, %d calls, %d of them executed", killed, len(succeeded), len(e.count))
		})
	}
}

// countCall reports whether a call succeeded. A call without any result fails the test.
func countCall(t *testing.T, session *mcp.ClientSession, id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "count", Arguments: map[string]string{"id": id}})
	if err != nil {
		t.Errorf("the call %s: %v", id, err)
		return false
	}
	return !result.IsError
}

// TestMCPServers_change_of_a_process is noticed without waiting for the next refresh.
func TestMCPServers_change_of_a_process(t *testing.T) {
	t.Parallel()
	site := freeAddress(t)
	g := startGateway(t, t.TempDir(), site, fmt.Sprintf("{\nadmin off\ndefault_bind 127.0.0.1\nagents {\ntoolset counted {\nmcp_server command %q\n}\n}\n}\nhttp://%s {\nmcp counted\nmcp_servers\n}\n", counted(t), site))
	g.waitForTools(t, "/mcp", "grow")
	ctx := sessionContext(t)
	session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}, "2025-11-25", nil)
	checkTools(ctx, t, session, []toolCall{{"grow", nil, false, ""}})
	g.waitForTools(t, "/mcp", "grown")
}

// TestMCPServers_caddy_tools prints the tools of a server without a running gateway.
func TestMCPServers_caddy_tools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "Caddyfile")
	writeFile(t, config, fmt.Sprintf("{\nagents {\ntoolset counted {\nmcp_server command %q\n}\ntoolset down {\nmcp_server http://127.0.0.1:1\n}\n}\n}\n:0 {\nmcp /mcp counted down\nmcp_servers\n}\n", counted(t)))
	for toolset, want := range map[string]struct {
		exit int
		text string
	}{
		"counted": {0, "count grow"},
		"down":    {1, "connection refused"},
	} {
		cmd := exec.CommandContext(t.Context(), caddy, "tools", "--config", config, "--toolset", toolset)
		cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, _ := cmd.CombinedOutput() // the exit code is checked
		if exit := cmd.ProcessState.ExitCode(); exit != want.exit || !testkit.ContainsAll(string(out), want.text) {
			t.Errorf("caddy tools --toolset %s ended with %d, want %d with %q in its output:\n%s", toolset, exit, want.exit, want.text, out)
		}
	}
}
