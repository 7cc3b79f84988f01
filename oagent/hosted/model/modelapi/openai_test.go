package modelapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// TestOpenAI_other_servers reads what compatible servers send that differs from OpenAI.
func TestOpenAI_other_servers(t *testing.T) {
	events := func(lines ...string) modelserver.Step {
		return modelserver.Step{
			Body:   "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n",
			Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		}
	}
	for _, test := range []struct {
		name  string
		step  modelserver.Step
		text  string
		stop  model.Stop
		calls string // names and arguments
	}{
		{
			"content-parts",
			modelserver.Step{Body: `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}`},
			"ab", model.StopEnd, "",
		},
		{
			"refusal",
			modelserver.Step{Body: `{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}`},
			"No.", model.StopRefused, "",
		},
		{
			"arguments-object",
			modelserver.Step{Body: `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g"}}]},"finish_reason":"stop"}]}`},
			"", model.StopTools, `f{"a":1} g{}`,
		},
		{"same-index", events(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
		), "", model.StopTools, `f{} g{"b":2}`},
		{"second-choice", events(
			`{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"mine"}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`,
		), "mine", model.StopEnd, ""},
		{"null-error", events(`{"error":null,"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`), "x", model.StopEnd, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := startOpenAI(t, test.step)
			response, err := m.Generate(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "?"}}}, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, call := range response.Calls {
				calls = append(calls, call.Name+call.Arguments)
			}
			if response.Text != test.text || response.Stop != test.stop || strings.Join(calls, " ") != test.calls {
				t.Errorf("got %+v, want %q, %q and the calls %q", response, test.text, test.stop, test.calls)
			}
		})
	}
}

// TestOpenAI_limit checks how the limit of tokens is sent.
func TestOpenAI_limit(t *testing.T) {
	for baseURL, want := range map[string]string{
		"": "max_completion_tokens", "https://eu.api.openai.com/v1": "max_completion_tokens",
		"http://127.0.0.1:8000/v1": "max_tokens", "https://openai.example.com": "max_tokens",
	} {
		m, err := NewOpenAI(model.APIOptions{BaseURL: baseURL, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(openAIBody(&m.Options, &model.Request{}, newNames(nil), false, m.completionTokens.Load()))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), `"`+want+`":4096`) {
			t.Errorf("%q: got %s, want %s", baseURL, body, want)
		}
	}
}

// TestOpenAI_other_limit wants the other member for the limit of the response if the server rejects one, and wants
// the Model to remember it.
func TestOpenAI_other_limit(t *testing.T) {
	rejects := func(member string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(string(body), `"`+member+`"`) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":{"message":"Unsupported parameter: '`+member+`' is not supported with this model."}}`)
				return
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Yes."},"finish_reason":"stop"}]}`)
		})
	}
	request := &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "Well?"}}}
	for _, member := range []string{"max_tokens", "max_completion_tokens"} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			rejects(member).ServeHTTP(w, r)
		}))
		defer server.Close()
		m, err := NewOpenAI(model.APIOptions{BaseURL: server.URL, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		m.completionTokens.Store(member == "max_completion_tokens")
		for range 2 {
			response, err := m.Generate(t.Context(), request, nil)
			if err != nil || response.Text != "Yes." {
				t.Errorf("%s: got %+v, error %v", member, response, err)
			}
		}
		if requests != 3 {
			t.Errorf("%s: %d requests, want 3", member, requests)
		}
	}
	other := httptest.NewServer(rejects("model"))
	defer other.Close()
	m, err := NewOpenAI(model.APIOptions{BaseURL: other.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), request, nil); model.KindOf(err) != model.KindRejected {
		t.Errorf("error %v", err)
	}
}

// FuzzReadResponse reads responses, which come from outside: it must not panic, and
// returns no more calls than allowed.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"a","tool_calls":[{"index":9,"function":{"arguments":"{"}}]}}],"usage":null}`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":"a"}]}}],"error":1}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var a chatReader
		if a.ReadDocument(content) != nil || !a.ended {
			return
		}
		response, err := a.Response()
		if (response == nil) == (err == nil) {
			t.Errorf("got %v and %v", response, err)
		}
		if err == nil && len(response.Calls) > model.MaxCalls {
			t.Errorf("got %d calls", len(response.Calls))
		}
	})
}

func startOpenAI(t *testing.T, step modelserver.Step) *openAI {
	t.Helper()
	server := httptest.NewServer(&modelserver.Server{Respond: modelserver.Sequence(step)})
	t.Cleanup(server.Close)
	m, err := NewOpenAI(model.APIOptions{BaseURL: server.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
