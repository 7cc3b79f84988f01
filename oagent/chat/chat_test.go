package chat_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent/chat"
)

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]chat.Format{
		"/v1/chat/completions":                   chat.Completions,
		"/openai/deployments/x/chat/completions": chat.Completions,
		"/v1/responses":                          chat.Responses,
		"/v1/messages":                           chat.Messages,
		"/v1/messages/batches":                   0,
		"/v1/messages/":                          0,
		"/v1/completions":                        0,
	} {
		if got := chat.FormatOf(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// onlyUser has the messages of the user looked at, and no others.
var onlyUser = chat.ReadOptions{Roles: []string{"user"}}

func TestReadRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		format  chat.Format
		options chat.ReadOptions
		body    string
		want    []string
	}{
		{"completions/text", chat.Completions, onlyUser, `{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"hello"}]}`, []string{"hello"}},
		{
			"completions/parts are joined", chat.Completions,
			chat.ReadOptions{},
			`{"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]}`,
			[]string{"one\ntwo\nonetwo"},
		},
		{
			"completions/every message of the user", chat.Completions,
			onlyUser,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
			[]string{"a", "c"},
		},
		{
			"completions/results of tools are not the user's", chat.Completions,
			onlyUser,
			`{"messages":[{"role":"tool","tool_call_id":"1","content":"x"}]}`, nil,
		},
		{
			"completions/unless they are said to be", chat.Completions,
			chat.ReadOptions{Roles: []string{"tool"}},
			`{"messages":[{"role":"tool","tool_call_id":"1","content":"x"}]}`,
			[]string{"x"},
		},
		{"completions/an unknown role is the user's", chat.Completions, chat.ReadOptions{}, `{"messages":[{"role":"human","content":"x"}]}`, []string{"human\nx"}},
		{
			"completions/the name of the user is sent to the model", chat.Completions,
			chat.ReadOptions{},
			`{"messages":[{"role":"user","name":"evil","content":"x"}]}`,
			[]string{"evil\nx"},
		},
		{
			"completions/a prompt beside the messages", chat.Completions,
			chat.ReadOptions{},
			`{"prompt":"p","messages":[{"role":"user","content":"x"}]}`,
			[]string{"p", "x"},
		},
		{
			"completions/images may pass", chat.Completions,
			chat.ReadOptions{AllowMedia: true},
			`{"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`,
			[]string{"one"},
		},
		{"responses/text", chat.Responses, onlyUser, `{"input":"hello","instructions":"Be kind."}`, []string{"hello"}},
		{
			"responses/items", chat.Responses,
			onlyUser,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","call_id":"1","output":"r"},` +
				`{"type":"function_call","name":"f","arguments":"{}"},{"type":"message","role":"user","content":"b"}]}`,
			[]string{"a", "b"},
		},
		{"responses/an unknown item is the user's", chat.Responses, chat.ReadOptions{}, `{"input":[{"type":"novelty","words":"x"}]}`, []string{"x"}},
		{"responses/variables of a stored prompt", chat.Responses, chat.ReadOptions{}, `{"prompt":{"id":"p","variables":{"who":"x"}}}`, []string{"x"}},
		{"messages/text", chat.Messages, onlyUser, `{"system":"Be kind.","messages":[{"role":"user","content":"hello"}]}`, []string{"hello"}},
		{
			"messages/the system prompt if it is to be", chat.Messages,
			chat.ReadOptions{Roles: []string{"system"}},
			`{"system":[{"type":"text","text":"Be kind."}],"messages":[{"role":"user","content":"hello"}]}`,
			[]string{"Be kind.", "hello"},
		},
		{
			"responses/the instructions if they are to be", chat.Responses,
			chat.ReadOptions{Roles: []string{"system"}},
			`{"instructions":"Be kind.","input":"hello"}`,
			[]string{"Be kind.", "hello"},
		},
		{
			"messages/results of tools are left out", chat.Messages,
			onlyUser,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"a"}]}]}`,
			[]string{"a"},
		},
		{
			"messages/unless they are the user's", chat.Messages,
			chat.ReadOptions{Roles: []string{"tool"}},
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"a"}]}]}`,
			[]string{"r\na\nra"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := test.format.ReadRequest([]byte(test.body), test.options)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(r.Inputs, "|") != strings.Join(test.want, "|") {
				t.Errorf("inputs %q, want %q", r.Inputs, test.want)
			}
		})
	}
}

func TestReadRequest_refuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		format chat.Format
		body   string
		status int
	}{
		{"no JSON", chat.Completions, `{`, http.StatusBadRequest},
		{"no object", chat.Completions, `[]`, http.StatusBadRequest},
		{"a name twice", chat.Completions, `{"messages":[],"messages":[{"role":"user","content":"x"}]}`, http.StatusBadRequest},
		{"no messages", chat.Completions, `{}`, http.StatusBadRequest},
		{"messages that are no list", chat.Completions, `{"messages":{}}`, http.StatusBadRequest},
		{"no role", chat.Messages, `{"messages":[{"content":"x"}]}`, http.StatusBadRequest},
		{"messages in another case", chat.Completions, `{"messages":[],"Messages":[{"role":"user","content":"x"}]}`, http.StatusBadRequest},
		{"a role in another case", chat.Completions, `{"messages":[{"role":"system","Role":"user","content":"x"}]}`, http.StatusBadRequest},
		{"content in another case", chat.Completions, `{"messages":[{"role":"user","content":"x","CONTENT":"y"}]}`, http.StatusBadRequest},
		{"a text in another case", chat.Completions, `{"messages":[{"role":"user","content":[{"type":"text","text":"x","Text":"y"}]}]}`, http.StatusBadRequest},
		{"an image", chat.Completions, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://e/a.png"}}]}]}`, http.StatusForbidden},
		{"an image without a type", chat.Completions, `{"messages":[{"role":"user","content":[{"image_url":"https://e/a.png"}]}]}`, http.StatusForbidden},
		{
			"an image in a message of Anthropic's", chat.Messages,
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}`, http.StatusForbidden,
		},
		{"a file", chat.Responses, `{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`, http.StatusForbidden},
		{"a number as content", chat.Completions, `{"messages":[{"role":"user","content":4111111111111111}]}`, http.StatusForbidden},
		{"tokens as content", chat.Completions, `{"messages":[{"role":"user","content":[66,65,68]}]}`, http.StatusForbidden},
		{"tokens in a part", chat.Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":[66,65]}]}]}`, http.StatusForbidden},
		{"true as content", chat.Completions, `{"messages":[{"role":"user","content":true}]}`, http.StatusForbidden},
		{"false in a part", chat.Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":false}]}]}`, http.StatusForbidden},
		{"true as input", chat.Responses, `{"input":[{"role":"user","content":[true]}]}`, http.StatusForbidden},
		{"a number in a part", chat.Completions, `{"messages":[{"role":"user","content":[{"type":"text","text":4111}]}]}`, http.StatusForbidden},
		{"a number as a system message", chat.Completions, `{"messages":[{"role":"system","content":4111}]}`, http.StatusForbidden},
		{"a number as the result of a tool", chat.Responses, `{"input":[{"type":"function_call_output","call_id":"1","output":4111}]}`, http.StatusForbidden},
		{"a number as instructions", chat.Responses, `{"instructions":4111,"input":"hi"}`, http.StatusForbidden},
		{"a list of numbers as input", chat.Responses, `{"input":[66,65]}`, http.StatusBadRequest},
		{"too deep", chat.Completions, `{"messages":[` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]}`, http.StatusBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.format.ReadRequest([]byte(test.body), chat.ReadOptions{})
			fault, ok := chat.AsFault(err)
			if !ok || fault.Status != test.status {
				t.Fatalf("error %v, want a fault of status %d", err, test.status)
			}
		})
	}
}

func TestReadAnswer(t *testing.T) {
	const json, events = "application/json; charset=utf-8", "text/event-stream"
	for _, test := range []struct {
		name        string
		format      chat.Format
		contentType string
		body        string
		want        string
	}{
		{
			"completions/every choice", chat.Completions, json,
			`{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},` +
				`{"index":1,"message":{"role":"assistant","content":"b"}}],"usage":{"total_tokens":1}}`, "a\nb",
		},
		{
			"completions/refusal, reasoning and tool calls", chat.Completions, json,
			`{"choices":[{"message":{"content":null,"refusal":"no","reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]}}]}`,
			"no\nhm\nf\n{\"q\":1}",
		},
		{"completions/unknown", chat.Completions, json, `{"choices":[{"message":{"novelty":{"deep":["secret"]}}}]}`, "secret"},
		{
			"completions/stream", chat.Completions, events,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"for\"}},{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n" +
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"bidden\"}}]}\n\ndata: [DONE]\n\n", "forbidden\nother",
		},
		{
			"completions/arguments of tool calls in a stream", chat.Completions, events,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\"}}]}}]}\n\n" +
				"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\":1}\"}}]}}]}\n\n", "f\n{\"a\":1}",
		},
		{
			"messages/blocks", chat.Messages, json,
			`{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"AAAA"},{"type":"text","text":"a"},` +
				`{"type":"tool_use","id":"t","name":"f","input":{"q":"x"}}],"stop_reason":"end_turn","usage":{}}`, "hm\na\nf\n{\"q\":\"x\"}",
		},
		{
			"messages/stream", chat.Messages, events,
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n" +
				"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
				"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"for\"}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"bidden\"}}\n\n" +
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "forbidden",
		},
		{
			"responses/the request is not repeated", chat.Responses, json,
			`{"id":"r","object":"response","status":"completed","instructions":"Be kind.","metadata":{"a":"b"},"text":{"format":{"type":"text"}},"reasoning":{"effort":"low"},` +
				`"output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}]}`, "a",
		},
		{
			"responses/stream, each text once", chat.Responses, events,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"instructions\":\"Be kind.\",\"output\":[]}}\n\n" +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":\"for\",\"obfuscation\":\"xx\"}\n\n" +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":\"bidden\"}\n\n" +
				"event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"output_index\":0,\"content_index\":0,\"text\":\"forbidden\"}\n\n" +
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"forbidden\"}]}]}}\n\n",
			"forbidden",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer, err := test.format.ReadAnswer(test.contentType, []byte(test.body), chat.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Text != test.want {
				t.Errorf("text %q, want %q", answer.Text, test.want)
			}
			if string(answer.Body) != test.body {
				t.Errorf("body is another:\n%s\nwant\n%s", answer.Body, test.body)
			}
		})
	}
}

func TestStream_has_nothing_unread(t *testing.T) {
	body := "\xef\xbb\xbf: comment forbidden\r\nid: forbidden\rretry: 1\nforbidden: x\ndata: {\"a\":\ndata: \"b\"}\r\n\r\nevent: x\n\ndata: [DONE]"
	answer, err := chat.Completions.ReadAnswer("text/event-stream", []byte(body), chat.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "data: {\"a\":\ndata: \"b\"}\n\ndata: [DONE]\n\n"; string(answer.Body) != want {
		t.Errorf("stream %q, want %q", answer.Body, want)
	}
	if answer.Text != "b" {
		t.Errorf("text %q", answer.Text)
	}
}

func TestReadAnswer_refuses(t *testing.T) {
	for _, test := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"no JSON", "application/json", `forbidden`, http.StatusBadGateway},
		{"a name twice", "application/json", `{"a":"x","a":"y"}`, http.StatusBadGateway},
		{"nothing", "application/json", ``, http.StatusBadGateway},
		{"another type", "text/html", `<p>forbidden`, http.StatusBadGateway},
		{"no type", "", `{}`, http.StatusBadGateway},
		{"an event that is no JSON", "text/event-stream", "data: forbidden\n\n", http.StatusBadGateway},
		{"a name that says something", "text/event-stream", "event: This is forbidden\ndata: {}\n\n", http.StatusBadGateway},
		{"a stream without events", "text/event-stream", ": x\n\n", http.StatusBadGateway},
		{"an image", "application/json", `{"choices":[{"message":{"images":[{"image_url":{"url":"data:image/png;base64,AAAA"}}]}}]}`, http.StatusForbidden},
		{"sound", "application/json", `{"choices":[{"message":{"audio":{"data":"AAAA","transcript":"x"}}}]}`, http.StatusForbidden},
		{"an image that was made", "application/json", `{"output":[{"type":"image_generation_call","result":"AAAA"}]}`, http.StatusForbidden},
		{"too many texts", "application/json", `{"a":[` + strings.Repeat(`"x",`, 10_001) + `"x"]}`, http.StatusBadGateway},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := chat.Completions.ReadAnswer(test.contentType, []byte(test.body), chat.ReadOptions{})
			fault, ok := chat.AsFault(err)
			if !ok || fault.Status != test.status {
				t.Fatalf("error %v, want a fault of status %d", err, test.status)
			}
			if strings.Contains(fault.Message, "forbidden") {
				t.Errorf("the message quotes the answer: %s", fault.Message)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	fault := &chat.Fault{Status: http.StatusForbidden, Code: "guardrail", Message: `no "way"`}
	for format, want := range map[chat.Format]string{
		chat.Completions: `{"error":{"message":"no \"way\"","type":"permission_error","param":null,"code":"guardrail"}}`,
		chat.Responses:   `{"error":{"message":"no \"way\"","type":"permission_error","param":null,"code":"guardrail"}}`,
		chat.Messages:    `{"type":"error","error":{"type":"permission_error","code":"guardrail","message":"no \"way\""}}`,
	} {
		if got := string(format.AppendError(nil, fault)); got != want {
			t.Errorf("%v: %s, want %s", format, got, want)
		}
		if event := string(format.AppendErrorEvent(nil, fault)); !strings.HasSuffix(event, "\n\n") || !strings.Contains(event, "data: {") {
			t.Errorf("%v: event %q", format, event)
		}
	}
}

func TestUpstream_errors_tell_no_more(t *testing.T) {
	body := `{"error":{"message":"bad tool call","code":"tool_use_failed","failed_generation":"forbidden"},"more":"forbidden"}`
	fault := chat.Completions.ReadError(http.StatusBadRequest, []byte(body))
	if fault.Message != "bad tool call" || fault.Code != "tool_use_failed" {
		t.Errorf("fault %+v", fault)
	}
	if fault := chat.Messages.ReadError(http.StatusBadGateway, []byte("<html>forbidden")); strings.Contains(fault.Message, "forbidden") {
		t.Errorf("fault %+v", fault)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add(1, []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`))
	f.Add(2, []byte(`{"input":[{"type":"function_call_output"}]}`))
	f.Add(3, []byte(`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`))
	f.Fuzz(func(t *testing.T, format int, body []byte) {
		r, err := chat.Format(format%3+1).ReadRequest(body, chat.ReadOptions{})
		if (r == nil) == (err == nil) {
			t.Fatalf("request %v, error %v", r, err)
		}
	})
}

// FuzzReadAnswer checks that what may be given has been read: it reads the same
// again.
func FuzzReadAnswer(f *testing.F) {
	f.Add(true, []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"))
	f.Add(true, []byte("event: a\r\ndata: {\"type\":\"a\",\r\ndata:\"index\":1}\r\n\r\n: c"))
	f.Add(false, []byte(`{"content":[{"type":"text","text":"x"}]}`))
	f.Fuzz(func(t *testing.T, stream bool, body []byte) {
		contentType := "application/json"
		if stream {
			contentType = "text/event-stream"
		}
		answer, err := chat.Completions.ReadAnswer(contentType, body, chat.ReadOptions{})
		if err != nil {
			return
		}
		again, err := chat.Completions.ReadAnswer(contentType, answer.Body, chat.ReadOptions{})
		if err != nil {
			t.Fatalf("what is given cannot be read: %v\n%q", err, answer.Body)
		}
		if again.Text != answer.Text || string(again.Body) != string(answer.Body) {
			t.Fatalf("what is given reads as another: %q and %q", answer.Body, again.Body)
		}
		if !stream && strictjson.Check(answer.Body) != nil {
			t.Fatal("what is given is no JSON")
		}
	})
}
