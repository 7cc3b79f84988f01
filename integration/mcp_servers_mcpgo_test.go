package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// mcpgoExamples are programs of mcp-go, each in a folder.
const mcpgoExamples = "github.com/mark3labs/mcp-go/examples/"

// TestMCPServers_of_mcp_go calls servers made with github.com/mark3labs/mcp-go: its examples as processes, and one over
// Streamable HTTP and HTTP+SSE.
//
//nolint:tparallel // the subtests share one gateway
func TestMCPServers_of_mcp_go(t *testing.T) {
	t.Parallel() // it mostly waits
	programs, site, streamable, sse := t.TempDir(), freeAddress(t), freeAddress(t), freeAddress(t)
	program := func(name string) string { return filepath.Join(programs, name) }
	for name, source := range map[string]string{
		"mcpgo":                       ".",
		"everything":                  mcpgoExamples + "everything",
		"elicitation":                 mcpgoExamples + "elicitation",
		"structured_input_and_output": mcpgoExamples + "structured_input_and_output",
	} {
		if err := buildProgram("../testdata/mcpgo", source, program(name)); err != nil {
			testkit.Missing(t, "testdata/mcpgo cannot be built: %v", err)
		}
	}
	g := startGateway(t, t.TempDir(), site, fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	agents {
		toolset everything {
			mcp_server command %q
		}
		toolset elicitation {
			mcp_server command %q
		}
		toolset structured {
			mcp_server command %q
		}
		toolset streamable {
			mcp_server %s/mcp
		}
		toolset sse {
			mcp_server %s/sse
		}
	}
}
http://%s {
	mcp /examples everything elicitation structured
	mcp /streamable streamable
	mcp /sse sse
	mcp_servers
}
`, program("everything"), program("elicitation"), program("structured_input_and_output"),
		runServer(t, streamable, exec.Command(program("mcpgo"), "streamable", streamable)),
		runServer(t, sse, exec.Command(program("mcpgo"), "sse", sse)), site))

	g.waitForTools(t, "/examples", "add", "create_project", "get_weather")
	g.waitForTools(t, "/streamable", "ask")
	g.waitForTools(t, "/sse", "ask")
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run("examples "+revision, func(t *testing.T) {
			l, ctx := &listener{}, sessionContext(t)
			session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/examples"}, revision, l.options())
			checkTools(ctx, t, session, []toolCall{
				{"echo", map[string]any{"message": "hello"}, false, "hello"},
				{"add", map[string]any{"a": 2, "b": 40}, false, "42.000000."},
				{"add", map[string]any{"a": "two", "b": 40}, true, "number"},
				{"get_weather", map[string]any{"location": "Bern", "units": "celsius"}, false, "22.5"},
				{"get_assets", map[string]any{"limit": 1}, false, "currency"},
				{"process_data", map[string]any{"data": "short"}, false, "Processed 5 characters"},
			})
			result, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "complex_prompt", Arguments: map[string]string{"temperature": "1", "style": "plain"}})
			if text := asText(t, result, err); !strings.Contains(text, "plain") {
				t.Errorf("complex_prompt: %s", text)
			}
			resource, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://static/resource"})
			if text := asText(t, resource, err); !strings.Contains(text, "sample resource") {
				t.Errorf("test://static/resource: %s", text)
			}
		})
		for _, transport := range []string{"streamable", "sse"} {
			t.Run(transport+" "+revision, func(t *testing.T) {
				l, ctx := &listener{}, sessionContext(t)
				session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/" + transport}, revision, l.options())
				checkTools(ctx, t, session, []toolCall{
					{"add", map[string]any{"a": 2, "b": 40}, false, "42"},
					{"add", map[string]any{"a": "two", "b": 40}, true, "integer"},
				})
				if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "panic"}); err == nil || !strings.Contains(err.Error(), "the tool panics") {
					t.Errorf("panic: %v", err)
				}
				params := &mcp.CallToolParams{Name: "count"}
				params.SetProgressToken("token of the count")
				result, err := session.CallTool(ctx, params)
				if text := asText(t, result, err); !strings.Contains(text, "counted to 3") {
					t.Errorf("count: %s", text)
				}
				if transport == "streamable" { // over HTTP+SSE, mcp-go sends progress after the result, and cannot ask
					checkTools(ctx, t, session, []toolCall{{"ask", nil, false, "accept Ada"}})
					l.waitForNotes(t, "progress ", "elicitation Your name?")
				}
			})
		}
	}
}
