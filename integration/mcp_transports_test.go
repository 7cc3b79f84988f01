package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionContext bounds what a session does. Unlike the test's own context it ends
// after the session that connect closes.
func sessionContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// connect opens a session of the official Go client, which ends with the test.
func connect(ctx context.Context, t *testing.T, transport mcp.Transport, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "fairway-test", Version: "1.0.0"}, options)
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil && !errors.Is(err, mcp.ErrConnectionClosed) {
			t.Errorf("closing the session: %v", err)
		}
	})
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("revision %s was agreed on, want %s", got, revision)
	}
	return session
}

// checkTransport lists the example's tools and calls two of them. It looks at
// nothing that only some revisions have.
func checkTransport(ctx context.Context, t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, exampleTools) {
		t.Errorf("tools %q, want %q", names, exampleTools)
	}
	checkTools(ctx, t, session, []toolCall{
		{"get_trip", map[string]any{"trip_id": "ir-1512"}, false, "Geneva"},
		{"create_booking", map[string]any{"trip_id": "ice-71", "passenger": "Ada"}, true, "no seat left"},
		{"get_trip", map[string]any{}, true, "trip_id"},
	})
}

// TestServerSentEvents speaks HTTP with SSE, the transport of 2024-11-05, at the
// path below the endpoint that its clients are given.
func TestServerSentEvents(t *testing.T) {
	g := startExample(t)
	for _, revision := range []string{"2024-11-05", "2025-06-18"} {
		t.Run(revision, func(t *testing.T) {
			ctx := sessionContext(t)
			checkTransport(ctx, t, connect(ctx, t, &mcp.SSEClientTransport{Endpoint: g.url + "/mcp/sse"}, revision, nil))
		})
	}
}

// stdioCommands are the ways to serve the example's API on stdin and stdout: by a
// configuration, and by the document alone. The API answers at g.
func stdioCommands(t *testing.T, g *gateway) map[string][]string {
	t.Helper()
	document, err := filepath.Abs("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "Caddyfile")
	writeFile(t, config, "{\n\tadmin off\n}\n\nhttp://"+freeAddress(t)+" {\n\tmcp /mcp "+document+"\n\treverse_proxy "+g.url+"\n}\n")
	return map[string][]string{
		"config":  {"mcp", "--config", config},
		"openapi": {"mcp", "--openapi", document, "--upstream", g.url},
	}
}

// stdioCommand is Caddy with these arguments and a home of its own.
func stdioCommand(t *testing.T, args []string) *exec.Cmd {
	t.Helper()
	state := t.TempDir()
	cmd := exec.Command(caddy, args...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+state, "XDG_CONFIG_HOME="+state, "GORACE=halt_on_error=1")
	return cmd
}

// TestStdio serves MCP on stdin and stdout, in each revision that the Go client
// knows.
func TestStdio(t *testing.T) {
	g := startExample(t)
	for name, args := range stdioCommands(t, g) {
		for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				ctx := sessionContext(t)
				cmd := stdioCommand(t, args)
				log := &output{}
				cmd.Stderr = log
				checkTransport(ctx, t, connect(ctx, t, &mcp.CommandTransport{Command: cmd}, revision, nil))
				if t.Failed() {
					t.Logf("caddy's log:\n%s", log)
				}
			})
		}
	}
}

// TestStdioEnds closes stdin: what was asked is still answered, and the process
// ends in order, with nothing but messages on stdout.
func TestStdioEnds(t *testing.T) {
	g := startExample(t)
	const asked = `{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fairway-test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ir-1512"}}}
`
	for name, args := range stdioCommands(t, g) {
		t.Run(name, func(t *testing.T) {
			cmd := stdioCommand(t, args)
			var stdout bytes.Buffer
			log := &output{}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(asked), &stdout, log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(startTimeout, func() { cmd.Process.Kill() })
			defer timer.Stop()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("caddy %s: %v\n%s", strings.Join(args, " "), err, log)
			}

			answers := make(map[string]string)
			for decoder := json.NewDecoder(&stdout); ; {
				var message struct {
					ID     json.RawMessage `json:"id"`
					Result json.RawMessage `json:"result"`
				}
				if err := decoder.Decode(&message); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("stdout has something else than messages: %v", err)
				}
				if message.ID != nil {
					answers[string(message.ID)] = string(message.Result)
				}
			}
			if len(answers) != 2 || !strings.Contains(answers[`"first"`], "2025-11-25") || !strings.Contains(answers["2"], "Geneva") {
				t.Errorf("answers %q", answers)
			}
		})
	}
}

// TestMCPRemote speaks with a client of stdio alone through mcp-remote, over both
// transports that it knows.
func TestMCPRemote(t *testing.T) {
	program := nodeProgram(t)
	g := startExample(t)
	for _, c := range []struct{ transport, path string }{
		{"http-only", "/mcp"},
		{"sse-only", "/mcp/sse"},
	} {
		t.Run(c.transport, func(t *testing.T) {
			ctx := sessionContext(t)
			cmd := exec.Command(program, "node_modules/mcp-remote/dist/proxy.js", g.url+c.path, "--transport", c.transport, "--allow-http")
			cmd.Dir = nodeClients
			home := t.TempDir()
			cmd.Env = append(os.Environ(), "HOME="+home, "MCP_REMOTE_CONFIG_DIR="+home, "NO_COLOR=1")
			log := &output{}
			cmd.Stderr = log
			checkTransport(ctx, t, connect(ctx, t, &mcp.CommandTransport{Command: cmd}, "2025-11-25", nil))
			if t.Failed() {
				t.Logf("mcp-remote's log:\n%s", log)
			}
		})
	}
}
