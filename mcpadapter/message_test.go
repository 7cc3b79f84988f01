package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

func TestEnvelope(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, c := range []struct {
		rule, body string
		status     int
		code       int
		id         string // "" if the request has none
	}{
		{"empty", ``, 400, protocol.ParseError, ""},
		{"truncated", `{"jsonrpc":"2.0","id":1`, 400, protocol.ParseError, ""},
		{"garbage", "\x00\xff", 400, protocol.ParseError, ""},
		{"trailing", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, 400, protocol.ParseError, ""},
		{"duplicate-member", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, protocol.ParseError, ""},
		{"duplicate-param", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}`, 400, protocol.ParseError, ""},
		{"bad-utf8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", 400, protocol.ParseError, ""},
		{"lone-surrogate", `{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, 400, protocol.ParseError, ""},
		{"lone-surrogate-in-params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}`, 400, protocol.ParseError, "1"},
		{"bad-utf8-in-params", "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", 400, protocol.ParseError, `"a"`},
		{"too-deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, 400, protocol.InvalidRequest, "1"},
		{"too-deep/id-last", `{"jsonrpc":"2.0","method":"ping","params":{"a":` + deep + `},"id":"z"}`, 400, protocol.InvalidRequest, `"z"`},
		{"too-deep/truncated", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}`, 400, protocol.ParseError, ""},
		{"too-deep/in-id", `{"jsonrpc":"2.0","id":` + deep + `,"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"too-deep/batch", `[` + deep + `]`, 400, protocol.InvalidRequest, ""},
		{"far-too-deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, 400, protocol.InvalidRequest, "1"},
		{"string", `"ping"`, 400, protocol.InvalidRequest, ""},
		{"null", `null`, 400, protocol.InvalidRequest, ""},
		{"empty-object", `{}`, 400, protocol.InvalidRequest, ""},
		{"no-version", `{"id":1,"method":"ping"}`, 400, protocol.InvalidRequest, "1"},
		{"wrong-version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, protocol.InvalidRequest, "1"},
		{"case-of-names", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`, 400, protocol.InvalidRequest, "1"},
		{"id-null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"id-object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"id-array", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"id-fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"id-bool", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, 400, protocol.InvalidRequest, ""},
		{"method-number", `{"jsonrpc":"2.0","id":1,"method":1}`, 400, protocol.InvalidRequest, "1"},
		{"method-empty", `{"jsonrpc":"2.0","id":1,"method":""}`, 400, protocol.InvalidRequest, "1"},
		{"method-and-result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, 400, protocol.InvalidRequest, "1"},
		{"params-array", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 400, protocol.InvalidParams, "1"},
		{"meta-string", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":""}}`, 400, protocol.InvalidParams, "1"},
		{"unknown-method", `{"jsonrpc":"2.0","id":1,"method":"tools/destroy"}`, 200, protocol.MethodNotFound, "1"},
		{"level-unknown", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`, 200, protocol.InvalidParams, "1"},
		{"discover-is-newer", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 200, protocol.MethodNotFound, "1"},
	} {
		for _, v := range []protocol.Revision{protocol.V20250326, protocol.V20250618, protocol.V20251125} {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				a := testRequest{version: v, body: c.body}.fault(t, c.status, c.code)
				want := c.id
				if want == "" && !v.OmitsUnreadID() {
					want = "null"
				}
				if string(a.ID) != want {
					t.Errorf("id %s, want %s", a.ID, want)
				}
			})
		}
	}
}

func TestID_is_echoed_as_sent(t *testing.T) {
	for _, id := range []string{
		`0`, `-1`, `9007199254740993`, `123456789012345678901234567890`, `1.0`, `1e3`, `1e400`,
		`""`, `"a"`, `"1"`, `"\u00e9\n"`, `"` + strings.Repeat("x", 5000) + `"`, "\"\u2028\"",
	} {
		for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20260728} {
			t.Run(v.String()+"/"+text.Cut(id, 40), func(t *testing.T) {
				r := conformant(v, "tools/list", "")
				r.body = strings.Replace(r.body, `"id":7`, `"id": `+id+` `, 1)
				if got := parse(t, r.Send(t)).ID; string(got) != id {
					t.Errorf("got %s", got)
				}
			})
		}
	}
}

func TestNothing_to_answer(t *testing.T) {
	for rule, c := range map[string]struct {
		body string
		not  protocol.Revision // the revision that refuses it
	}{
		"initialized":          {body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		"cancelled":            {body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		"unknown-notification": {body: `{"jsonrpc":"2.0","method":"acme/hello"}`},
		"call-without-id":      {body: `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"get_trip"}}`},
		"null-params":          {body: `{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`},
		"response":             {body: `{"jsonrpc":"2.0","id":1,"result":{}}`, not: protocol.V20260728},
		"error-response":       {body: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, not: protocol.V20260728},
	} {
		for _, v := range revisions {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				called := false
				r := testRequest{version: v, body: c.body, caller: callerFunc(func(context.Context, string, []byte) tools.Outcome {
					called = true
					return tools.Outcome{}
				})}
				if v == c.not {
					r.fault(t, http.StatusBadRequest, protocol.InvalidRequest)
					return
				}
				if w := r.Send(t); w.Code != http.StatusAccepted || w.Body.Len() > 0 {
					t.Errorf("status %d with %q", w.Code, w.Body)
				}
				if called {
					t.Error("a notification ran a tool")
				}
			})
		}
	}
}

func TestBatch(t *testing.T) {
	ping := func(id int) string { return `{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"ping"}` }
	many := strings.Repeat(ping(1)+",", maxBatch-1) + ping(1)
	for _, c := range []struct {
		rule, body string
		status     int
		want       []string // id:code of each answer; nil for a single error
		code       int
	}{
		{"two", `[` + ping(1) + `,` + ping(2) + `]`, 200, []string{"1:0", "2:0"}, 0},
		{"order", `[` + ping(9) + `,{"jsonrpc":"2.0","id":3,"method":"tools/list"},` + ping(1) + `]`, 200, []string{"9:0", "3:0", "1:0"}, 0},
		{"notifications-only", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`, 202, nil, 0},
		{"mixed", `[{"jsonrpc":"2.0","method":"a"},` + ping(1) + `]`, 200, []string{"1:0"}, 0},
		{"bad-element", `[1,` + ping(1) + `,{}]`, 200, []string{"null:-32600", "1:0", "null:-32600"}, 0},
		{"initialize", `[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]`, 200, []string{"1:-32600"}, 0},
		{"nested", `[[` + ping(1) + `]]`, 200, []string{"null:-32600"}, 0},
		{"empty", `[]`, 400, nil, protocol.InvalidRequest},
		{"truncated", `[` + ping(1), 400, nil, protocol.ParseError},
		{"too-many", `[` + many + `,` + ping(1) + `]`, 400, nil, protocol.InvalidRequest},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, later := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
				code := protocol.InvalidRequest
				if c.code == protocol.ParseError {
					code = protocol.ParseError
				}
				testRequest{version: later, body: c.body}.fault(t, 400, code)
			}
			r := testRequest{version: protocol.V20250326, body: c.body}
			if c.code != 0 {
				r.fault(t, c.status, c.code)
				return
			}
			w := r.Send(t)
			if w.Code != c.status {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if c.want == nil {
				return
			}
			var answers []answer
			if err := json.Unmarshal(w.Body.Bytes(), &answers); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range answers {
				got = append(got, string(a.ID)+":"+strconv.Itoa(a.code()))
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	t.Run("limit", func(t *testing.T) {
		w := testRequest{version: protocol.V20250326, body: `[` + many + `]`}.Send(t)
		if w.Code != 200 || strings.Count(w.Body.String(), `"result"`) != maxBatch {
			t.Errorf("status %d, %d answers", w.Code, strings.Count(w.Body.String(), `"result"`))
		}
	})
	t.Run("elements-are-apart", func(t *testing.T) {
		first := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + metaVersion + `":"2025-06-18"}}}`
		w := testRequest{header: map[string]string{versionHeader: ""}, body: `[` + first + `,{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`}.Send(t)
		if titled := strings.Count(w.Body.String(), `"name":"get_trip","title"`); titled != 1 {
			t.Errorf("%d lists are of a revision with titles: %s", titled, w.Body)
		}
	})
	t.Run("answer-limit", func(t *testing.T) {
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip"}}`
		big := returning(answered(200, "text/plain", strings.Repeat("x", maxBatchAnswer/2)))
		w := testRequest{version: protocol.V20250326, body: `[` + strings.Repeat(call+",", 9) + call + `]`, caller: big}.Send(t)
		if answers := strings.Count(w.Body.String(), `"result"`); answers != 2 || strings.Count(w.Body.String(), `"error"`) != 8 {
			t.Errorf("%d answers in %d bytes", answers, w.Body.Len())
		}
	})
	t.Run("canceled", func(t *testing.T) {
		calls := 0
		ctx, cancel := context.WithCancel(context.Background())
		x := exchange{server: New(Options{}), site: &Site{}, tools: trains(), ctx: ctx, terms: protocol.Terms{Version: protocol.V20250326}, response: response{out: bufferOf()}, caller: callerFunc(
			func(context.Context, string, []byte) tools.Outcome { calls++; cancel(); return tools.Outcome{} })}
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip"}}`
		x.serve([]byte(`[` + call + `,` + call + `]`))
		if calls != 1 {
			t.Errorf("%d calls for a client that left during the first", calls)
		}
	})
}
