package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// stdioSites is a configuration with endpoints of several sites. One asks for a
// password ("hiccup"), one is below a prefix. All logs are configured to go to stdout or
// a file.
const stdioSites = `{
	log {
		output stdout
		format console
	}
}

api.example.com, *.api.example.com {
	log {
		output file LOG
	}
	handle /mcp* {
		basic_auth {
			ada PASSWORD
		}
		mcp /mcp DOCUMENT
		reverse_proxy API
	}
}

localhost {
	tls internal
	handle_path /prefix/* {
		mcp /mcp DOCUMENT {
			versions 2024-11-05 2026-07-28
		}
		header X-Seen {http.request.scheme}
		reverse_proxy API
	}
}
`

// discoverMessage asks in words of 2026-07-28.
const discoverMessage = `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"

// stdioResult is what a run of caddy mcp came to.
type stdioResult struct {
	stdout, stderr string
	exit           int
	home           string // of Caddy
}

// runStdio runs caddy mcp with that on its standard input.
func runStdio(t *testing.T, input string, args ...string) stdioResult {
	t.Helper()
	cmd := stdioCommand(t, append([]string{"mcp"}, args...))
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(startTimeout, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	home := ""
	for _, variable := range cmd.Env {
		if value, ok := strings.CutPrefix(variable, "XDG_DATA_HOME="); ok {
			home = value
		}
	}
	return stdioResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), home}
}

func demoDocument(t *testing.T) string {
	t.Helper()
	document, err := filepath.Abs("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// writeSites writes stdioSites before an API.
func writeSites(t *testing.T, api string) (config, log string) {
	t.Helper()
	hash, err := exec.Command(caddy, "hash-password", "--plaintext", "hiccup", "--bcrypt-cost", "4").Output()
	if err != nil {
		if hash, err = exec.Command(caddy, "hash-password", "--plaintext", "hiccup").Output(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	config, log = filepath.Join(dir, "Caddyfile"), filepath.Join(dir, "access.log")
	writeFile(t, config, strings.NewReplacer("LOG", log, "PASSWORD", strings.TrimSpace(string(hash)), "DOCUMENT", demoDocument(t), "API", api).Replace(stdioSites))
	return config, log
}

// TestStdioSites chooses endpoints of a configuration, and goes through what
// comes before them. Nothing but messages comes to stdout, and nothing is written.
func TestStdioSites(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		user, _, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"host":%q,"proto":%q,"user":%q}`, r.Host, r.Header.Get("X-Forwarded-Proto"), user)
	}))
	t.Cleanup(api.Close)
	config, log := writeSites(t, api.URL)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ir-1512"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	t.Setenv("FAIRWAY_TEST_LOGIN", "YWRhOmhpY2N1cA==")
	for name, c := range map[string]struct {
		args   []string
		exit   int
		stdout []string // words of the answer; none if there is none
		stderr []string
	}{
		"several": {nil, 1, nil, []string{"several", "--site", "api.example.com|*.api.example.com/mcp", "localhost/prefix/mcp"}},
		"unknown": {[]string{"--site", "example.org"}, 1, nil, []string{"--site", "api.example.com"}},
		"refused": {[]string{"--site", "api.example.com"}, 1, nil, []string{"https://api.example.com/mcp", "401", "Basic", "--header"}},
		"let in": {
			[]string{"--site", "api.example.com", "--header", "Authorization: Basic {env.FAIRWAY_TEST_LOGIN}"},
			0,
			[]string{`host\":\"api.example.com`, `proto\":\"https`, `user\":\"ada`},
			nil,
		},
		"wild": {
			[]string{"--site", "eu.api.example.com", "--header", "Authorization: Basic {env.FAIRWAY_TEST_LOGIN}"},
			0,
			[]string{`host\":\"eu.api.example.com`},
			nil,
		},
		"unknown placeholder": {[]string{"--site", "api.example.com", "--header", "Authorization: {env.FAIRWAY_TEST_NOWHERE}"}, 1, nil, []string{"--header Authorization"}},
		"no header":           {[]string{"--site", "api.example.com", "--header", "Authorization"}, 1, nil, []string{"--header", "Name:"}},
		"prefix not given":    {[]string{"--site", "localhost"}, 0, []string{`host\":\"localhost`}, nil},
		"prefix":              {[]string{"--site", "localhost", "--path", "/prefix/mcp"}, 0, []string{`host\":\"localhost`}, nil},
		"path alone":          {[]string{"--path", "/elsewhere"}, 1, nil, []string{"--path"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := runStdio(t, call, append([]string{"--config", config}, c.args...)...)
			if result.exit != c.exit {
				t.Errorf("exit code %d, want %d", result.exit, c.exit)
			}
			checkWords(t, "stderr", result.stderr, c.stderr)
			if c.stdout == nil {
				if result.stdout != "" {
					t.Errorf("stdout: %s", result.stdout)
				}
			} else {
				var message json.RawMessage
				if err := json.Unmarshal([]byte(result.stdout), &message); err != nil {
					t.Errorf("stdout is not one message: %v: %s", err, result.stdout)
				}
				checkWords(t, "stdout", result.stdout, c.stdout)
			}
			if _, err := os.Stat(filepath.Join(result.home, "caddy")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was stored: %v", err)
			}
		})
	}
	if _, err := os.Stat(log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log of the site was opened: %v", err)
	}
}

func checkWords(t *testing.T, where, text string, words []string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %s: %s", word, where, text)
		}
	}
}

// TestStdioMistakes wants errors that say what is wrong with the command line.
func TestStdioMistakes(t *testing.T) {
	document := demoDocument(t)
	dir := t.TempDir()
	none, broken := filepath.Join(dir, "none.json"), filepath.Join(dir, "broken.json")
	writeFile(t, none, `{"apps":{"http":{"servers":{"a":{"listen":[":80"]}}}}}`)
	writeFile(t, broken, `{"apps":{"http":{"servers":{"a":{"routes":[{"handle":[{"handler":"ghost"}]}]}}}}}`)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, "--config --openapi"},
		"both":                 {[]string{"--config", none, "--openapi", document}, "both"},
		"upstream alone":       {[]string{"--upstream", "http://a"}, "--openapi"},
		"no upstream":          {[]string{"--openapi", document}, "--upstream"},
		"upstream not a URL":   {[]string{"--openapi", document, "--upstream", "api.example.com"}, "https://api.example.com"},
		"upstream with a user": {[]string{"--openapi", document, "--upstream", "http://ada:secret@a"}, "--header"},
		"no document":          {[]string{"--openapi", filepath.Join(dir, "nowhere.yaml"), "--upstream", "http://a"}, "nowhere.yaml"},
		"document unreachable": {[]string{"--openapi", "http://127.0.0.1:1/openapi.json", "--upstream", "http://a"}, "loaded"},
		"no configuration":     {[]string{"--config", filepath.Join(dir, "nowhere")}, "nowhere"},
		"no endpoint":          {[]string{"--config", none}, "no endpoint"},
		"broken":               {[]string{"--config", broken}, "unknown module: http.handlers.ghost"},
		"stdin as config":      {[]string{"--config", "-"}, "standard input"},
		"selector":             {[]string{"--openapi", document, "--upstream", "http://a", "--include", "bookings"}, "tag=bookings"},
		"list":                 {[]string{"--openapi", document, "--upstream", "http://a", "--tools", "some"}, "--tools some all search"},
		"argument":             {[]string{"trains.yaml"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			result := runStdio(t, discoverMessage, c.args...)
			if result.exit != 1 || result.stdout != "" || !testkit.ContainsAll(result.stderr, c.want) {
				t.Errorf("exit code %d, want 1 and %q: %s\nstdout: %s", result.exit, c.want, result.stderr, result.stdout)
			}
			if strings.Contains(result.stderr, "ada:secret") {
				t.Error("the password is shown")
			}
		})
	}
}

// TestStdioUpstream calls an API below a path, with a header and fewer tools.
func TestStdioUpstream(t *testing.T) {
	seen := make(chan *http.Request, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"to":"Geneva"}`)
	}))
	t.Cleanup(api.Close)
	ctx := sessionContext(t)
	cmd := stdioCommand(t, []string{"mcp", "--openapi", demoDocument(t), "--upstream", api.URL + "/v2/", "--header", "X-Key: k", "--include", "operation=get_trip"})
	log := &output{}
	cmd.Stderr = log
	session := connect(ctx, t, &mcp.CommandTransport{Command: cmd}, "2025-11-25", nil)
	list, err := session.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 2 || list.Tools[1].Name != "next_page" {
		t.Fatalf("tools %+v: %v\n%s", list, err, log)
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_trip", Arguments: map[string]any{"trip_id": "ir-1512"}}); err != nil {
		t.Fatal(err)
	}
	r := <-seen
	if r.URL.Path != "/v2/trips/ir-1512" || r.Header.Get("X-Key") != "k" || r.Host != strings.TrimPrefix(api.URL, "http://") {
		t.Errorf("the API got a request of %s on %s with %v", r.URL, r.Host, r.Header)
	}
}

// TestStdio_remote_document takes the document from the API itself, by its URL and
// by its path on the site, and waits for it.
func TestStdio_remote_document(t *testing.T) {
	document, err := os.ReadFile(demoDocument(t))
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			_, _ = w.Write(document)
		}
	}))
	t.Cleanup(api.Close)
	config := filepath.Join(t.TempDir(), "Caddyfile")
	writeFile(t, config, "http://a.test {\n\tmcp /mcp /openapi.yaml\n\treverse_proxy "+api.URL+"\n}\n")
	for name, args := range map[string][]string{
		"URL":  {"--openapi", api.URL + "/openapi.yaml", "--upstream", api.URL},
		"site": {"--config", config},
	} {
		t.Run(name, func(t *testing.T) {
			result := runStdio(t, strings.Replace(discoverMessage, "server/discover", "tools/list", 1), args...)
			if result.exit != 0 || !strings.Contains(result.stdout, `"get_trip"`) {
				t.Errorf("exit code %d: %s\n%s", result.exit, result.stdout, result.stderr)
			}
		})
	}
}

// TestStdioSignals ends the program while a call is under way: the call is
// answered, and the program ends in good order.
func TestStdioSignals(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			called, answer := make(chan struct{}), make(chan struct{})
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(called)
				<-answer
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"to":"Geneva"}`)
			}))
			t.Cleanup(api.Close)
			cmd := stdioCommand(t, []string{"mcp", "--openapi", demoDocument(t), "--upstream", api.URL})
			log := &output{}
			cmd.Stderr = log
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(startTimeout, func() { cmd.Process.Kill() })
			defer timer.Stop()
			fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"fairway-test","version":"1"}}}`)
			lines := bufio.NewScanner(stdout)
			if !lines.Scan() || !strings.Contains(lines.Text(), `"protocolVersion":"2024-11-05"`) {
				t.Fatalf("initialize: %s\n%s", lines.Text(), log)
			}
			fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ir-1512"}}}`)
			<-called
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			close(answer)
			if !lines.Scan() || !strings.Contains(lines.Text(), "Geneva") {
				t.Errorf("the call under way is answered with %q", lines.Text())
			}
			if lines.Scan() {
				t.Errorf("more came: %s", lines.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("caddy: %v\n%s", err, log)
			}
		})
	}
}

// TestStdio_call_cut_at_the_end ends standard input while a call hangs: the call is
// answered as canceled, not with a status that the API never gave.
func TestStdio_call_cut_at_the_end(t *testing.T) {
	t.Parallel() // it mostly waits
	hang := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(hang) })
	got := runStdio(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ir-1512"}}}`+"\n",
		"--openapi", demoDocument(t), "--upstream", api.URL)
	if got.exit != 0 || strings.Contains(got.stdout, "499") {
		t.Errorf("exit %d, want 0; answered with %s, want no status 499\n%s", got.exit, got.stdout, got.stderr)
	}
	if !strings.Contains(got.stdout, "canceled") || !strings.Contains(got.stdout, `"isError":true`) {
		t.Errorf("answered with %s, want an error that says canceled", got.stdout)
	}
}

// TestServerJSON prints what the MCP registry takes.
func TestServerJSON(t *testing.T) {
	config, _ := writeSites(t, "127.0.0.1:1")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"site":     {[]string{"--config", config, "--site", "api.example.com"}, "com.example.api/demo.openapi https://api.example.com/mcp"},
		"prefix":   {[]string{"--config", config, "--site", "localhost", "--path", "/prefix/mcp", "--url", "https://a.test/x"}, "test.a/demo.openapi https://a.test/x"},
		"document": {[]string{"--openapi", demoDocument(t), "--url", "https://a.test/mcp", "--name", "com.example/trips"}, "com.example/trips https://a.test/mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			result := runStdio(t, "", append([]string{"server-json"}, c.args...)...)
			var server struct {
				Schema  string `json:"$schema"`
				Name    string
				Version string
				Remotes []map[string]any
			}
			if err := json.Unmarshal([]byte(result.stdout), &server); err != nil || result.exit != 0 {
				t.Fatalf("exit code %d, %v: %s\n%s", result.exit, err, result.stdout, result.stderr)
			}
			if len(server.Remotes) != 1 || len(server.Remotes[0]) != 2 || server.Remotes[0]["type"] != "streamable-http" {
				t.Fatalf("remotes %v", server.Remotes)
			}
			if got := fmt.Sprint(server.Name, " ", server.Remotes[0]["url"]); got != c.want || server.Version != "1.0.0" || !strings.Contains(server.Schema, "/schemas/2025-12-11/") {
				t.Errorf("got %s, want %s: %s", got, c.want, result.stdout)
			}
		})
	}
	t.Run("no URL", func(t *testing.T) {
		if result := runStdio(t, "", "server-json", "--openapi", demoDocument(t)); result.exit != 1 || !strings.Contains(result.stderr, "--url") {
			t.Errorf("exit code %d: %s", result.exit, result.stderr)
		}
	})
}

// TestStdioTools chooses what the server lists.
func TestStdioTools(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	for choice, searches := range map[string]bool{"all": false, "search": true} {
		result := runStdio(t, list, "--openapi", demoDocument(t), "--upstream", "http://127.0.0.1:1", "--tools", choice)
		if result.exit != 0 || strings.Contains(result.stdout, `"search_tools"`) != searches || strings.Contains(result.stdout, `"get_trip"`) == searches {
			t.Errorf("--tools %s: exit code %d, %s", choice, result.exit, result.stdout)
		}
	}
}
