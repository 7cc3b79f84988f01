package mcpadapter

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/ocp"
)

// A model does not see what it must not make up.
func TestNonInferrableIsHidden(t *testing.T) {
	tools := build(t, payments, ocp.BuildOptions{})
	tool, _ := tools.Tool("pay")
	got := string(appendVisibleSchema(nil, tool))
	want := `{"type":"object","properties":{"amount":{"type":"number"}},"required":["amount"],"additionalProperties":false`
	if !strings.HasPrefix(got, want) {
		t.Errorf("shown as %s", got)
	}
	if tool, _ := tools.Tool("plain"); string(appendVisibleSchema(nil, tool)) != string(tool.InputSchema) {
		t.Error("the schema of another tool was changed")
	}
}

// paid answers with the query that it got.
func paid(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, r.URL.RawQuery)
}

const payMessage = "Pay needs values that only you can give."

func TestUserIsAskedForArguments(t *testing.T) {
	e := serveAPI(t, paid)
	for _, v := range []revision{v20250618, v20251125, v20260728} {
		for _, c := range []struct {
			rule, arguments, answer string
			want                    string // in the answer
			failed                  bool
			asked                   int
		}{
			{"accept", `{"amount":5}`, `"result":{"action":"accept","content":{"iban":"DE12","memo":null,"speed":"fast","amount":7}}`, "iban=DE12&speed=fast&amount=5", false, 1},
			{"invalid", `{"amount":5}`, `"result":{"action":"accept","content":{"iban":"123456"}}`, "/iban", true, 1},
			{"decline", `{"amount":5}`, `"result":{"action":"decline"}`, "(decline)", true, 1},
			{"cancel", `{"amount":5}`, `"result":{"action":"cancel"}`, "(cancel)", true, 1},
			{"made-up", `{"amount":5,"iban":"DE12"}`, ``, "iban of pay must not be made up", true, 0},
			{"made-up-optional", `{"amount":5,"memo":"x"}`, ``, "memo of pay must not be made up", true, 0},
			{"null", `{"amount":5,"memo":null}`, `"result":{"action":"accept","content":{"iban":"DE12"}}`, "iban=DE12&amount=5", false, 1},
			{"null-required", `{"amount":5,"iban":null}`, `"result":{"action":"accept","content":{"iban":"DE12"}}`, "iban=DE12&amount=5", false, 1},
		} {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				client := newClient(t, e, v, askable)
				client.answers[payMessage] = c.answer
				got := resultOf(t, v, client.call(t, "pay", c.arguments))
				if text := words(got); got.IsError != c.failed || !strings.Contains(text, c.want) {
					t.Errorf("got %q", text)
				}
				if len(client.asked) != c.asked {
					t.Errorf("asked %q", client.asked)
				}
				if c.asked == 0 {
					return
				}
				for _, want := range []string{
					`"iban":{"type":"string","title":"iban","description":"Where to","minLength":4}`, `"memo":{"type":"string","title":"memo","maxLength":20}`,
					`"enum":["slow","fast"]`, `"required":["iban"]`,
				} {
					if !strings.Contains(client.asked[0], want) {
						t.Errorf("%s is not in %s", want, client.asked[0])
					}
				}
				if strings.Contains(client.asked[0], "extra") {
					t.Errorf("asked for an object: %s", client.asked[0])
				}
			})
		}
	}
}

func TestUserCannotBeAsked(t *testing.T) {
	e := serveAPI(t, paid)
	for _, v := range revisions {
		got := resultOf(t, v, newClient(t, e, v, `{"sampling":{}}`).call(t, "pay", `{"amount":5}`))
		if text := words(got); !got.IsError || !strings.Contains(text, "pay needs iban, memo, speed, extra from the user") || !strings.Contains(text, "elicitation.form") {
			t.Errorf("%v: %q", v, text)
		}
	}
	t.Run("not-a-single-value", func(t *testing.T) {
		got := resultOf(t, v20260728, newClient(t, e, v20260728, askable).call(t, "sign", `{}`))
		if text := words(got); !got.IsError || !strings.Contains(text, "keys") {
			t.Errorf("%q", text)
		}
	})
}

// Who answers with nothing is asked again.
func TestMissingAnswerIsAskedForAgain(t *testing.T) {
	e := serveAPI(t, paid)
	c := newClient(t, e, v20260728, askable)
	for _, params := range []string{``, `,"inputResponses":{}`, `,"inputResponses":{"fairway_arguments":{"action":"accept","content":{"iban":"DE12"}}}`} {
		if body := string(c.post(t, "pay", `,"arguments":{"amount":5}`+params)); !strings.Contains(body, `"resultType":"input_required"`) || !strings.Contains(body, `"requestState"`) {
			t.Errorf("%s: %s", params, body)
		}
	}
}

// What the user gave is kept while the API asks on.
func TestArgumentsOutliveFurtherRounds(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerInputResponses) == "" {
			answerNative(w, `{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}`)
			return
		}
		answerNative(w, `{"content":[{"type":"text","text":"`+r.URL.RawQuery+`"}]}`)
	})
	for _, v := range []revision{v20251125, v20260728} {
		c := newClient(t, e, v, askable)
		c.answers["vault needs values that only you can give."] = `"result":{"action":"accept","content":{"pin":42}}`
		c.answers["sure?"] = `"result":{"action":"accept","content":{}}`
		if got := words(resultOf(t, v, c.call(t, "vault", `{}`))); got != "pin=42" || len(c.asked) != 2 {
			t.Errorf("%v: got %q after %q", v, got, c.asked)
		}
	}
}
