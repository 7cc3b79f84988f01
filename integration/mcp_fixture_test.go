package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// A listener is a Go client that answers what servers ask of it and writes down
// what they tell it.
type listener struct {
	mu   sync.Mutex
	seen []string
}

func (l *listener) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, what)
}

func (l *listener) notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

//nolint:staticcheck // sampling and logs are deprecated since 2026-07-28, and served
func (l *listener) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			l.note("elicitation " + r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{
				"name": "Ada", "color": "blue", "ok": true, "context": "trains", "username": "ada", "email": "ada@example.com",
			}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			l.note("sampling")
			return &mcp.CreateMessageResult{Role: "assistant", Model: "test-model", Content: &mcp.TextContent{Text: "Paris"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			l.note("progress " + r.Params.Message)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			text, _ := r.Params.Data.(string)
			l.note("log " + text)
		},
		ToolListChangedHandler:   func(context.Context, *mcp.ToolListChangedRequest) { l.note("tools changed") },
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { l.note("prompts changed") },
	}
}

// waitForNotes waits until all of these are written down, in any order.
func (l *listener) waitForNotes(t *testing.T, want ...string) {
	t.Helper()
	waitFor(t, waitTimeout, strings.Join(want, ", "), func() bool {
		seen := l.notes()
		return !slices.ContainsFunc(want, func(note string) bool { return !slices.Contains(seen, note) })
	})
}

// asText is a result as JSON, to look for words in.
func asText(t *testing.T, result any, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// TestGoSDKWhole uses everything that the fixture API has with the official Go
// client: what the API answers in rounds reaches old clients as requests of the
// server and new ones as results that require input, and looks the same to both.
//
//nolint:tparallel // the subtests share one gateway, and some change it
func TestGoSDKWhole(t *testing.T) {
	t.Parallel() // it mostly waits
	g := startFixture(t)
	for _, c := range []struct {
		name, revision string
		transport      mcp.Transport
	}{
		{"2025-06-18", "2025-06-18", &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}},
		{"2025-11-25", "2025-11-25", &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}},
		{"2026-07-28", "2026-07-28", &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}},
		{"SSE 2025-06-18", "2025-06-18", &mcp.SSEClientTransport{Endpoint: g.url + "/mcp/sse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &listener{}
			ctx := sessionContext(t)
			session := connect(ctx, t, c.transport, c.revision, l.options())
			if c.revision < "2026-07-28" {
				//nolint:staticcheck // deprecated, as above
				if err := session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
					t.Errorf("logging/setLevel: %v", err)
				}
			}
			t.Run("calls", func(t *testing.T) { checkCalls(ctx, t, session, l) })
			t.Run("resources", func(t *testing.T) { checkResources(ctx, t, session) })
			t.Run("prompts", func(t *testing.T) { checkPrompts(ctx, t, session, l) })
			t.Run("changes", func(t *testing.T) { checkChanges(ctx, t, session, l) })
		})
	}
}

func checkCalls(ctx context.Context, t *testing.T, session *mcp.ClientSession, l *listener) {
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string   // in the result
		notes     []string // that the client must have taken
	}{
		{"test_multiple_content_types", nil, "test://mixed-content-resource", nil},
		{"test_sampling", map[string]any{"prompt": "capital"}, "LLM response: Paris", []string{"sampling"}},
		{"test_elicitation", map[string]any{"message": "Who?"}, "ada@example.com", []string{"elicitation Who?"}},
		{"test_input_required_result_elicitation", nil, "Hello, Ada!", []string{"elicitation What is your name?"}},
		{"test_input_required_result_request_state", nil, "state-ok", []string{"elicitation Please confirm"}},
		{"test_input_required_result_multi_round", nil, "Ada likes blue.", []string{"elicitation Step 1: What is your name?", "elicitation Step 2: What is your favorite color?"}},
		{"test_input_required_result_multiple_inputs", nil, "Ada: Paris", nil},
		{"test_tool_with_progress", nil, "executed", []string{"progress 0 of 100", "progress 50 of 100", "progress 100 of 100"}},
		{"test_tool_with_logging", nil, "executed", []string{"log Tool execution started", "log Tool processing data", "log Tool execution completed"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			//nolint:staticcheck // deprecated, as above
			params := &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments, Meta: mcp.Meta{mcp.MetaKeyLogLevel: "info"}}
			params.SetProgressToken("token of " + c.tool)
			result, err := session.CallTool(ctx, params)
			if text := asText(t, result, err); !testkit.ContainsAll(text, c.want) {
				t.Errorf("%s: %q is not in it", text, c.want)
			}
			l.waitForNotes(t, c.notes...)
		})
	}
}

func checkResources(ctx context.Context, t *testing.T, session *mcp.ClientSession) {
	list, err := session.ListResources(ctx, nil)
	if text := asText(t, list, err); !strings.Contains(text, "test://static-text") || strings.Contains(text, "{id}") {
		t.Errorf("resources/list: %s", text)
	}
	templates, err := session.ListResourceTemplates(ctx, nil)
	if text := asText(t, templates, err); !strings.Contains(text, "test://template/{id}/data") {
		t.Errorf("resources/templates/list: %s", text)
	}
	for uri, want := range map[string]string{
		"test://static-text":         "content of the static text resource",
		"test://static-binary":       "image/png",
		"test://template/a%20b/data": "Data for ID: a b",
	} {
		result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if text := asText(t, result, err); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q in it", uri, text, want)
		}
	}
	if _, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://nowhere"}); err == nil {
		t.Error("test://nowhere can be read")
	}
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: "test://watched-resource"}); err != nil {
		t.Errorf("resources/subscribe: %v", err)
	}
	if err := session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "test://watched-resource"}); err != nil {
		t.Errorf("resources/unsubscribe: %v", err)
	}
}

func checkPrompts(ctx context.Context, t *testing.T, session *mcp.ClientSession, l *listener) {
	list, err := session.ListPrompts(ctx, nil)
	if text := asText(t, list, err); !strings.Contains(text, "test_prompt_with_image") || !strings.Contains(text, "test_input_required_result_prompt") {
		t.Errorf("prompts/list: %s", text)
	}
	result, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "one'{{arg2}}", "arg2": "two"}})
	if text := asText(t, result, err); !strings.Contains(text, "arg1='one'{{arg2}}', arg2='two'") {
		t.Errorf("test_prompt_with_arguments: %s", text)
	}
	if _, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_prompt_with_arguments"}); err == nil || !strings.Contains(err.Error(), "arg1") {
		t.Errorf("test_prompt_with_arguments without arguments: error %v, want one that names arg1", err)
	}
	result, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_input_required_result_prompt"})
	if text := asText(t, result, err); !strings.Contains(text, "Use this context: trains") {
		t.Errorf("test_input_required_result_prompt: %s", text)
	}
	l.waitForNotes(t, "elicitation What context should the prompt use?")

	completion, err := session.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "par"},
	})
	if text := asText(t, completion, err); !strings.Contains(text, `["paris","park","party"]`) {
		t.Errorf("completion/complete: %s", text)
	}
}

// checkChanges has the API change its document and its prompts while the client
// listens.
func checkChanges(ctx context.Context, t *testing.T, session *mcp.ClientSession, l *listener) {
	for _, c := range []struct{ tool, note string }{
		{"test_trigger_tool_change", "tools changed"},
		{"test_trigger_prompt_change", "prompts changed"},
	} {
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.tool}); err != nil {
			t.Fatal(err)
		}
		l.waitForNotes(t, c.note)
	}
	tools, err := session.ListTools(ctx, nil)
	if text := asText(t, tools, err); !strings.Contains(text, "dynamic_tool_") {
		t.Errorf("tools/list after a change: %s", text)
	}
	prompts, err := session.ListPrompts(ctx, nil)
	if text := asText(t, prompts, err); !strings.Contains(text, "dynamic_prompt_") {
		t.Errorf("prompts/list after a change: %s", text)
	}
}
