package modelapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// TestAnthropic_thinking sends reasoning back unchanged until the user's next message.
func TestAnthropic_thinking(t *testing.T) {
	for _, stream := range []bool{false, true} {
		think := modelserver.Step{Thinking: "Hm. <7>?", Calls: []modelserver.Call{{ID: "c1", Name: "now", Arguments: "{}"}}}
		server := &modelserver.Server{Respond: modelserver.Sequence(think, modelserver.Step{Text: "Noon."}, modelserver.Step{Text: "Still."})}
		m := startAnthropic(t, server)
		var onText func(string)
		if stream {
			onText = func(string) {}
		}
		r := &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "What time is it?"}}, Tools: []model.Tool{{Name: "now"}}}
		for _, next := range []model.Message{
			{Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c1", Content: "12:00"}}},
			{Role: model.RoleUser, Text: "And now?"},
			{},
		} {
			response, err := m.Generate(t.Context(), r, onText)
			if err != nil {
				t.Fatal(err)
			}
			r.Messages = append(r.Messages, response.Message(), next)
		}
		requests := server.Requests()
		if body := string(requests[1].Body); !strings.Contains(body, `"signature":"c2lnbmF0dXJl"`) || !strings.Contains(body, `Hm.`) {
			t.Errorf("the reasoning was not sent with the result: %s", body)
		}
		if body := string(requests[2].Body); strings.Contains(body, "signature") {
			t.Errorf("the reasoning was sent after the user's message: %s", body)
		}
	}
}

// TestAnthropic_base_url accepts base URLs as other programs write them.
func TestAnthropic_base_url(t *testing.T) {
	server := &modelserver.Server{Respond: func(*modelserver.Request) modelserver.Step { return modelserver.Step{Text: "ok"} }}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	for _, path := range []string{"", "/", "/v1", "/v1/", "/proxy/claude"} {
		m, err := NewAnthropic(model.APIOptions{BaseURL: listening.URL + path, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Generate(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "?"}}}, nil); err != nil {
			t.Error(err)
			continue
		}
		want := strings.TrimSuffix(strings.TrimSuffix(path, "/"), "/v1") + "/v1/messages"
		if all := server.Requests(); all[len(all)-1].Path != want {
			t.Errorf("%q: the path is %s, want %s", path, all[len(all)-1].Path, want)
		}
	}
}

// TestAnthropic_environment ignores what the clients of other programs read from the environment.
func TestAnthropic_environment(t *testing.T) {
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: 1")
	t.Setenv("ANTHROPIC_API_KEY", "sk-environment")
	server := &modelserver.Server{Respond: modelserver.Sequence(modelserver.Step{Text: "ok"})}
	m := startAnthropic(t, server)
	if _, err := m.Generate(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "?"}}}, nil); err != nil {
		t.Fatal(err)
	}
	header := server.Requests()[0].Header
	for _, name := range []string{"X-Custom", "X-Api-Key", "Authorization", "Traceparent"} {
		if value := header.Get(name); value != "" {
			t.Errorf("the request has %s: %s", name, value)
		}
	}
}

// TestAnthropic_large_limit asks for many tokens without streaming.
func TestAnthropic_large_limit(t *testing.T) {
	server := &modelserver.Server{Respond: modelserver.Sequence(modelserver.Step{Text: "ok"})}
	m := startAnthropic(t, server)
	m.Options.MaxTokens = 100_000
	if _, err := m.Generate(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "?"}}}, nil); err != nil {
		t.Error(err)
	}
}

// TestAnthropic_interleaved reads blocks whose pieces arrive in turns, and pieces of unknown blocks.
func TestAnthropic_interleaved(t *testing.T) {
	const begin = `{"type":"message_start","message":{"usage":{"input_tokens":3}}}`
	const end = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	start0 := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	delta := func(index int, text string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%q}}`, index, text)
	}
	for _, test := range []struct {
		name   string
		events []string
		text   string // "" for an error
	}{
		{"in-turns", []string{begin, start0, delta(0, "a"), strings.Replace(start0, `:0,`, `:1,`, 1), delta(1, "c"), delta(0, "b"), end}, "abc"},
		{"new-kinds", []string{
			begin, `{"type":"new_event","x":1}`, `{"type":"content_block_start","index":0,"content_block":{"type":"new_block"}}`,
			strings.Replace(start0, `:0,`, `:1,`, 1), delta(1, "a"), end,
		}, "a"},
		{"unknown-index", []string{begin, start0, delta(7, "a"), end}, ""},
		{"negative-index", []string{begin, start0, delta(-1, "a"), end}, ""},
		{"index-left-out", []string{begin, strings.Replace(start0, `:0,`, `:5,`, 1), end}, ""},
	} {
		var body strings.Builder
		for _, event := range test.events {
			kind, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
			fmt.Fprintf(&body, "event: %s\ndata: %s\n\n", kind, event)
		}
		m := startAnthropic(t, &modelserver.Server{Respond: modelserver.Sequence(modelserver.Step{
			Body: body.String(), Header: http.Header{"Content-Type": {"text/event-stream"}},
		})})
		response, err := m.Generate(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "?"}}}, func(string) {})
		switch {
		case test.text == "":
			if model.KindOf(err) != model.KindMalformed {
				t.Errorf("%s: got %+v and %v, want malformed", test.name, response, err)
			}
		case err != nil || response.Text != test.text || response.Usage.Total() != 5:
			t.Errorf("%s: got %+v and %v, want %q", test.name, response, err, test.text)
		}
	}
}

// FuzzReadMessage reads responses, which come from outside: it must not panic, and returns no
// more blocks than allowed.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(`{"stop_reason":"tool_use","content":[{"type":"tool_use","id":"a","name":"b","input":{"c":1}},{"type":"thinking","thinking":"t"}]}`))
	f.Add([]byte(`{"stop_reason":"end_turn","content":[{"type":"text","text":"t"},{"type":"redacted_thinking","data":"d"}],"usage":{}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var a anthropicReader
		if a.ReadDocument(content) != nil || a.stop == "" {
			return
		}
		response, err := a.Response()
		if (response == nil) == (err == nil) {
			t.Errorf("got %v and %v", response, err)
		}
		if err == nil && len(response.Calls)+len(response.Reasoning) > maxBlocks {
			t.Errorf("got %d calls", len(response.Calls))
		}
	})
}

func startAnthropic(t *testing.T, server *modelserver.Server) *format {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	m, err := NewAnthropic(model.APIOptions{BaseURL: listening.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
