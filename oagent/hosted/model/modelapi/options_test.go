package modelapi_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/model/modelapi"
)

func testOptions(t *testing.T, s subject) {
	zero := 0.0
	server, m := s.api(t, func(o *model.APIOptions) { o.Temperature, o.Effort = &zero, "low" }, modelserver.Step{Text: "ok"})
	if _, err := m.Generate(t.Context(), question(), nil); err != nil {
		t.Fatal(err)
	}
	if r := server.Requests()[0]; r.Temperature == nil || *r.Temperature != 0 || r.Effort != "low" {
		t.Errorf("the server received %s", r.Body)
	}
	server, m = s.api(t, nil, modelserver.Step{Text: "ok"})
	if _, err := m.Generate(t.Context(), question(), nil); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"temperature", "effort", "output_config"} {
		if strings.Contains(string(server.Requests()[0].Body), member) {
			t.Errorf("without options, the server received %s", server.Requests()[0].Body)
		}
	}
}

// testAuthorize adds a header and a query parameter, as Azure needs them. Errors do not have their values.
func testAuthorize(t *testing.T, s subject) {
	const secret = "another-secret-0123456789"
	authorize := func(r *http.Request) error {
		r.Header.Set("Api-Key", secret)
		r.URL.RawQuery = "api-version=2024-10-21&sig=" + secret
		return nil
	}
	server, m := s.api(t, func(o *model.APIOptions) { o.Authorize = authorize }, modelserver.Step{Text: "ok"}, modelserver.Step{Status: 400, Error: "bad key " + secret})
	if _, err := m.Generate(t.Context(), question(), nil); err != nil {
		t.Fatal(err)
	}
	r := server.Requests()[0]
	if r.Header.Get("Api-Key") != secret || r.Query.Get("api-version") != "2024-10-21" || !strings.HasPrefix(r.Path, "/v1/") {
		t.Errorf("the server received %s %v %v", r.Path, r.Query, r.Header)
	}
	_, err := m.Generate(t.Context(), question(), nil)
	if wantKind(t, err, model.KindRejected); err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error has the secret: %v", err)
	}
	server, m = s.api(t, func(o *model.APIOptions) {
		o.Authorize = func(*http.Request) error { return errors.New("no such file") }
	})
	if _, err = m.Generate(t.Context(), question(), nil); len(server.Requests()) != 0 {
		t.Error("a request without credentials was sent")
	}
	wantKind(t, err, model.KindCredentials)
	closed, m := s.api(t, func(o *model.APIOptions) { o.Authorize, o.BaseURL = authorize, "http://127.0.0.1:1" })
	if _, err = m.Generate(t.Context(), question(), nil); err == nil || strings.Contains(err.Error(), secret) || len(closed.Requests()) != 0 {
		t.Errorf("got %v", err)
	}
}

// testCache checks that a request begins as the one before it, so that the API can read that part from its cache.
func testCache(t *testing.T, s subject) {
	server, m := s.api(t, nil, modelserver.Step{Text: "one"}, modelserver.Step{Text: "two"}, modelserver.Step{Text: "three"})
	r := question()
	for _, more := range [][]model.Message{
		{{Role: model.RoleAssistant, Calls: []model.ToolCall{{ID: "c1", Name: "now", Arguments: "{}"}}}, {Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c1", Content: "9:00"}}}},
		{{Role: model.RoleAssistant, Text: "At nine."}, {Role: model.RoleUser, Text: "And back?"}},
		nil,
	} {
		response, err := m.Generate(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if u := response.Usage; u.CachedTokens == 0 || u.CachedTokens > u.InputTokens {
			t.Errorf("usage %+v", u)
		}
		r.Messages = append(r.Messages, more...)
	}
	var before cachedPart
	for i, received := range server.Requests() {
		part := cachedPartOf(t, received)
		if i > 0 && (part.Tools.String() != before.Tools.String() || part.System.String() != before.System.String() ||
			!slices.EqualFunc(part.Messages[:len(before.Messages)], before.Messages, func(a, b jsontext.Value) bool { return a.String() == b.String() })) {
			t.Errorf("request %d does not begin as the one before:\n%s\n%s", i, before, part)
		}
		before = part
		if received.Anthropic {
			last := []string{"user text", "user tool_result", "user text"}[i]
			if want := []string{"system text", last}; !slices.Equal(received.Marks, want) {
				t.Errorf("request %d has marks at %q, want %q", i, received.Marks, want)
			}
		}
	}
}

// cachedPart is what an API compares with earlier requests.
type cachedPart struct {
	Tools    jsontext.Value   `json:"tools"`
	System   jsontext.Value   `json:"system"`
	Messages []jsontext.Value `json:"messages"`
}

func cachedPartOf(t *testing.T, r *modelserver.Request) (part cachedPart) {
	t.Helper()
	body := strings.ReplaceAll(string(r.Body), `,"cache_control":{"type":"ephemeral"}`, "")
	if err := json.Unmarshal([]byte(body), &part); err != nil {
		t.Fatal(err)
	}
	return part
}

// TestAnthropic_reasoning_of_another_model is not sent: its signature is not valid there.
func TestAnthropic_reasoning_of_another_model(t *testing.T) {
	s := subject{create: func(o model.APIOptions) (model.Model, error) { return modelapi.NewAnthropic(o) }}
	for author, want := range map[string]bool{"": true, "model-1": true, "model-2": false} {
		server, m := s.api(t, nil, modelserver.Step{Text: "ok"})
		r := question()
		r.Messages = append(r.Messages, model.Message{
			Role: model.RoleAssistant, Model: author, Calls: []model.ToolCall{{ID: "c1", Name: "now", Arguments: "{}"}},
			Reasoning: []jsontext.Value{jsontext.Value(`{"type":"thinking","thinking":"Hm.","signature":"c2lnbmF0dXJl"}`)},
		}, model.Message{Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c1", Content: "9:00"}}})
		if _, err := m.Generate(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(server.Requests()[0].Body), "Hm."); got != want {
			t.Errorf("reasoning of %q sent: %t", author, got)
		}
	}
}

func TestOpenAI_completion_tokens(t *testing.T) {
	s := subject{create: func(o model.APIOptions) (model.Model, error) { return modelapi.NewOpenAI(o) }}
	for _, completion := range []bool{false, true} {
		server, m := s.api(t, func(o *model.APIOptions) { o.CompletionTokens = completion }, modelserver.Step{Text: "ok"})
		if _, err := m.Generate(t.Context(), question(), nil); err != nil {
			t.Fatal(err)
		}
		if r := server.Requests()[0]; r.Completion != completion || r.MaxTokens != 100 {
			t.Errorf("the server received %s", r.Body)
		}
	}
}

// TestResponses_reasoning checks that the model gets its reasoning back if the options have an effort, and that another model
// does not.
func TestResponses_reasoning(t *testing.T) {
	s := subject{create: func(o model.APIOptions) (model.Model, error) { return modelapi.NewResponses(o) }}
	for name, back := range map[string]int{"model-1": 1, "model-2": 0} {
		server, m := s.api(t, func(o *model.APIOptions) { o.Effort = "low" },
			modelserver.Step{Thinking: "Hm.", Calls: []modelserver.Call{{ID: "c1", Name: "now", Arguments: "{}"}}}, modelserver.Step{Text: "ok"})
		r := question()
		response, err := m.Generate(t.Context(), r, func(string) {})
		if err != nil || len(response.Reasoning) != 1 {
			t.Fatalf("got %+v and %v", response, err)
		}
		message := response.Message()
		message.Model = name
		r.Messages = append(r.Messages, message, model.Message{Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c1", Content: "9:00"}}})
		if _, err := m.Generate(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{0, back} {
			body := string(server.Requests()[i].Body)
			if strings.Count(body, `"type":"reasoning"`) != want || !strings.Contains(body, "reasoning.encrypted_content") {
				t.Errorf("request %d: %s", i, body)
			}
		}
	}
}
