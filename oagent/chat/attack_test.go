package chat_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/chat"
)

// allRoles is the default written out.
var allRoles = []string{"user", "system", "developer", "assistant", "tool"}

// TestReadRequest_looks_at_every_role_by_default puts a text into all that reaches the
// model and is not the user's message.
func TestReadRequest_looks_at_every_role_by_default(t *testing.T) {
	said := func(role string) string {
		return `{"messages":[{"role":"` + role + `","content":"forbidden"},{"role":"user","content":"hi"}]}`
	}
	for _, test := range []struct {
		name   string
		format chat.Format
		body   string
	}{
		{"system", chat.Completions, said("system")},
		{"developer", chat.Completions, said("developer")},
		{"assistant", chat.Completions, said("assistant")},
		{"tool", chat.Completions, said("tool")},
		{"function", chat.Completions, said("function")},
		{"the system prompt", chat.Messages, `{"system":"forbidden","messages":[{"role":"user","content":"hi"}]}`},
		{"a tool_result", chat.Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"forbidden"}]}]}`},
		{"instructions", chat.Responses, `{"instructions":"forbidden","input":"hi"}`},
		{"a function_call_output", chat.Responses, `{"input":[{"type":"function_call_output","call_id":"1","output":"forbidden"}]}`},
		{"a function_call", chat.Responses, `{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"forbidden"}]}`},
		{"reasoning", chat.Responses, `{"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"forbidden"}]}]}`},
		{"a cited answer", chat.Responses, `{"input":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"forbidden","annotations":[{"type":"url_citation","url":"https://e/a","title":"t","start_index":1,"end_index":2}]}]}]}`},
		{"a tool", chat.Completions, `{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"forbidden"}}]}`},
		{"response_format", chat.Completions, `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"description":"forbidden"}}}}`},
		{"prediction", chat.Completions, `{"messages":[],"prediction":{"type":"content","content":"forbidden"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := test.format.ReadRequest([]byte(test.body), chat.ReadOptions{})
			if err != nil || !strings.Contains(strings.Join(r.Inputs, "|"), "forbidden") {
				t.Fatalf("%+v, %v", r, err)
			}
			if strings.Contains(r.Said, "forbidden") && test.name != "a tool_result" {
				t.Errorf("it is taken for the user's message: %q", r.Said)
			}
			if r, err := test.format.ReadRequest([]byte(test.body), onlyUser); err != nil || strings.Contains(strings.Join(r.Inputs, "|"), "forbidden") {
				t.Errorf("narrowed down to the user: %+v, %v", r, err)
			}
		})
	}
}

// TestInput_is_seen puts a text into each place of a request from which some server
// sends it to the model.
func TestInput_is_seen(t *testing.T) {
	user := func(member string) string { return `{"messages":[{"role":"user","content":"hi",` + member + `}]}` }
	parts := func(parts string) string { return `{"messages":[{"role":"user","content":[` + parts + `]}]}` }
	beside := func(member string) string { return `{"messages":[{"role":"user","content":"hi"}],` + member + `}` }
	const completions, responses, messages = chat.Completions, chat.Responses, chat.Messages
	for _, test := range []struct {
		name   string
		format chat.Format
		roles  []string
		media  bool
		body   string
	}{
		{"escaped text", completions, nil, false, `{"messages":[{"role":"user","content":"\u0066orbidden"}]}`},
		{"escaped names", completions, nil, false, `{"\u006dessages":[{"\u0072ole":"user","con\u0074ent":"forbidden"}]}`},
		{"a name beside", completions, nil, false, user(`"name":"forbidden"`)},
		{"another member", completions, nil, false, user(`"reasoning_content":"forbidden"`)},
		{"nested parts", completions, nil, false, parts(`{"type":"text","text":"x","content":[{"type":"text","text":{"value":"forbidden"}}]}`)},
		{"a word in two parts", completions, nil, false, parts(`{"type":"text","text":"for"},{"type":"text","text":"bidden"}`)},
		{"a word in two parts of a list of texts", completions, nil, false, parts(`"for","bidden"`)},
		{"a role of one's own", completions, nil, false, `{"messages":[{"role":"be forbidden","content":"x"}]}`},
		{"the name of a member", completions, nil, false, parts(`{"type":"text","text":"x","say forbidden":1}`)},
		{"an id that is a sentence", completions, allRoles, false, `{"messages":[{"role":"tool","tool_call_id":"say forbidden","content":"x"}]}`},
		{"a signature that is a sentence", messages, nil, false, parts(`{"type":"text","text":"x","signature":"say forbidden"}`)},
		{"a text that begins as media", completions, nil, true, `{"messages":[{"role":"user","content":"data:;base64, forbidden"}]}`},
		{"a part that begins as media", completions, nil, true, parts(`{"type":"text","text":"data:text/plain;base64,AAAA forbidden"}`)},
		{"a source without a type", completions, nil, true, parts(`{"text":"x","source":"be forbidden"}`)},
		{"data that is text", messages, nil, true, parts(`{"type":"document","source":{"data":"be forbidden"}}`)},
		{"a context of a document", messages, nil, true, parts(`{"type":"document","context":"forbidden","source":{"type":"url","url":"https://e/a"}}`)},
		{"arguments of a call", messages, allRoles, false, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"forbidden":1}}]}]}`},
		{"a message that says it is a result", messages, nil, false, user(`"type":"tool_result"`)[:len(user(`"type":"tool_result"`))-3] + `,"text":"forbidden"}]}`},
		{"an item of two minds", responses, []string{"tool"}, false, `{"input":[{"type":"function_call_output","role":"assistant","call_id":"1","output":"forbidden"}]}`},
		{"an item that calls itself an output", responses, nil, false, `{"input":[{"type":"x_output","content":"forbidden"}]}`},
		{"a reference with words", responses, nil, false, `{"input":[{"type":"item_reference","id":"1","content":"forbidden"}]}`},
		{"a reason beside an approval", responses, []string{"tool"}, false, `{"input":[{"type":"mcp_approval_response","approve":false,"reason":"forbidden"}]}`},
		{"variables of a prompt", responses, nil, false, `{"prompt":{"id":"p","variables":{"a":{"type":"input_text","text":"forbidden"}}}}`},
		{"an unknown member", completions, nil, false, beside(`"preamble":"forbidden"`)},
		{"documents", completions, nil, false, beside(`"documents":[{"title":"x","text":"forbidden"}]`)},
		{"a template", completions, nil, false, beside(`"chat_template":"forbidden"`)},
		{"a suffix", completions, nil, false, beside(`"suffix":"forbidden"`)},
		{"a description of a tool", completions, allRoles, false, beside(`"tools":[{"type":"function","function":{"name":"f","description":"forbidden"}}]`)},
		{"a parameter of a tool", completions, allRoles, false, beside(`"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"forbidden":{}}}}}]`)},
		{"a description of a function", completions, allRoles, false, beside(`"functions":[{"name":"f","description":"forbidden"}]`)},
		{"a schema of the answer", completions, allRoles, false, beside(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"description":"forbidden"}}}`)},
		{"a name in a schema", completions, allRoles, false, beside(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"properties":{"forbidden":{}}}}}`)},
		{"a format of the text", responses, allRoles, false, `{"input":"hi","text":{"format":{"type":"json_schema","schema":{"description":"forbidden"}}}}`},
		{"a prediction", completions, allRoles, false, beside(`"prediction":{"type":"content","content":"forbidden"}`)},
		{"an output format", messages, allRoles, false, beside(`"output_config":{"format":{"type":"json_schema","schema":{"description":"forbidden"}}}`)},
		{"where a search is made", completions, allRoles, false, beside(`"web_search_options":{"user_location":{"approximate":{"city":"forbidden"}}}`)},
		{"what is deep", completions, nil, false, parts(strings.Repeat("[", 40) + `"forbidden"` + strings.Repeat("]", 40))},
		{"a word in two messages", completions, nil, false, `{"messages":[{"role":"user","content":"for"},{"role":"user","content":"bidden"}]}`},
		{"a word in three messages", completions, nil, false, `{"messages":[{"role":"user","content":"for"},{"role":"user","content":[{"type":"text","text":"bid"}]},{"role":"user","content":"den"}]}`},
		{"a word in messages of one role", messages, nil, false, `{"messages":[{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"forb"}]},{"role":"user","content":"idden"}]}`},
		{"a word in two items", responses, nil, false, `{"input":[{"type":"message","role":"user","content":"for"},{"role":"user","content":[{"type":"input_text","text":"bidden"}]}]}`},
		{"a model", completions, nil, false, beside(`"model":"forbidden"`)},
		{"a user", completions, nil, false, beside(`"user":"forbidden"`)},
		{"a value of metadata", completions, nil, false, beside(`"metadata":{"a":"forbidden"}`)},
		{"a name of metadata", responses, nil, false, `{"input":"hi","metadata":{"forbidden":"a"}}`},
		{"a stop sequence", completions, nil, false, beside(`"stop":["END","\u0066orbidden"]`)},
		{"a stop sequence of Anthropic's", messages, nil, false, beside(`"stop_sequences":["forbidden"]`)},
		{"a key of logit_bias", completions, nil, false, beside(`"logit_bias":{"forbidden":1}`)},
		{"the name of an unknown member", completions, nil, false, beside(`"forbidden":1`)},
		{"the name of an unknown member, if only the user is checked", completions, []string{"user"}, false, beside(`"forbidden":true`)},
		{"a grammar", completions, allRoles, false, beside(`"guided_regex":"forbidden"`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := test.format.ReadRequest([]byte(test.body), chat.ReadOptions{Roles: test.roles, AllowMedia: test.media})
			if err == nil && !strings.Contains(strings.Join(r.Inputs, "|"), "forbidden") {
				t.Errorf("inputs %q of %s", r.Inputs, test.body)
			}
		})
	}
}

// TestPrograms_input_is_not_looked_at has what a program says beside the user, if roles is
// narrowed down to the user, and what no model gets: it is neither asked about nor a
// reason to refuse.
func TestPrograms_input_is_not_looked_at(t *testing.T) {
	body := `{"model":"m","stream":false,"stream_options":{"include_usage":true},"n":2,"stop":["END"],"user":"u","metadata":{"a":"b"},"logit_bias":{"5":-1},
		"service_tier":"auto","reasoning_effort":"low","verbosity":"low","safety_identifier":"s","prompt_cache_key":"k","modalities":["text"],"seed":1,"stop_token_ids":[1],
		"tools":[{"type":"function","function":{"name":"f","description":"d"}}],"tool_choice":"auto","response_format":{"type":"json_object"},
		"prediction":{"type":"content","content":"c"},"thinking":{"type":"enabled","budget_tokens":5},"reasoning":{"effort":"low"},"text":{"format":{"type":"text"}},
		"include":["reasoning.encrypted_content"],"conversation":"c","previous_response_id":"r","truncation":"auto",
		"messages":[{"role":"user","content":[{"type":"text","text":"one","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`
	for _, format := range []chat.Format{chat.Completions, chat.Responses, chat.Messages} {
		r, err := format.ReadRequest([]byte(body), onlyUser)
		if err != nil || !slices.Equal(r.Inputs, []string{"one", "three"}) {
			t.Errorf("%v: inputs %+v, %v", format, r, err)
		}
	}
}

// TestNewest_input_is_last has other texts before and after the messages: the last
// that the guardrail gets is what the user said last.
func TestNewest_input_is_last(t *testing.T) {
	for _, body := range []string{
		`{"prompt":"p","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"suffix":"s"}`,
		`{"suffix":"s","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"prompt":"p"}`,
	} {
		r, err := chat.Completions.ReadRequest([]byte(body), chat.ReadOptions{})
		if err != nil || len(r.Inputs) != 5 {
			t.Fatalf("got %+v and the error %v, want 5 inputs", r, err)
		}
		if got, want := r.Inputs[3:], []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("got the last inputs %q, want %q", got, want)
		}
	}
}

func TestOdd_requests_are_refused(t *testing.T) {
	const message = `"messages":[{"role":"user","content":"hi"}]`
	for name, body := range map[string]string{
		"a name twice, once escaped":    `{"messages":[],"\u006dessages":[{"role":"user","content":"x"}]}`,
		"a role twice":                  `{"messages":[{"role":"user","role":"system","content":"x"}]}`,
		"another case, with a long s":   `{"messages":[],"meſſages":[{"role":"user","content":"x"}]}`,
		"another case, escaped":         `{"messages":[],"\u004dessages":[{"role":"user","content":"x"}]}`,
		"another case, of a prompt":     `{` + message + `,"Prompt":"x"}`,
		"another case, of tools":        `{` + message + `,"Tools":[]}`,
		"another case, of metadata":     `{` + message + `,"Metadata":{}}`,
		"a byte order mark":             "\xef\xbb\xbf{" + message + "}",
		"UTF-16":                        "{\x00\"\x00m\x00\"\x00:\x001\x00}\x00",
		"half a surrogate":              `{"messages":[{"role":"user","content":"\ud800"}]}`,
		"no UTF-8":                      "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
		"two documents":                 `{` + message + `}{"messages":[]}`,
		"a comment":                     `{` + message + `/* x */}`,
		"a trailing comma":              `{` + message + `,}`,
		"NaN":                           `{` + message + `,"x":NaN}`,
		"messages that are texts":       `{"messages":["x"]}`,
		"a role that is a list":         `{"messages":[{"role":["user"],"content":"x"}]}`,
		"a stream that is a number":     `{` + message + `,"stream":1}`,
		"a background that is a string": `{` + message + `,"background":"true"}`,
		"tokens in place of text":       `{` + message + `,"prompt_token_ids":[1,2,3]}`,
		"tokens in place of a prompt":   `{` + message + `,"prompt":[1,2,3]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chat.Completions.ReadRequest([]byte(body), chat.ReadOptions{})
			if fault, ok := chat.AsFault(err); !ok || fault.Status >= http.StatusInternalServerError {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestOutput_is_seen puts what a model has written into each place of an answer in
// which some client finds it.
func TestOutput_is_seen(t *testing.T) {
	const completions, responses, messages = chat.Completions, chat.Responses, chat.Messages
	choice := func(message string) string {
		return `{"choices":[{"index":0,"message":{"role":"assistant",` + message + `}}]}`
	}
	for _, test := range []struct {
		name   string
		format chat.Format
		media  bool
		body   string // JSON, or events
	}{
		{"escaped", completions, false, choice(`"content":"\u0066orbidden"`)},
		{"the second choice", completions, false, `{"choices":[{"index":0,"message":{"content":"a"}},{"index":1,"message":{"content":"forbidden"}}]}`},
		{"the second of choices without an index", completions, false, `{"choices":[{"message":{"content":"a"}},{"message":{"content":"forbidden"}}]}`},
		{"arguments of a call", completions, false, choice(`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"forbidden\":1}"}}]`)},
		{"escapes in arguments", completions, false, choice(`"tool_calls":[{"function":{"name":"f","arguments":"{\"q\":\"\\u0066orbidden\"}"}}]`)},
		{"escapes in unfinished arguments", completions, false, choice(`"tool_calls":[{"function":{"name":"f","arguments":"{\"q\":\"\\u0066orbidden"}}]`)},
		{"escaped pairs in arguments", completions, false, choice(`"tool_calls":[{"function":{"name":"f","arguments":"{\"q\":\"\\ud83d\\ude00 forb\\u0069dden\"}"}}]`)},
		{"escapes in structured content", completions, false, choice(`"content":"{\"q\":\"forb\\u0069dden\"}"`)},
		{"a custom tool", completions, false, choice(`"tool_calls":[{"type":"custom","custom":{"name":"f","input":"forbidden"}}]`)},
		{"a function of old", completions, false, choice(`"function_call":{"name":"forbidden","arguments":"{}"}`)},
		{"what is deep", completions, false, choice(`"x":` + strings.Repeat(`{"a":`, 40) + `"forbidden"` + strings.Repeat("}", 40))},
		{"refusal", completions, false, choice(`"refusal":"forbidden"`)},
		{"details of reasoning", completions, false, choice(`"reasoning_details":[{"type":"reasoning.text","text":"forbidden"}]`)},
		{"a transcript", completions, true, choice(`"audio":{"id":"a","data":"AAAA","transcript":"forbidden"}`)},
		{"a citation", completions, false, choice(`"annotations":[{"type":"url_citation","url_citation":{"title":"forbidden","url":"https://e"}}]`)},
		{"the name of a member", completions, false, choice(`"parsed_":{"say forbidden":true}`)},
		{"a text that begins as media", completions, true, choice(`"content":"data:;base64, forbidden"`)},
		{"media that is text", completions, true, choice(`"audio":{"data":"be forbidden"}`)},
		{"a status that is a sentence", completions, false, choice(`"status":"be forbidden"`)},
		{"a signature that is a sentence", completions, false, choice(`"signature":"Yours, forbidden"`)},
		{"tokens", completions, false, `{"choices":[{"message":{"content":"x"},"logprobs":{"content":[{"token":"for","top_logprobs":[]},{"token":"bidden","top_logprobs":[]}]}}]}`},
		{
			"other tokens", completions, false,
			`{"choices":[{"message":{"content":"xy"},"logprobs":{"content":[{"token":"x","top_logprobs":[{"token":"x"},{"token":"for"}]},{"token":"y","top_logprobs":[{"token":"y"},{"token":"bidden"}]}]}}]}`,
		},
		{"escapes in the input of a tool", messages, false, `{"content":[{"type":"tool_use","name":"f","input":{"q":"\u0066orbidden"}}]}`},
		{"a name in the input of a tool", messages, false, `{"content":[{"type":"tool_use","name":"f","input":{"forbidden":1}}]}`},
		{"a word in two blocks", messages, false, `{"content":[{"type":"text","text":"for"},{"type":"text","text":"bidden"}]}`},
		{"a text that was cited", messages, false, `{"content":[{"type":"text","text":"x","citations":[{"type":"char_location","cited_text":"forbidden"}]}]}`},
		{"a sequence that stopped it", messages, false, `{"content":[],"stop_sequence":"forbidden"}`},
		{"a variable of the environment", responses, false, `{"output":[{"type":"local_shell_call","action":{"type":"exec","command":["x"],"env":{"forbidden":"1"}}}]}`},
		{"keys that are pressed", responses, false, `{"output":[{"type":"computer_call","action":{"type":"type","text":"forbidden"}}]}`},
		{"logs of code", responses, false, `{"output":[{"type":"code_interpreter_call","code":"x","outputs":[{"type":"logs","logs":"forbidden"}]}]}`},
		{"a summary of reasoning", responses, false, `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"forbidden"}]}]}`},
		{"a word in two parts", responses, false, `{"output":[{"type":"message","content":[{"type":"output_text","text":"for"},{"type":"output_text","text":"bidden"}]}]}`},
		{"all of the text beside", responses, false, `{"output":[],"output_text":"forbidden"}`},
		{"a text where the request's would be", responses, false, `{"output":[],"text":"forbidden"}`},
		{"reasoning where the request's would be", responses, false, `{"output":[],"reasoning":"be forbidden"}`},
		{"a reason for the end", responses, false, `{"output":[],"incomplete_details":{"reason":"forbidden"}}`},
		{"stream/CR alone", completions, false, "data: {\"choices\":[{\"delta\":{\"content\":\"for\"}}]}\r\rdata: {\"choices\":[{\"delta\":{\"content\":\"bidden\"}}]}\r\r"},
		{"stream/CRLF and a BOM", completions, false, "\xef\xbb\xbfdata: {\"choices\":[{\"delta\":{\"content\":\"forbidden\"}}]}\r\n\r\n"},
		{"stream/data in lines", completions, false, "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"forbidden\"}}]}\n\n"},
		{"stream/after the end", completions, false, "data: [DONE]\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"forbidden\"}}]}\n\n"},
		{"stream/without an end", completions, false, "data: {\"choices\":[{\"delta\":{\"content\":\"forbidden\"}}]}"},
		{"stream/an event without an index", completions, false, "data: {\"choices\":[{\"delta\":{\"content\":\"for\"}}]}\n\n: x\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"bidden\"}}]}\n\n"},
		{"stream/parts", completions, false, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"for\"}]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"bidden\"}]}}]}\n\n"},
		{
			"stream/escapes in arguments", messages, false,
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":\\\"\\\\u00\"}}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"66orbidden\\\"}\"}}\n\n",
		},
		{
			"stream/a text begun with its block", messages, false,
			"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"for\"}}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"bidden\"}}\n\n",
		},
		{
			"stream/a word in two blocks", messages, false,
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"for\"}}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"bidden\"}}\n\n",
		},
		{"stream/an error", messages, false, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"forbidden\"}}\n\n"},
		{"stream/a response that failed", responses, false, "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"forbidden\"}}}\n\n"},
		{"stream/a member that is no response", responses, false, "data: {\"type\":\"x\",\"responses\":{\"text\":\"forbidden\"}}\n\n"},
		{"stream/a text without a type", responses, false, "data: {\"text\":\"forbidden\"}\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			contentType := "application/json"
			if test.body[0] != '{' {
				contentType = "text/event-stream"
			}
			answer, err := test.format.ReadAnswer(contentType, []byte(test.body), chat.ReadOptions{AllowMedia: test.media})
			if err == nil && !strings.Contains(answer.Text, "forbidden") {
				t.Errorf("text %q of %s", answer.Text, test.body)
			}
		})
	}
}

func TestOdd_answers_are_refused(t *testing.T) {
	const event = "data: {\"choices\":[]}\n\n"
	for _, test := range []struct{ name, contentType, body string }{
		{"two documents in one event", "text/event-stream", "data: {} {\"x\":\"y\"}\n\n"},
		{"two documents in two lines", "text/event-stream", "data: {}\ndata: {\"x\":\"y\"}\n\n"},
		{"a list", "text/event-stream", "data: [{}]\n\n"},
		{"a text", "text/event-stream", "data: \"x\"\n\n"},
		{"half a letter", "text/event-stream", "data: {\"x\":\"\xe2\x82\"}\n\n"},
		{"half an event at the end", "text/event-stream", event + "data: {\"x\":"},
		{"an end that is none", "text/event-stream", event + "data: [DONE] x\n\n"},
		{"lines of JSON", "application/x-ndjson", "{}\n{}\n"},
		{"a sequence of JSON", "application/json-seq", "\x1e{}\n"},
		{"lines of JSON that call themselves JSON", "application/json", "{}\n{}\n"},
		{"JSON that calls itself events", "text/event-stream", `{"choices":[]}`},
		{"events that call themselves JSON", "application/json", event},
		{"JSON in another character set", "application/json; charset=utf-7", `{"x":"+AGYAbwByAGI-"}`},
		{"events in another character set", "text/event-stream; charset=utf-16", event},
		{"a byte order mark", "application/json", "\xef\xbb\xbf{}"},
		{"parts", "multipart/mixed; boundary=x", "--x\r\n\r\n{}\r\n--x--"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if answer, err := chat.Completions.ReadAnswer(test.contentType, []byte(test.body), chat.ReadOptions{}); err == nil {
				t.Errorf("answer %q of text %q", answer.Body, answer.Text)
			}
		})
	}
}
