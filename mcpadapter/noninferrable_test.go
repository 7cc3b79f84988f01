package mcpadapter

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Models do not see non-inferrable arguments.
func TestNonInferrable_is_hidden(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{})
	tool, _ := toolset.Tool("pay")
	got := string(tool.AppendVisibleSchema(nil))
	want := `{"type":"object","properties":{"amount":{"type":"number"}},"required":["amount"],"additionalProperties":false`
	if !strings.HasPrefix(got, want) {
		t.Errorf("shown as %s", got)
	}
	if tool, _ := toolset.Tool("plain"); string(tool.AppendVisibleSchema(nil)) != string(tool.Definition.InputSchema) {
		t.Error("the schema of another tool was changed")
	}
}

// paid responds with the query of the request.
func paid(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, r.URL.RawQuery)
}

func TestUser_is_asked_for_arguments(t *testing.T) {
	e := serveAPI(t, paid)
	for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
		for _, c := range []struct {
			rule, arguments, answer string
			want                    string // in the answer
			failed                  bool
			asked                   int
		}{
			{"accept", `{"amount":5}`, `"result":{"action":"accept","content":{"iban":"DE12","memo":null,"speed":"fast","amount":7}}`, "iban=DE12&speed=fast&amount=5", false, 1},
			{"converted", `{"amount":"5"}`, `"result":{"action":"accept","content":{"iban":"DE12","memo":null,"speed":"fast"}}`, "iban=DE12&speed=fast&amount=5", false, 1},
			{"invalid", `{"amount":5}`, `"result":{"action":"accept","content":{"iban":"123456"}}`, "/iban", true, 1},
			{"decline", `{"amount":5}`, `"result":{"action":"decline"}`, "iban decline", true, 1},
			{"cancel", `{"amount":5}`, `"result":{"action":"cancel"}`, "iban cancel", true, 1},
			{"made-up", `{"amount":5,"iban":"DE12"}`, ``, "iban of pay", true, 0},
			{"made-up-optional", `{"amount":5,"memo":"x"}`, ``, "memo of pay", true, 0},
			{"null", `{"amount":5,"memo":null}`, `"result":{"action":"accept","content":{"iban":"DE12"}}`, "iban=DE12&amount=5", false, 1},
			{"null-required", `{"amount":5,"iban":null}`, `"result":{"action":"accept","content":{"iban":"DE12"}}`, "iban=DE12&amount=5", false, 1},
		} {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				client := newClient(t, e, v, askable)
				client.answers[elicit.MethodElicit] = c.answer
				got := resultOf(t, v, client.call(t, "pay", c.arguments))
				if text := words(got); got.IsError != c.failed || !testkit.ContainsAll(text, c.want) {
					t.Errorf("got %q, isError %t; want the words %s, isError %t", text, got.IsError, c.want, c.failed)
				}
				if len(client.asked) != c.asked {
					t.Errorf("asked %q", client.asked)
				}
				if c.asked == 0 {
					return
				}
				for _, want := range []string{
					`"message":"Pay `, // the tool's title
					`"iban":{"type":"string","title":"iban","description":"Where to","minLength":4}`, `"memo":{"type":"string","title":"memo","maxLength":20}`,
					`"enum":["slow","fast"]`, `"required":["iban"]`,
				} {
					if !strings.Contains(client.asked[0], want) {
						t.Errorf("%s is not in %s", want, client.asked[0])
					}
				}
				if strings.Contains(client.asked[0], "extra") {
					t.Errorf("the form contains an object: %s", client.asked[0])
				}
			})
		}
	}
}

func TestUser_cannot_be_asked(t *testing.T) {
	e := serveAPI(t, paid)
	for _, v := range revisions {
		if v.Stateless() {
			continue // TestAsking_needs_the_capability
		}
		got := resultOf(t, v, newClient(t, e, v, `{"sampling":{}}`).call(t, "pay", `{"amount":5}`))
		if text := words(got); !got.IsError || !testkit.ContainsAll(text, "pay iban user elicitation.form") {
			t.Errorf("%v: %q", v, text)
		}
	}
	t.Run("not-a-single-value", func(t *testing.T) {
		got := resultOf(t, protocol.V20260728, newClient(t, e, protocol.V20260728, askable).call(t, "sign", `{}`))
		if text := words(got); !got.IsError || !strings.Contains(text, "keys") {
			t.Errorf("%q", text)
		}
	})
}

// A client that sends no response is asked again.
func TestMissing_response_is_requested_again(t *testing.T) {
	e := serveAPI(t, paid)
	c := newClient(t, e, protocol.V20260728, askable)
	for _, params := range []string{``, `,"inputResponses":{}`, `,"inputResponses":{"fairway_arguments":{"action":"accept","content":{"iban":"DE12"}}}`} {
		if body := string(c.post(t, "pay", `,"arguments":{"amount":5}`+params)); !strings.Contains(body, `"resultType":"input_required"`) || !strings.Contains(body, `"requestState"`) {
			t.Errorf("%s: %s", params, body)
		}
	}
}

// Values from the user are kept while the API requests further input.
func TestArguments_outlive_further_rounds(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(elicit.HeaderInputResponses) == "" {
			answerNative(w, `{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}`)
			return
		}
		answerNative(w, `{"content":[{"type":"text","text":"`+r.URL.RawQuery+`"}]}`)
	})
	for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
		c := newClient(t, e, v, askable)
		c.answers[elicit.MethodElicit] = `"result":{"action":"accept","content":{"pin":42}}`
		c.answers["sure?"] = `"result":{"action":"accept","content":{}}`
		if got := words(resultOf(t, v, c.call(t, "vault", `{}`))); got != "pin=42" || len(c.asked) != 2 {
			t.Errorf("%v: got %q after %q", v, got, c.asked)
		}
	}
}

// cards is a document whose operations have non-inferrable arguments, in an optional body and
// in the query.
const cards = `
openapi: 3.1.0
info: {title: Cards, version: "1"}
paths:
  /charge:
    post:
      operationId: charge
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [amount, card]
              properties:
                amount: {type: integer}
                card: {type: string, minLength: 4, x-otc-non-inferrable: true}
                note: {type: string, minLength: 2, x-otc-non-inferrable: true}
      responses: {'200': {description: done, content: {text/plain: {}}}}
  /item/{id}:
    get:
      operationId: item
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: limit, in: query, schema: {type: integer}}
        - {name: pin, in: query, required: true, schema: {type: string}, x-otc-non-inferrable: true}
      x-mcp: {resource: true, prompt: true}
      responses: {'200': {description: an item, content: {text/plain: {}}}}
  /find:
    get:
      operationId: find
      parameters:
        - {name: q, in: query, schema: {type: string}}
        - {name: pin, in: query, schema: {type: string}, x-otc-non-inferrable: true}
      responses: {'200': {description: found, content: {text/plain: {}}}}
`

// serveCards serves the cards. The API responds with the path, query and body of the request.
func serveCards(t *testing.T) *endpoint {
	t.Helper()
	toolset := buildTools(t, cards, tools.BuildOptions{Name: "cards"})
	e := serveEndpoint(t, Options{}, api{toolset, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, r.URL.Path+" "+r.URL.RawQuery+" ")
		_, _ = io.Copy(w, r.Body)
	}})
	e.tools.Store(toolset)
	return e
}

// Once a call contains a part of an optional body, the user is asked for the values that the body
// requires. Other invalid arguments are reported before the user is asked. The user is not asked if
// only optional values are missing.
func TestUser_is_asked_for_required_values(t *testing.T) {
	e := serveCards(t)
	for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
		for _, c := range []struct {
			rule, tool, arguments, content string
			want                           string // in the answer
			failed                         bool
			asked                          int
		}{
			{"begun", "charge", `{"amount":3}`, `{"card":"1234"}`, `/charge  {"amount":3,"card":"1234"}`, false, 1},
			{"with-optional", "charge", `{"amount":3}`, `{"card":"1234","note":"hi"}`, `/charge  {"amount":3,"card":"1234","note":"hi"}`, false, 1},
			{"optional-left-empty", "charge", `{"amount":3}`, `{"card":"1234","note":""}`, `/charge  {"amount":3,"card":"1234"}`, false, 1},
			{"not-in-the-form", "charge", `{"amount":3}`, `{"card":"1234","amount":4}`, `/charge  {"amount":3,"card":"1234"}`, false, 1},
			{"not-begun", "charge", `{}`, ``, `/charge  `, false, 0},
			{"made-up", "charge", `{"amount":3,"card":"1234"}`, ``, "card of charge", true, 0},
			{"wrong", "charge", `{"amount":"x"}`, ``, "charge /amount integer string", true, 0},
			{"missing", "item", `{}`, ``, "item /id missing", true, 0},
			{"unsendable", "item", `{"id":""}`, ``, "item /id", true, 0},
			{"optional", "find", `{"q":"a"}`, ``, "/find q=a ", false, 0},
			{"optional-made-up", "find", `{"q":"a","pin":"1"}`, ``, "pin of find", true, 0},
		} {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				client := newClient(t, e, v, askable)
				client.answers[elicit.MethodElicit] = `"result":{"action":"accept","content":` + c.content + `}`
				got := resultOf(t, v, client.call(t, c.tool, c.arguments))
				text := words(got)
				if got.IsError != c.failed {
					t.Errorf("isError is %t, want %t: %q", got.IsError, c.failed, text)
				}
				if c.failed && !testkit.ContainsAll(text, c.want) {
					t.Errorf("got the failure %q, want the words %s", text, c.want)
				}
				if !c.failed && text != c.want {
					t.Errorf("got %q, want %q", text, c.want)
				}
				if len(client.asked) != c.asked || c.asked > 0 && !strings.Contains(client.asked[0], `"required":["card"]`) {
					t.Errorf("asked %q", client.asked)
				}
			})
		}
	}
}

// Since 2026-07-28, any request that needs an elicitation returns a protocol error if the client
// has not declared the capability (MCP 2026-07-28, Overview, _meta).
func TestAsking_needs_the_capability(t *testing.T) {
	e := serveCards(t)
	for _, c := range []struct {
		rule, method, name, params string
		status                     int
		want                       string
	}{
		{"tool", "tools/call", "item", `"name":"item","arguments":{"id":"7"}`, 400, `"code":-32021`},
		{"tool/body", "tools/call", "charge", `"name":"charge","arguments":{"amount":3}`, 400, `"code":-32021`},
		{"resource", "resources/read", "cards:///item/7", `"uri":"cards:///item/7"`, 400, `"code":-32021`},
		{"prompt", "prompts/get", "item", `"name":"item","arguments":{"id":"7"}`, 400, `"code":-32021`},
		{"tool/not-needed", "tools/call", "charge", `"name":"charge","arguments":{}`, 200, `"text":"/charge`},
		{"tool/wrong", "tools/call", "charge", `"name":"charge","arguments":{"amount":"x"}`, 200, "/amount integer"},
		{"resource/wrong", "resources/read", "cards:///item/7?limit=x", `"uri":"cards:///item/7?limit=x"`, 200, `"code":-32602 item /limit integer`},
		{"prompt/wrong", "prompts/get", "item", `"name":"item","arguments":{"id":"7","limit":"x"}`, 200, `"code":-32602 item /limit integer`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := conformant(protocol.V20260728, c.method, c.params)
			r.header[nameHeader], r.header[versionHeader] = c.name, protocol.V20260728.String()
			response := e.do(t, "POST", "/mcp", r.body, r.header)
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != c.status || !testkit.ContainsAll(string(body), c.want) {
				t.Errorf("got status %d: %s, want %d with the words %s", response.StatusCode, body, c.status, c.want)
			}
			if needed := `"data":{"requiredCapabilities":{"elicitation":{"form":{}}}}`; c.status == 400 && !strings.Contains(string(body), needed) {
				t.Errorf("%s is not in %s", needed, body)
			}
			if asked := strings.Replace(r.body, `"`+metaCapabilities+`":{}`, `"`+metaCapabilities+`":`+askable, 1); c.status == 400 {
				response = e.do(t, "POST", "/mcp", asked, r.header)
				if body, err = io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), `"resultType":"input_required"`) {
					t.Errorf("with the capability: %v, %s", err, body)
				}
			}
		})
	}
}

// A client may declare the capability in the first round and not in the second, in which it sends
// no response.
func TestAsking_again_needs_the_capability(t *testing.T) {
	e := serveCards(t)
	c := newClient(t, e, protocol.V20260728, askable)
	body := c.post(t, "charge", `,"arguments":{"amount":3}`)
	var asked struct{ Result struct{ RequestState string } }
	if err := json.Unmarshal(body, &asked); err != nil || asked.Result.RequestState == "" {
		t.Fatalf("%v in %s", err, body)
	}
	c.capabilities = `{}`
	again := `,"arguments":{"amount":3},"requestState":"` + asked.Result.RequestState + `"`
	if body := string(c.post(t, "charge", again)); !strings.Contains(body, `"code":-32021`) {
		t.Errorf("got %s", body)
	}
	given := again + `,"inputResponses":{"fairway_arguments":{"action":"accept","content":{"card":"1234"}}}`
	if body := string(c.post(t, "charge", given)); !strings.Contains(body, `\"card\":\"1234\"`) {
		t.Errorf("got %s", body)
	}
}
