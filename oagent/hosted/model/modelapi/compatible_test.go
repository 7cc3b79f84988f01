package modelapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/model/modelapi"
)

// events returns an event stream of these data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// The chunks below have the members that Ollama (0.9, /v1/chat/completions) and vLLM (0.9) send.
const (
	ollama = `{"id":"chatcmpl-531","object":"chat.completion.chunk","created":1750000000,"model":"qwen3","system_fingerprint":"fp_ollama",`
	vllm   = `{"id":"chatcmpl-5c1d","object":"chat.completion.chunk","created":1750000000,"model":"Qwen/Qwen3-8B",`
)

// TestOpenAI_compatible_servers has the responses of Ollama and vLLM.
func TestOpenAI_compatible_servers(t *testing.T) {
	stream, document := http.Header{"Content-Type": {"text/event-stream"}}, http.Header{"Content-Type": {"application/json"}}
	for _, test := range []struct {
		name string
		step modelserver.Step
		want model.Response
		kind model.Kind
	}{
		{
			name: "ollama/text", step: modelserver.Step{Header: stream, Body: events(
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"The user"},"finish_reason":null}]}`,
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":"In "},"finish_reason":null}]}`,
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":"Bern."},"finish_reason":null}]}`,
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}`,
				ollama+`"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":12,"total_tokens":38}}`, "[DONE]")},
			want: model.Response{Text: "In Bern.", Stop: model.StopEnd, Usage: model.Usage{InputTokens: 26, OutputTokens: 12}},
		},
		{ // whole calls, in one chunk each, and the reason to stop in a chunk of its own
			name: "ollama/calls", step: modelserver.Step{Header: stream, Body: events(
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_q1","index":0,"type":"function","function":{"name":"find_train","arguments":"{\"n\":7}"}}]},"finish_reason":null}]}`,
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_q2","index":0,"type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":null}]}`,
				ollama+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"tool_calls"}]}`, "[DONE]")},
			want: model.Response{Stop: model.StopTools, Calls: []model.ToolCall{{ID: "call_q1", Name: "find_train", Arguments: `{"n":7}`}, {ID: "call_q2", Name: "now", Arguments: "{}"}}},
		},
		{
			name: "ollama/unknown model", step: modelserver.Step{Status: 404, Header: document, Body: `{"error":{"message":"model \"qwen9\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`},
			kind: model.KindRejected,
		},
		{
			name: "ollama/busy", step: modelserver.Step{Status: 503, Header: document, Body: `{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}`},
			kind: model.KindUnavailable,
		},
		{
			name: "vllm/text", step: modelserver.Step{Header: stream, Body: events(
				vllm+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"content":"In Bern."},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`,
				vllm+`"choices":[],"usage":{"prompt_tokens":40,"total_tokens":60,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":32}}}`, "[DONE]")},
			want: model.Response{Text: "In Bern.", Stop: model.StopLength, Usage: model.Usage{InputTokens: 40, OutputTokens: 20, CachedTokens: 32}},
		},
		{
			name: "vllm/calls", step: modelserver.Step{Header: stream, Body: events(
				vllm+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-1","type":"function","index":0,"function":{"name":"find_train"}}]},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\": "}}]},"logprobs":null,"finish_reason":null}]}`,
				vllm+`"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"7}"}}]},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}]}`,
				vllm+`"choices":[],"usage":{"prompt_tokens":40,"total_tokens":50,"completion_tokens":10,"prompt_tokens_details":null}}`, "[DONE]")},
			want: model.Response{Stop: model.StopTools, Calls: []model.ToolCall{{ID: "chatcmpl-tool-1", Name: "find_train", Arguments: `{"n": 7}`}}, Usage: model.Usage{InputTokens: 40, OutputTokens: 10}},
		},
		{
			name: "vllm/too long", step: modelserver.Step{Status: 400, Header: document, Body: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}`},
			kind: model.KindContextTooLong,
		},
		{
			name: "vllm/error in a stream", step: modelserver.Step{Header: stream, Body: events(
				vllm+`"choices":[{"index":0,"delta":{"content":"In "},"logprobs":null,"finish_reason":null}]}`,
				`{"error":{"object":"error","message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}}`, "[DONE]")},
			kind: model.KindUnavailable,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := subject{create: func(o model.APIOptions) (model.Model, error) { return modelapi.NewOpenAI(o) }}
			_, m := s.api(t, nil, test.step)
			response, err := m.Generate(t.Context(), question(), func(string) {})
			if test.kind != "" {
				wantKind(t, err, test.kind)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.want.Model = "model-1"; test.want.Usage.InputTokens == 0 { // estimated
				test.want.Usage = response.Usage
			}
			equal(t, "response", response, test.want)
		})
	}
}
