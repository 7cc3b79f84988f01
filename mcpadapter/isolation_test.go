package mcpadapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Clients that use the same ids and the same progress tokens at the same time, in
// sessions and without, on streams and not, hear of their own calls and of no
// others.
func TestIsolation_on_streams(t *testing.T) {
	const clients, calls = 24, 12
	caller := callerFunc(func(ctx context.Context, _ string, arguments []byte) tools.Outcome {
		if listener := tools.ListenerFromContext(ctx); listener != nil {
			var own struct{ Client, Call int }
			_ = json.Unmarshal(arguments, &own)
			for i := range 3 {
				number := fmt.Sprintf("%d.%03d%d", own.Client, own.Call, i)
				listener(tools.Event{Kind: tools.EventProgress, Progress: jsontext.Value(number), Message: string(arguments)})
			}
			listener(tools.Event{Kind: tools.EventLog, Level: "error", Data: arguments})
		}
		return answered(http.StatusOK, "application/json", string(arguments))
	})
	e := serveEndpoint(t, Options{}, caller)
	var sessions [clients]*askedClient
	for i := range sessions {
		sessions[i] = newClient(t, e, revisions[i%len(revisions)], `{}`)
	}
	var wait sync.WaitGroup
	for number, c := range sessions {
		wait.Go(func() {
			for i := range calls {
				own := fmt.Sprintf(`{"client":%d,"call":%d,"pad":"%s"}`, number, i, strings.Repeat("x", (number*37+i*101)%3000))
				for _, message := range c.messages(t, own, i%2 == 0) {
					received := strings.ReplaceAll(message, `\"`, `"`)
					if !strings.Contains(received, fmt.Sprintf(`"client":%d,"call":%d,`, number, i)) &&
						!strings.Contains(received, fmt.Sprintf(`"progressToken":1,"progress":%d.%03d`, number, i)) {
						t.Errorf("client %d got %s", number, text.Cut(message, 200))
					}
				}
			}
		})
	}
	wait.Wait()
}

// messages calls a tool with an id and a token that all clients use and returns what
// comes back.
func (c *askedClient) messages(t *testing.T, arguments string, streams bool) (all []string) {
	meta := `"_meta":{"progressToken":1,"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{},"` + metaLogLevel + `":"info"}`
	if !c.version.Stateless() {
		meta = `"_meta":{"progressToken":1}`
	}
	header := map[string]string{versionHeader: c.version.String()}
	if c.version.Stateless() {
		header[methodHeader], header[nameHeader] = "tools/call", "get_trip"
	}
	if c.session != "" {
		header[sessionHeader] = c.session
	}
	if !streams {
		header["Accept"] = "application/json"
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_trip","arguments":` + arguments + `,` + meta + `}}`
	response := c.endpoint.do(t, "POST", "/mcp", body, header)
	if !streams {
		var a answer
		if err := json.NewDecoder(response.Body).Decode(&a); err != nil || string(a.ID) != "7" {
			t.Error(err, string(a.ID))
		}
		return []string{string(a.Result)}
	}
	stream := feedOf(t, response)
	for {
		_, _, data := stream.event()
		all = append(all, data)
		if strings.Contains(data, `"id":7,"result"`) {
			stream.ends()
			return all
		}
	}
}

// The questions of concurrent calls are answered to those who asked.
func TestIsolation_of_questions(t *testing.T) {
	const clients = 16
	e := serveAPI(t, paid)
	var wait sync.WaitGroup
	for number := range clients {
		c := newClient(t, e, []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728}[number%3], askable)
		c.answers[elicit.MethodElicit] = fmt.Sprintf(`"result":{"action":"accept","content":{"iban":"DE%d"}}`, 100+number)
		wait.Go(func() {
			for i := range 5 {
				got := words(resultOf(t, c.version, c.call(t, "pay", fmt.Sprintf(`{"amount":%d}`, i))))
				if want := fmt.Sprintf("iban=DE%d&amount=%d", 100+number, i); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	wait.Wait()
}

// Ids come back as they were sent.
func TestIDs_are_preserved(t *testing.T) {
	for _, id := range []string{
		`0`, `-1`, `1e3`, `1e400`, `1.0`, `9007199254740993`, `123456789012345678901234567890`, `-0`,
		`""`, `"7"`, `"é\u00e9\n\"\\"`, `"\ud83d\ude00"`, `"` + strings.Repeat("x", 5000) + `"`,
	} {
		for _, v := range revisions {
			r := conformant(v, "tools/call", `"name":"get_trip","arguments":{}`)
			r.body = strings.Replace(r.body, `"id":7`, `"id": `+id+` `, 1)
			body := r.Send(t).Body.String()
			if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+id+`,"result":`) {
				t.Errorf("%v: %s came back as %s", v, id, text.Cut(body, 100))
			}
			r.body = strings.Replace(r.body, `"get_trip"`, `7`, 1)
			delete(r.header, nameHeader)
			if body = r.Send(t).Body.String(); !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+id+`,"error":`) {
				t.Errorf("%v: %s came back with an error as %s", v, id, text.Cut(body, 100))
			}
		}
	}
}

// What two readers could read differently is refused.
func TestAmbiguous_JSON_is_refused(t *testing.T) {
	for rule, replace := range map[string][2]string{
		"two-ids":             {`"id":7`, `"id":7,"id":8`},
		"two-names":           {`"name":"get_trip"`, `"name":"get_trip","name":"cancel_trip"`},
		"two-names-escaped":   {`"name":"get_trip"`, `"name":"get_trip","n\u0061me":"cancel_trip"`},
		"two-arguments":       {`{"a":1}`, `{"a":1,"a":2}`},
		"surrogate-argument":  {`{"a":1}`, `{"a":"\ud800"}`},
		"surrogate-name":      {`{"a":1}`, `{"\udc00":1}`},
		"surrogates-reversed": {`{"a":1}`, `{"a":"\ude00\ud83d"}`},
		"surrogate-id":        {`"id":7`, `"id":"\ud83d"`},
		"bad-utf8":            {`{"a":1}`, "{\"a\":\"\xff\"}"},
	} {
		for _, v := range revisions {
			r := conformant(v, "tools/call", `"name":"get_trip","arguments":{"a":1}`)
			r.body = strings.Replace(r.body, replace[0], replace[1], 1)
			r.caller = callerFunc(func(context.Context, string, []byte) tools.Outcome {
				t.Errorf("%s/%v: the tool was called", rule, v)
				return answered(200, "", "")
			})
			r.fault(t, 400, protocol.ParseError)
		}
	}
}
