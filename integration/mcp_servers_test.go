package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// onLoopback makes the servers of npm listen on the loopback interface only.
const onLoopback = `data:text/javascript,import net from "node:net"; const listen = net.Server.prototype.listen;` +
	`net.Server.prototype.listen = function (port, ...rest) { return listen.call(this, port, "127.0.0.1", ...rest); };`

// npmServer returns the program of a reference server.
func npmServer(t *testing.T, name string) string {
	t.Helper()
	program := absolute(t, filepath.Join(nodeClients, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js"))
	if _, err := os.Stat(program); err != nil {
		testkit.Missing(t, "the npm servers are not installed: run npm ci --ignore-scripts in testdata/npm")
	}
	return program
}

// startEverything runs server-everything over HTTP until the test ends, and returns its address.
func startEverything(t *testing.T, transport string) string {
	t.Helper()
	address := freeAddress(t)
	cmd := exec.Command(nodeProgram(t), "--import", onLoopback, npmServer(t, "everything"), transport)
	cmd.Env = append(os.Environ(), "PORT="+port(address))
	return runServer(t, address, cmd)
}

// runServer runs a program until the test ends, and returns its URL when it answers at the address.
func runServer(t *testing.T, address string, cmd *exec.Cmd) string {
	t.Helper()
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // it is killed, which is an error
		if t.Failed() {
			t.Logf("the log of %q:\n%s", cmd.Args, log)
		}
	})
	waitFor(t, startTimeout, "the server to answer", func() bool {
		response, err := http.Get("http://" + address + "/")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// waitForTools waits until the endpoint has the tools of all its toolsets, and returns their names.
func (g *gateway) waitForTools(t *testing.T, path string, want ...string) {
	t.Helper()
	var body string
	waitFor(t, startTimeout, "the tools of "+path, func() bool {
		a := g.send(t, http.MethodPost, path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), map[string]string{"MCP-Protocol-Version": "2025-06-18"})
		body = string(a.body)
		return a.status == http.StatusOK && !slices.ContainsFunc(want, func(name string) bool { return !strings.Contains(body, `"name":"`+name+`"`) })
	})
}

// TestMCPServers_of_npm lists and calls the reference servers behind one gateway: as processes, over Streamable HTTP
// and over HTTP+SSE.
//
//nolint:tparallel // the subtests share one gateway
func TestMCPServers_of_npm(t *testing.T) {
	t.Parallel() // it mostly waits
	program, dir, site := nodeProgram(t), t.TempDir(), freeAddress(t)
	writeFile(t, filepath.Join(dir, "notes.txt"), "first line\nsecond line\n")
	writeFile(t, filepath.Join(dir, "dot.png"), "\x89PNG\r\n\x1a\n")
	command := func(name string, arguments ...string) string {
		return fmt.Sprintf("mcp_server command %q %q %s", program, npmServer(t, name), strings.Join(arguments, " "))
	}
	g := startGateway(t, dir, site, fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	agents {
		toolset everything {
			%s
		}
		toolset streamable {
			mcp_server %s/mcp
		}
		toolset sse {
			mcp_server %s/sse
		}
		toolset files {
			%s
			exclude operation move_file
		}
		toolset memory {
			%s {
				env MEMORY_FILE_PATH=%s
			}
		}
	}
}
http://%s {
	mcp /everything everything
	mcp /streamable streamable
	mcp /sse sse
	mcp /all everything files memory
	otc /otc everything files memory
	mcp_servers
}
`, command("everything"), startEverything(t, "streamableHttp"), startEverything(t, "sse"),
		command("filesystem", dir), command("memory"), filepath.Join(dir, "memory.jsonl"), site))

	for _, transport := range []string{"everything", "streamable", "sse"} {
		g.waitForTools(t, "/"+transport, "trigger_url_elicitation", "echo")
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(transport+" "+revision, func(t *testing.T) {
				l := &listener{}
				ctx := sessionContext(t)
				session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/" + transport}, revision, l.options())
				checkEverythingCalls(ctx, t, session, l)
				checkEverythingLibrary(ctx, t, session)
			})
		}
	}
	g.waitForTools(t, "/all", "echo", "read_text_file", "create_entities")
	t.Run("several servers", func(t *testing.T) { checkSeveralServers(t, g, dir) })
	t.Run("OTC", func(t *testing.T) { checkServersOverOTC(t, g, dir) })
}

func checkEverythingCalls(ctx context.Context, t *testing.T, session *mcp.ClientSession, l *listener) {
	t.Helper()
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		failed    bool
		want      []string // in the result
		notes     []string // that the client must have taken
	}{
		{"echo", map[string]any{"message": "hello"}, false, []string{`"text":"Echo: hello"`}, nil},
		{"get-sum", map[string]any{"a": 2, "b": 40}, false, []string{"42"}, nil}, // the server's own name
		{"get_sum", map[string]any{"a": "two", "b": 40}, true, []string{"number"}, nil},
		{"get_tiny_image", nil, false, []string{`"type":"image"`, `"mimeType":"image/png"`}, nil},
		{"get_annotated_message", map[string]any{"messageType": "error", "includeImage": true}, false, []string{`"priority":1`, `"type":"image"`}, nil},
		{"get_structured_content", map[string]any{"location": "Chicago"}, false, []string{`"structuredContent":{`, `"temperature":36`, `"type":"text"`}, nil},
		{"get_resource_links", map[string]any{"count": 2}, false, []string{`"type":"resource_link"`, "demo://resource/dynamic/text/2"}, nil},
		{"get_resource_reference", map[string]any{"resourceType": "Text", "resourceId": 7}, false, []string{`"type":"resource"`, "demo://resource/dynamic/text/7"}, nil},
		{"trigger_long_running_operation", map[string]any{"duration": 0.2, "steps": 2}, false, []string{"Steps: 2"}, []string{"progress "}},
		{"trigger_elicitation_request", nil, false, []string{"Name: Ada"}, []string{"elicitation Please provide inputs for the following fields:"}},
		{"trigger_sampling_request", map[string]any{"prompt": "capital", "maxTokens": 10}, false, []string{"Paris"}, []string{"sampling"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			params := &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments}
			params.SetProgressToken("token of " + c.tool)
			result, err := session.CallTool(ctx, params)
			text := asText(t, result, err)
			if !testkit.ContainsAll(text, strings.Join(c.want, " ")) || result.IsError != c.failed {
				t.Errorf("%.2000s: isError %t, want %t with %q in it", text, result.IsError, c.failed, c.want)
			}
			l.waitForNotes(t, c.notes...)
		})
	}
}

func checkEverythingLibrary(ctx context.Context, t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	const document = "demo://resource/static/document/features.md"
	list, err := session.ListResources(ctx, nil)
	if text := asText(t, list, err); !strings.Contains(text, document) {
		t.Errorf("resources/list: %s", text)
	}
	templates, err := session.ListResourceTemplates(ctx, nil)
	if text := asText(t, templates, err); !strings.Contains(text, "demo://resource/dynamic/blob/{resourceId}") {
		t.Errorf("resources/templates/list: %s", text)
	}
	for uri, want := range map[string]string{
		document:                         "# Everything Server",
		"demo://resource/dynamic/text/3": "Resource 3",
		"demo://resource/dynamic/blob/4": `"blob":"`,
	} {
		result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if text := asText(t, result, err); !strings.Contains(text, want) || !strings.Contains(text, uri) {
			t.Errorf("%s: %.500s, want %q in it", uri, text, want)
		}
	}
	if result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "demo://resource/dynamic/text/none"}); err == nil {
		t.Errorf("a resource that does not exist: %s", asText(t, result, nil))
	}
	prompts, err := session.ListPrompts(ctx, nil)
	if text := asText(t, prompts, err); !testkit.ContainsAll(text, "simple-prompt args-prompt completable-prompt resource-prompt") {
		t.Errorf("prompts/list: %s", text)
	}
	prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": "Bern"}})
	if text := asText(t, prompt, err); !strings.Contains(text, "weather in Bern?") {
		t.Errorf("args-prompt: %s", text)
	}
	prompt, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "resource-prompt", Arguments: map[string]string{"resourceType": "Text", "resourceId": "5"}})
	if text := asText(t, prompt, err); !testkit.ContainsAll(text, `"type":"resource" text/5`) {
		t.Errorf("resource-prompt: %s", text)
	}
	for _, c := range []struct {
		params mcp.CompleteParams
		want   string
	}{
		{mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"},
			Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"},
			Context:  &mcp.CompleteContext{Arguments: map[string]string{"department": "Engineering"}},
		}, `["Alice"]`},
		{mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "demo://resource/dynamic/text/{resourceId}"},
			Argument: mcp.CompleteParamsArgument{Name: "resourceId", Value: "12"},
		}, `["12"]`},
	} {
		completion, err := session.Complete(ctx, &c.params)
		if text := asText(t, completion, err); !strings.Contains(text, c.want) {
			t.Errorf("completion/complete of %s: %s, want %s", c.params.Argument.Name, text, c.want)
		}
	}
}

// checkSeveralServers calls tools of three servers at one endpoint.
func checkSeveralServers(t *testing.T, g *gateway, dir string) {
	ctx := sessionContext(t)
	session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/all"}, "2025-11-25", nil)
	notes := filepath.Join(dir, "notes.txt")
	checkTools(ctx, t, session, []toolCall{
		{"echo", map[string]any{"message": "hello"}, false, "hello"},
		{"read_text_file", map[string]any{"path": notes, "head": 1}, false, "first line"},
		{"read_media_file", map[string]any{"path": filepath.Join(dir, "dot.png")}, false, "image/png"},
		{"write_file", map[string]any{"path": filepath.Join(dir, "new.txt"), "content": "written"}, false, "new.txt"},
		{"list_directory", map[string]any{"path": dir}, false, "new.txt"},
		{"read_text_file", map[string]any{"path": "/etc/hostname"}, true, "denied"},
		{"read_text_file", map[string]any{}, true, "path"},
		{"create_entities", map[string]any{"entities": []any{map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"likes trains"}}}}, false, "Ada"},
		{"search_nodes", map[string]any{"query": "trains"}, false, "likes trains"},
	})
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "move_file", Arguments: map[string]any{"source": notes, "destination": notes + ".old"}}); err == nil {
		t.Error("an excluded tool was called")
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}

// checkServersOverOTC calls the same servers by OTC, whose callers get values in place of content.
func checkServersOverOTC(t *testing.T, g *gateway, dir string) {
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  string
	}{
		{"everything.get_structured_content", map[string]any{"location": "Chicago"}, `"value":{"temperature":36`},
		{"everything.get_sum", map[string]any{"a": 2, "b": 40}, "is 42"},
		{"files.read_text_file", map[string]any{"path": filepath.Join(dir, "notes.txt")}, `"content":"first line\nsecond line\n"`},
		{"memory.read_graph", map[string]any{}, `"value":{"entities":[`},
		{"everything.trigger_elicitation_request", map[string]any{}, "elicitation"},
	} {
		input, err := json.Marshal(map[string]any{"request": map[string]any{"tool_id": c.tool, "input": c.input}})
		if err != nil {
			t.Fatal(err)
		}
		a := g.send(t, http.MethodPost, "/otc/tools/call", "application/json", strings.NewReader(string(input)), nil)
		if !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: %d %.1000s, want %q in it", c.tool, a.status, a.body, c.want)
		}
	}
}

// TestMCPServers_with_Fairway_behind_Fairway gives clients of the outer gateway what those of the inner one get.
//
//nolint:tparallel // the subtests share one gateway
func TestMCPServers_with_Fairway_behind_Fairway(t *testing.T) {
	t.Parallel()
	inner, site := startExample(t), freeAddress(t)
	outer := startGateway(t, t.TempDir(), site, fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	agents {
		toolset railway {
			mcp_server %s/mcp
			exclude operation next_page
		}
	}
}
http://%s {
	mcp railway
	mcp_servers
}
`, inner.url, site))
	outer.waitForTools(t, "/mcp", "get_trip")
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			ctx := sessionContext(t)
			through := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: outer.url + "/mcp"}, revision, nil)
			checkSession(ctx, t, through)
			direct := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: inner.url + "/mcp"}, revision, nil)
			want, err := direct.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := through.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, tool := range want.Tools {
				if direct, outer := asText(t, tool, nil), asText(t, got.Tools[i], nil); direct != outer {
					t.Errorf("the inner gateway lists\n%s\nand the outer one\n%s", direct, outer)
				}
			}
		})
	}
}
