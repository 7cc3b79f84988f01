package otcadapter

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

func TestCall_request(t *testing.T) {
	const id = `"call_id":"123e4567-e89b-12d3-a456-426614174000","tool_id":"Calculator.Add@1.0.0"`
	long := strings.Repeat("x", maxCallID+1)
	cases := []struct {
		rule, body string
		status     int
		input      string // what the tool got
		says       string // in developer_message or message
	}{
		{"enveloped", `{"$schema":"` + otcStandard.schema + `","request":{` + id + `,"input":{"a":1,"b":2}}}`, 200, `{"a":1,"b":2}`, ""},
		{"flat", `{` + id + `,"input":{"a":1}}`, 200, `{"a":1}`, ""},
		{"inputs", `{` + id + `,"inputs":{"a":1}}`, 200, `{"a":1}`, ""},
		{"enveloped inputs", `{"request":{` + id + `,"inputs":{"a":1}}}`, 200, `{"a":1}`, ""},
		{"null input gives way to inputs", `{` + id + `,"input":null,"inputs":{"a":1}}`, 200, `{"a":1}`, ""},
		{"no input", `{` + id + `}`, 200, "", ""},
		{"null request is none", `{"request":null,` + id + `}`, 200, "", ""},
		{"an OXP $schema", `{"$schema":"` + oxpStandard.schema + `","request":{` + id + `}}`, 200, "", ""},
		{"a $schema of the file, with a fragment", `{"$schema":"https://github.com/ArcadeAI/OpenToolCalling/blob/main/specification/http/1.0/openapi.json#/x",` + id + `}`, 200, "", ""},
		{"an unknown $schema", `{"$schema":"https://example.com/2.0",` + id + `}`, 400, "", "known " + otcStandard.schema + ", " + oxpStandard.schema},
		{"a $schema of another type", `{"$schema":1,` + id + `}`, 400, "", `"$schema" number string`},
		{"context, trace_id and unknown fields are let by", `{` + id + `,"trace_id":"t","context":{"user_id":"u"},"later":1}`, 200, "", ""},
		{"input and inputs", `{` + id + `,"input":{},"inputs":{}}`, 400, "", "both"},
		{"fields inside and beside request", `{"request":{` + id + `},"tool_id":"Calculator.Add"}`, 400, "", `into "request"`},
		{"no tool_id", `{"request":{}}`, 400, "", `"tool_id" missing`},
		{"null", `null`, 400, "", `"tool_id" missing`},
		{"not an object", `[1]`, 400, "", "body array"},
		{"tool_id of another type", `{"tool_id":7}`, 400, "", `"tool_id" number string`},
		{"call_id of another type", `{"request":{"tool_id":"Calculator.Add","call_id":{}}}`, 400, "", `"call_id" object string`},
		{"request of another type", `{"request":"Calculator.Add"}`, 400, "", `"request" string object`},
		{"input of another type", `{` + id + `,"input":[1,2]}`, 400, "", `"input" array`},
		{"context of another type", `{` + id + `,"context":[]}`, 400, "", `"context" array`},
		{"authorization of another type", `{` + id + `,"context":{"authorization":{}}}`, 400, "", `"authorization" object array`},
		{"a token without an id", `{` + id + `,"context":{"authorization":[{"token":"t"}]}}`, 400, "", `"context.authorization[0]" "id"`},
		{"a secret without a value", `{` + id + `,"context":{"secrets":[{"id":"k"}]}}`, 400, "", `"context.secrets[0]" has no "value"`},
		{"two credentials for one id", `{` + id + `,"context":{"secrets":[{"id":"k","value":"1"},{"id":"k","value":"2"}]}}`, 400, "", `"context.secrets[1]" "id" another`},
		{"trace_id too long", `{"tool_id":"Calculator.Add","trace_id":"` + long + `"}`, 400, "", "256 bytes"},
		{"call_id too long", `{"tool_id":"Calculator.Add","call_id":"` + long + `"}`, 400, "", "256 bytes"},
		{"empty body", ``, 400, "", "valid JSON"},
		{"truncated", `{"tool_id":"Calculator.Add"`, 400, "", "valid JSON"},
		{"two values", `{` + id + `} {}`, 400, "", "valid JSON"},
		{"a name twice", `{` + id + `,"tool_id":"Calculator.clear"}`, 400, "", "valid JSON"},
		{"a name twice in the input", `{` + id + `,"input":{"a":1,"a":2}}`, 400, "", "valid JSON"},
		{"names match exactly", `{"TOOL_ID":"Calculator.Add"}`, 400, "", `"tool_id" missing`},
		{"invalid UTF-8", `{"tool_id":"Calculator.Add` + "\xff" + `"}`, 400, "", "valid JSON"},
		{"nested too deeply", `{` + id + `,"input":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, 400, "", "deeper"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			input, called := "", false
			caller := callerFunc(func(_ context.Context, current string, arguments []byte) tools.Outcome {
				input, called = string(arguments), true
				if current != "Add" {
					t.Errorf("called %q", current)
				}
				return tools.Outcome{Result: jsonResult("3")}
			})
			got := post(t, New(Options{}), calculator(), caller, c.body)
			if got.Code != c.status {
				t.Fatalf("status %d, want %d: %s", got.Code, c.status, got.Body)
			}
			if called != (c.status == 200) {
				t.Errorf("called: %v", called)
			}
			if input != c.input {
				t.Errorf("the tool got %q, want %q", input, c.input)
			}
			got.json()
			if c.status == 400 && !testkit.ContainsAll(strings.ReplaceAll(got.Body.String(), `\"`, `"`), c.says) {
				t.Errorf("%s does not contain %q", got.Body, c.says)
			}
		})
	}
}

func TestCall_id(t *testing.T) {
	s, toolset, caller := New(Options{}), calculator(), answering(tools.Outcome{Result: jsonResult("3")})
	if got := post(t, s, toolset, caller, `{"tool_id":"Calculator.Add","call_id":"é\"1"}`).json()["call_id"]; got != `é"1` {
		t.Errorf("echoed %q", got)
	}
	first := post(t, s, toolset, caller, `{"tool_id":"Calculator.Add"}`).json()["call_id"].(string)
	second := post(t, s, toolset, caller, `{"tool_id":"Calculator.Add","call_id":""}`).json()["call_id"].(string)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(first) || !uuid.MatchString(second) || first == second {
		t.Errorf("generated %q and %q", first, second)
	}
}

func TestCall_tool_id(t *testing.T) {
	unknown := callerFunc(func(_ context.Context, called string, _ []byte) tools.Outcome {
		if called == "Add" {
			return tools.Outcome{Result: jsonResult("3")}
		}
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.UnknownTool, Message: "unknown tool " + called}}
	})
	cases := []struct {
		id     string
		status int
		says   string
	}{
		{"Calculator.Add@1.0.0", 200, ""},
		{"Calculator.Add@latest", 200, ""},
		{"Calculator.Add", 200, ""},
		{"Calculator.Add@1.0.1", 400, `1.0.0`},
		{"Calculator.Add@", 400, "tool_id valid"},
		{"Calculator.Add@1.0.0@2", 400, "tool_id valid"},
		{"Calculator.Sub@1.0.0", 400, "unknown tool Sub"},
		{"calculator.Add", 400, "unknown toolkit"},
		{"Other.Add", 400, "Calculator"},
		{"Add", 400, "tool_id valid"},
		{"Calculator.", 400, "tool_id valid"},
		{".Add", 400, "tool_id valid"},
		{"Calculator.Add.x", 400, "tool_id valid"},
		{"Calculator.Add\n", 400, "tool_id valid"},
		{strings.Repeat("x", 5000), 400, "tool_id valid"},
	}
	for _, c := range cases {
		t.Run(c.id[:min(len(c.id), 40)], func(t *testing.T) {
			body := `{"tool_id":"` + strings.ReplaceAll(c.id, "\n", `\n`) + `"}`
			got := post(t, New(Options{}), calculator(), unknown, body)
			if got.Code != c.status {
				t.Fatalf("status %d, want %d: %s", got.Code, c.status, got.Body)
			}
			if c.status == 200 {
				return
			}
			members := got.json()
			if message := members["message"].(string); !testkit.ContainsAll(message, c.says) || len(message) > 400 {
				t.Errorf("message = %q, want it to contain %q", message, c.says)
			}
		})
	}
}

func TestCall_value(t *testing.T) {
	cases := []struct {
		rule, contentType, body string
		want                    any
	}{
		{"object", "application/json", `{"sum":3}`, map[string]any{"sum": 3.0}},
		{"array", "application/json", ` [1,2]` + "\n", []any{1.0, 2.0}},
		{"scalar", "application/json; charset=utf-8", `3`, 3.0},
		{"problem and other +json", "application/vnd.api+json", `{"a":1}`, map[string]any{"a": 1.0}},
		{"JSON without a media type", "", `{"a":1}`, map[string]any{"a": 1.0}},
		{"text without a media type", "", `hello`, "hello"},
		{"text", "text/plain; charset=utf-8", "a \"quoted\"\nline", "a \"quoted\"\nline"},
		{"text that looks like JSON stays text", "text/plain", `{"a":1}`, `{"a":1}`},
		{"text that is not UTF-8", "text/plain", "caf\xe9", "caf\ufffd"},
		{"JSON that is none", "application/json", `{"a":`, `{"a":`},
		{"XML", "application/xml", `<a/>`, `<a/>`},
		{"binary", "image/png", "\x89PNG", "iVBORw=="},
		{"binary without a media type", "", "\xff\xfe", "//4="},
		{"unknown media type", "application/octet-stream", "abc", "YWJj"},
		{"empty, though the document declares content", "application/json", "", ""},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			result := &tools.Result{Status: 200, Header: http.Header{}, Body: []byte(c.body)}
			if c.contentType != "" {
				result.Header.Set("Content-Type", c.contentType)
			}
			outcome := tools.Outcome{Result: result, Duration: 2500 * time.Microsecond}
			got := post(t, New(Options{}), calculator(), answering(outcome), `{"tool_id":"Calculator.Add"}`)
			members := got.json()
			if got.Code != 200 || members["success"] != true || members["duration"] != 2.5 {
				t.Errorf("status %d: %s", got.Code, got.Body)
			}
			if output := members["output"]; !reflect.DeepEqual(output, map[string]any{"value": c.want}) {
				t.Errorf("output = %v, want value %v", output, c.want)
			}
		})
	}
}

func TestCall_JSON_is_passed_on_as_it_came(t *testing.T) {
	const body = `{"b":1.10,"a":12345678901234567890,"b":"\u00e9"}`
	got := post(t, New(Options{}), calculator(), answering(tools.Outcome{Result: jsonResult(body)}), `{"tool_id":"Calculator.Add"}`)
	if !strings.Contains(got.Body.String(), `"output":{"value":`+body+`}`) {
		t.Errorf("got %s", got.Body)
	}
}

func TestCall_failure(t *testing.T) {
	get := &tools.Tool{Name: "list", Plan: tools.Plan{Method: "GET"}}
	add := &tools.Tool{Name: "Add", Plan: tools.Plan{Method: "POST"}}
	many := make([]tools.Problem, 100)
	for i := range many {
		many[i] = tools.Problem{Path: "/" + strings.Repeat("x", 10_000), Message: "no such parameter"}
	}
	cases := []struct {
		rule    string
		tool    *tools.Tool
		failure tools.Failure
		want    map[string]any // nil: only bounded
	}{
		{
			"bad input names the parameters", add,
			tools.Failure{Kind: tools.InvalidArguments, Message: "invalid arguments for Add: /b: missing, and required", Problems: []tools.Problem{
				{Path: "/b", Message: "missing, and required"}, {Path: "", Message: "too many"},
			}},
			map[string]any{
				"message":                   "invalid arguments for Add: /b: missing, and required",
				"can_retry":                 false,
				"additional_prompt_content": "- /b: missing",
			},
		},
		{"many problems are bounded", add, tools.Failure{Kind: tools.InvalidArguments, Message: "m", Problems: many}, nil},
		{
			"a refusal is final", add,
			tools.Failure{Kind: tools.Refused, Status: 404, Message: "no such trip"},
			map[string]any{
				"message": "no such trip", "can_retry": false,
				"additional_prompt_content": "does not exist",
			},
		},
		{
			"too many requests can be retried", add,
			tools.Failure{Kind: tools.Refused, Status: 429, Message: "slow down", RetryAfter: 1500 * time.Millisecond},
			map[string]any{
				"message": "slow down", "can_retry": true, "retry_after_ms": 1500.0,
				"additional_prompt_content": "after 1.5s",
			},
		},
		{
			"no wait is asked for where no retry is", add,
			tools.Failure{Kind: tools.Refused, Status: 402, Message: "pay first", RetryAfter: time.Second},
			map[string]any{
				"message": "pay first", "can_retry": false,
				"additional_prompt_content": "tell the user",
			},
		},
		{
			"a conflict wants a look first", add,
			tools.Failure{Kind: tools.Refused, Status: 409, Message: "taken"},
			map[string]any{
				"message": "taken", "can_retry": false,
				"additional_prompt_content": "does not allow",
			},
		},
		{
			"what the API finds wrong can be corrected", &tools.Tool{Name: "Add", Plan: tools.Plan{Method: "POST"}, Definition: tools.Definition{Arguments: []tools.Argument{{Name: "a", Required: true}, {Name: "b"}}}},
			tools.Failure{Kind: tools.Refused, Status: 422, Message: "a is odd"},
			map[string]any{
				"message": "a is odd", "can_retry": false,
				"additional_prompt_content": "a*, b",
			},
		},
		{
			"an unreachable upstream can be retried by GET", get,
			tools.Failure{Kind: tools.Unreachable, Message: "down"},
			map[string]any{
				"message": "down", "can_retry": true,
				"additional_prompt_content": "same input",
			},
		},
		{
			"but not by POST", add,
			tools.Failure{Kind: tools.Unreachable, Message: "down"},
			map[string]any{
				"message": "down", "can_retry": false,
				"additional_prompt_content": "unknown",
			},
		},
		{
			"a fault of the gateway", nil,
			tools.Failure{Kind: tools.Internal, Message: "broken"},
			map[string]any{"message": "broken", "can_retry": false},
		},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			outcome := tools.Outcome{Tool: c.tool, Failure: &c.failure, Result: jsonResult(`{"secret":1}`)}
			got := post(t, New(Options{}), calculator(), answering(outcome), `{"call_id":"c","tool_id":"Calculator.Add"}`)
			members := got.json()
			if got.Code != 200 || members["success"] != false || members["call_id"] != "c" {
				t.Fatalf("status %d: %s", got.Code, got.Body)
			}
			if got.Body.Len() > 20_000 {
				t.Errorf("the answer has %d bytes", got.Body.Len())
			}
			if c.want == nil {
				return
			}
			failure, _ := members["output"].(map[string]any)["error"].(map[string]any)
			prompt, _ := failure["additional_prompt_content"].(string)
			word, _ := c.want["additional_prompt_content"].(string)
			delete(failure, "additional_prompt_content")
			delete(c.want, "additional_prompt_content")
			if !reflect.DeepEqual(failure, c.want) || !strings.Contains(prompt, word) || (prompt == "") != (word == "") {
				t.Errorf("error = %v with prompt %q\nwant %v with %q", failure, prompt, c.want, word)
			}
		})
	}
}

func TestCall_releases_the_outcome(t *testing.T) {
	result := pooledResult(`{"sum":3}`)
	post(t, New(Options{}), calculator(), answering(tools.Outcome{Result: result}), `{"tool_id":"Calculator.Add"}`)
	if result.Memory != nil {
		t.Error("the result's buffer was not given back")
	}
}
