package mcpadapter

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// askingAPI requests a name, a sampled text and the roots, then a
// color, and then answers with all of it.
func askingAPI(w http.ResponseWriter, r *http.Request) {
	var responses map[string]struct {
		Action  string
		Content json.RawMessage
		Roots   []struct{ URI string }
	}
	raw, err := base64.RawURLEncoding.DecodeString(r.Header.Get(elicit.HeaderInputResponses))
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &responses)
	}
	state, _ := protocol.DecodeHeader(r.Header.Get(elicit.HeaderRequestState))
	switch {
	case err != nil:
		http.Error(w, err.Error(), 400)
	case strings.HasPrefix(state, "asked\n"):
		answerNative(w, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, state[len("asked\n"):]+" likes "+string(responses["color"].Content)))
	case state == "ä first":
		name := string(responses["name"].Content) + " " + string(responses["model"].Content) + " " + responses["roots"].Roots[0].URI
		text, _ := json.Marshal("asked\n" + name)
		answerNative(w, `{"resultType":"input_required","requestState":`+string(text)+`,"inputRequests":{"color":`+
			`{"method":"elicitation/create","params":{"mode":"form","message":"color","requestedSchema":{"type":"object","properties":{"c":`+
			`{"type":"string","oneOf":[{"const":"r","title":"red"},{"const":"b","title":"blue"}]}}}}}}}`)
	default:
		answerNative(w, `{"resultType":"input_required","requestState":"ä first","inputRequests":{`+
			`"name":{"method":"elicitation/create","params":{"message":"name","requestedSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"string","default":"Ada"},"ok":{"type":"boolean","default":true}}}}},`+
			`"model":{"method":"sampling/createMessage","params":{"maxTokens":10,"messages":[{"role":"user","content":[{"type":"text","text":"a","_meta":{}},{"type":"text","text":"b"}]}]}},`+
			`"roots":{"method":"roots/list"}}}`)
	}
}

const askable = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// In every revision that supports elicitation, the API gets the responses in the same form.
func TestRoundTrips(t *testing.T) {
	e := serveAPI(t, askingAPI)
	for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
		t.Run(v.String(), func(t *testing.T) {
			c := newClient(t, e, v, askable)
			c.answers["name"] = `"result":{"action":"accept","content":{"n":"Grace"}}`
			c.answers["color"] = `"result":{"action":"accept","content":{"c":"r"}}`
			c.answers[elicit.MethodSample] = `"result":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`
			c.answers[elicit.MethodRoots] = `"result":{"roots":[{"uri":"file:///r"}]}`
			got := words(resultOf(t, v, c.call(t, "native", `{}`)))
			if want := `{"n":"Grace"} {"type":"text","text":"x"} file:///r likes {"c":"r"}`; got != want {
				t.Errorf("got %q after %q", got, c.asked)
			}
			if len(c.asked) != 4 {
				t.Errorf("asked %q", c.asked)
			}
			all := strings.Join(c.asked, "\n")
			if v == protocol.V20250618 && (strings.Contains(all, "mode") || strings.Contains(all, `"default":"Ada"`) || !strings.Contains(all, `"enum":["r","b"],"enumNames":["red","blue"]`)) {
				t.Errorf("asked %s", all)
			}
		})
	}
}

func TestAsking_without_the_capability(t *testing.T) {
	e := serveAPI(t, askingAPI)
	for _, c := range []struct {
		rule, capabilities string
		version            protocol.Revision
		want               string
	}{
		{"2024-11-05", `{"sampling":{},"roots":{}}`, protocol.V20241105, "elicitation.form"},
		{"2025-11-25", `{"sampling":{}}`, protocol.V20251125, "elicitation.form"},
		{"all-but-one", `{"sampling":{},"elicitation":{}}`, protocol.V20251125, "native client (roots) 2025-11-25"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := resultOf(t, c.version, newClient(t, e, c.version, c.capabilities).call(t, "native", `{}`))
			if text := words(got); !got.IsError || !testkit.ContainsAll(text, c.want) {
				t.Errorf("got %q, want the words %s", text, c.want)
			}
		})
	}
	t.Run("no-session", func(t *testing.T) {
		c := newClient(t, e, protocol.V20251125, askable)
		c.session = ""
		if text := words(resultOf(t, protocol.V20251125, c.call(t, "native", `{}`))); !testkit.ContainsAll(text, "session initialize") {
			t.Errorf("got %q", text)
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		body := string(newClient(t, e, protocol.V20260728, `{"sampling":{}}`).call(t, "native", `{}`))
		if !strings.Contains(body, `"code":-32021`) || !strings.Contains(body, `"requiredCapabilities":{"elicitation":{"form":{}},"roots":{}}`) {
			t.Errorf("got %s", body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		got := resultOf(t, protocol.V20251125, newClient(t, e, protocol.V20251125, askable).call(t, "native", `{}`))
		if text := words(got); !got.IsError || !testkit.ContainsAll(text, "refused elicitation/create away") {
			t.Errorf("got %q", text)
		}
	})
}

func TestEndlessQuestions(t *testing.T) {
	rounds := 0
	e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		rounds++
		answerNative(w, `{"resultType":"input_required","requestState":"again"}`)
	})
	got := resultOf(t, protocol.V20251125, newClient(t, e, protocol.V20251125, askable).call(t, "native", `{}`))
	if !got.IsError || rounds != elicit.MaxRounds {
		t.Errorf("%d rounds: %q", rounds, words(got))
	}
}

func TestURLElicitation(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(elicit.HeaderInputResponses) != "" {
			answerNative(w, `{"content":[{"type":"text","text":"in"}]}`)
			return
		}
		answerNative(w, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"log in","url":"https://example.com/login"}}}}`)
	})
	for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
		c := newClient(t, e, v, askable)
		c.answers["log in"] = `"result":{"action":"accept"}`
		if got := words(resultOf(t, v, c.call(t, "native", `{}`))); got != "in" {
			t.Errorf("%v: got %q", v, got)
		}
		if asked := strings.Join(c.asked, ""); (v == protocol.V20251125) != strings.Contains(asked, "elicitationId") {
			t.Errorf("%v: asked %s", v, asked)
		}
	}
}

// A state comes back to the API only as it was given, for the request and the user
// that it was given to, and not too late.
func TestRequest_state_is_sealed(t *testing.T) {
	called := 0
	e := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		called++
		if r.Header.Get(elicit.HeaderRequestState) == "secret state" {
			answerNative(w, `{"content":[]}`)
			return
		}
		answerNative(w, `{"resultType":"input_required","requestState":"secret state"}`)
	})
	c := newClient(t, e, protocol.V20260728, `{}`)
	var first struct{ Result struct{ RequestState string } }
	body := c.post(t, "native", `,"arguments":{}`)
	if err := json.Unmarshal(body, &first); err != nil || strings.Contains(first.Result.RequestState, "secret") {
		t.Fatalf("%v: %s", err, body)
	}
	state := first.Result.RequestState
	for _, c := range []struct {
		rule, tool, params string
		ok                 bool
	}{
		{"same", "native", `,"arguments":{},"requestState":"` + state + `"`, true},
		{"no-arguments", "native", `,"requestState":"` + state + `"`, true},
		{"tampered", "native", `,"requestState":"` + state + `-TAMPERED"`, false},
		{"cut", "native", `,"requestState":"` + state[:20] + `"`, false},
		{"empty", "native", `,"requestState":""`, false},
		{"other-arguments", "native", `,"arguments":{"a":1},"requestState":"` + state + `"`, false},
		{"other-tool", "vault", `,"requestState":"` + state + `"`, false},
		{"number", "native", `,"requestState":7`, false},
		{"responses-null", "native", `,"inputResponses":null`, false},
		{"responses-number", "native", `,"inputResponses":{"a":1}`, false},
		{"responses-many", "native", `,"inputResponses":{` + manyResponses() + `}`, false},
		{"responses-large", "native", `,"inputResponses":{"a":{"b":"` + strings.Repeat("x", elicit.MaxResponses) + `"}}`, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := called
			client := newClient(t, e, protocol.V20260728, `{}`)
			body := client.post(t, c.tool, c.params)
			if strings.Contains(string(body), `"result"`) != c.ok || !c.ok && !strings.Contains(string(body), `"code":-32602`) {
				t.Errorf("got %s", body)
			}
			if (called != before) != c.ok {
				t.Errorf("the API was called %d times", called-before)
			}
		})
	}
	t.Run("other-user", func(t *testing.T) {
		eve := "eve"
		e.user.Store(&eve)
		if body := c.post(t, "native", `,"requestState":"`+state+`"`); !strings.Contains(string(body), `"code":-32602`) {
			t.Errorf("got %s", body)
		}
	})
}

func manyResponses() string {
	var members []string
	for i := range elicit.MaxInputResponses + 1 {
		members = append(members, fmt.Sprintf(`"%d":{}`, i))
	}
	return strings.Join(members, ",")
}

// A form with a multiple choice, which the revision does not support, is refused as a whole.
func TestForm_multiple_choice(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		answerNative(w, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object",`+
			`"properties":{"many":{"type":"array","items":{"type":"string","enum":["a"]}}}}}}}}`)
	})
	c := newClient(t, e, protocol.V20250618, askable)
	if got := words(resultOf(t, protocol.V20250618, c.call(t, "native", `{}`))); !testkit.ContainsAll(got, `"many" 2025-06-18`) || len(c.asked) != 0 {
		t.Errorf("got %q after %q", got, c.asked)
	}
}
