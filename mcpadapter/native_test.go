package mcpadapter

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

func TestNativeResult(t *testing.T) {
	const every = `{"content":[
		{"type":"text","text":"hello","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z","other":1},"_meta":{"a":1},"other":2},
		{"type":"image","data":"AAAA","mimeType":"image/png"},
		{"type":"audio","data":"AAAA","mimeType":"audio/wav"},
		{"type":"resource","resource":{"uri":"x://y","text":"t","mimeType":"text/plain","_meta":{}}},
		{"type":"resource_link","uri":"x://z","name":"z","icons":[{"src":"https://example.com/i.png"}],"size":3}],
		"structuredContent":[1],"isError":true,"_meta":{"com.example/a":1,"io.modelcontextprotocol/serverInfo":{},"io.github.fairwayhq/call":"x"},"ttlMs":3}`
	for _, c := range []struct {
		rule, result string
		want         map[protocol.Revision]string // the result but for _meta
	}{
		{"every-block", every, map[protocol.Revision]string{
			protocol.V20241105: `{"content":[{"type":"text","text":"hello","annotations":{"audience":["user"],"priority":0.5}},{"type":"image","data":"AAAA","mimeType":"image/png"},` +
				`{"type":"resource","resource":{"uri":"tool://payments/","blob":"AAAA","mimeType":"audio/wav"}},` +
				`{"type":"resource","resource":{"uri":"x://y","mimeType":"text/plain","text":"t"}},{"type":"text","text":"z: x://z"}],"isError":true}`,
			protocol.V20250326: `{"content":[{"type":"text","text":"hello","annotations":{"audience":["user"],"priority":0.5}},{"type":"image","data":"AAAA","mimeType":"image/png"},` +
				`{"type":"audio","data":"AAAA","mimeType":"audio/wav"},` +
				`{"type":"resource","resource":{"uri":"x://y","mimeType":"text/plain","text":"t"}},{"type":"text","text":"z: x://z"}],"isError":true}`,
			protocol.V20250618: `{"content":[{"type":"text","text":"hello","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z"},"_meta":{"a":1}},` +
				`{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},` +
				`{"type":"resource","resource":{"uri":"x://y","mimeType":"text/plain","text":"t","_meta":{}}},{"type":"resource_link","uri":"x://z","name":"z","size":3}],"isError":true}`,
			protocol.V20260728: `{"content":[{"type":"text","text":"hello","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z"},"_meta":{"a":1}},` +
				`{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},` +
				`{"type":"resource","resource":{"uri":"x://y","mimeType":"text/plain","text":"t","_meta":{}}},` +
				`{"type":"resource_link","uri":"x://z","name":"z","size":3,"icons":[{"src":"https://example.com/i.png"}]}],"structuredContent":[1],"isError":true,"resultType":"complete"}`,
		}},
		{"structured-alone", `{"structuredContent":{"a":1},"resultType":"complete"}`, map[protocol.Revision]string{
			protocol.V20250326: `{"content":[{"type":"text","text":"{\"a\":1}"}]}`,
			protocol.V20251125: `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`,
			protocol.V20260728: `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"resultType":"complete"}`,
		}},
		{"array-without-content", `{"content":[],"structuredContent":[{"id":7}]}`, map[protocol.Revision]string{
			protocol.V20241105: `{"content":[{"type":"text","text":"[{\"id\":7}]"}]}`,
			protocol.V20251125: `{"content":[{"type":"text","text":"[{\"id\":7}]"}]}`,
			protocol.V20260728: `{"content":[],"structuredContent":[{"id":7}],"resultType":"complete"}`,
		}},
		{"object-without-content", `{"content":[],"structuredContent":{"id":7}}`, map[protocol.Revision]string{
			protocol.V20250326: `{"content":[{"type":"text","text":"{\"id\":7}"}]}`,
			protocol.V20250618: `{"content":[],"structuredContent":{"id":7}}`,
		}},
		{"number-beside-an-image", `{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":7}`, map[protocol.Revision]string{
			protocol.V20250618: `{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"7"}]}`,
			protocol.V20260728: `{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":7,"resultType":"complete"}`,
		}},
		{"nothing-to-say", `{"content":[]}`, map[protocol.Revision]string{
			protocol.V20251125: `{"content":[]}`,
			protocol.V20260728: `{"content":[],"resultType":"complete"}`,
		}},
	} {
		e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) { answerNative(w, c.result) })
		for v, want := range c.want {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				body := newClient(t, e, v, `{}`).call(t, "native", `{}`)
				resultOf(t, v, body)
				got, meta := withoutMeta(t, body)
				if !sameJSON(t, got, want) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if c.rule == "every-block" && (!strings.Contains(meta, `"com.example/a":1`) || strings.Contains(meta, `serverInfo":{}`) || strings.Contains(meta, `call":"x"`)) {
					t.Errorf("_meta is %s", meta)
				}
			})
		}
	}
}

// withoutMeta returns the result of a response, and its _meta apart.
func withoutMeta(t *testing.T, body []byte) (result, meta string) {
	t.Helper()
	var a struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	meta = string(a.Result["_meta"])
	delete(a.Result, "_meta")
	rest, _ := json.Marshal(a.Result)
	return string(rest), meta
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var one, other any
	if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &other) != nil {
		t.Fatalf("not JSON: %s or %s", a, b)
	}
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(other)
	return string(x) == string(y)
}

// A malformed native result becomes a failed tool result that contains the path of the problem.
func TestNativeResult_malformed(t *testing.T) {
	for rule, c := range map[string]struct{ result, want string }{
		"not-json":          {`{`, "JSON"},
		"duplicate-member":  {`{"content":[],"content":[]}`, "JSON"},
		"surrogate":         {`{"content":[{"type":"text","text":"\ud800"}]}`, "JSON"},
		"array":             {`[]`, "object array"},
		"empty":             {``, "JSON"},
		"prompt":            {`{"messages":[]}`, "content structuredContent"},
		"content-object":    {`{"content":{}}`, "content array"},
		"block-number":      {`{"content":[7]}`, "content[0] object"},
		"block-untyped":     {`{"content":[{"type":"text","text":""},{"text":"x"}]}`, `content[1] type`},
		"no-text":           {`{"content":[{"type":"text"}]}`, "content[0] text missing"},
		"base64":            {`{"content":[{"type":"image","data":"*","mimeType":"image/png"}]}`, "data Base64 0"},
		"base64-cut":        {`{"content":[{"type":"image","data":"AAA","mimeType":"image/png"}]}`, "data Base64 padding"},
		"resource-both":     {`{"content":[{"type":"resource","resource":{"uri":"x://y","text":"","blob":""}}]}`, "resource text blob"},
		"resource-relative": {`{"content":[{"type":"resource","resource":{"uri":"/y","text":""}}]}`, "uri scheme"},
		"resource-string":   {`{"content":[{"type":"resource","resource":"x"}]}`, "resource object string"},
		"link-nameless":     {`{"content":[{"type":"resource_link","uri":"x://y"}]}`, "content[0] name missing"},
		"audience":          {`{"content":[{"type":"text","text":"","annotations":{"audience":["all"]}}]}`, "annotations .audience"},
		"priority":          {`{"content":[{"type":"text","text":"","annotations":{"priority":7}}]}`, "annotations .priority"},
		"is-error":          {`{"content":[],"isError":"yes"}`, "isError"},
		"meta":              {`{"content":[],"_meta":[]}`, "_meta object"},
		"result-type":       {`{"content":[],"resultType":"task"}`, "resultType complete input_required"},
		"error-code":        {`{"error":{"code":1.5,"message":"x"}}`, "error.code integer"},
		"error-range":       {`{"error":{"code":99999999999,"message":"x"}}`, "error.code integer"},
		"error-silent":      {`{"error":{"code":1}}`, "error.message"},
		"error-string":      {`{"error":"no"}`, "error.code"},
		"asks-nothing":      {`{"resultType":"input_required"}`, "inputRequests requestState"},
		"asks-array":        {`{"resultType":"input_required","inputRequests":[]}`, "inputRequests object"},
		"asks-string":       {`{"resultType":"input_required","inputRequests":{"a":"b"}}`, "inputRequests object string"},
		"asks-unknown":      {`{"resultType":"input_required","inputRequests":{"a":{"method":"tools/list","params":{}}}}`, "method tools/list"},
		"asks-no-params":    {`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}`, "params object"},
		"form-no-message":   {`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}`, "params.message"},
		"form-no-schema":    {`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":""}}}}`, "params.requestedSchema"},
		"form-nested": {
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"","requestedSchema":{"type":"object","properties":{"o":{"type":"object"}}}}}}}`,
			`properties["o"].type`,
		},
		"form-mode":      {`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"","mode":"voice"}}}}`, "params.mode"},
		"url-relative":   {`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"","mode":"url","url":"/x"}}}}`, "params.url"},
		"sample-nothing": {`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"maxTokens":1}}}}`, "params.messages"},
		"sample-endless": {`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[]}}}}`, "params.maxTokens"},
		"sample-role":    {`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"system","content":{}}]}}}}`, "role"},
		"state-number":   {`{"resultType":"input_required","requestState":1}`, "requestState string"},
		"state-large":    {`{"resultType":"input_required","requestState":"` + strings.Repeat("x", elicit.MaxState+1) + `"}`, "requestState bytes"},
	} {
		e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) { answerNative(w, c.result) })
		for _, v := range []protocol.Revision{protocol.V20241105, protocol.V20251125, protocol.V20260728} {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				got := resultOf(t, v, newClient(t, e, v, `{}`).call(t, "native", `{}`))
				if text := words(got); !got.IsError || !testkit.ContainsAll(text, "POST /native "+c.want) {
					t.Errorf("got %q, want the words %s", text, c.want)
				}
			})
		}
	}
}

// TestNativeResult_passes_on_what_is_harmless: the API has processed the call, so the client gets what it says.
func TestNativeResult_passes_on_what_is_harmless(t *testing.T) {
	for rule, c := range map[string]struct{ result, want string }{
		"empty":           {`{}`, ""},
		"nulls":           {`{"content":null,"structuredContent":null,"isError":null,"_meta":null,"error":null,"resultType":null}`, ""},
		"null beside":     {`{"content":null,"structuredContent":{"a":7}}`, `{"a":7}`},
		"text":            {`{"content":"plain"}`, "plain"},
		"text in content": {`{"content":["plain"]}`, "plain"},
		"old result":      {`{"toolResult":{"a":7}}`, `{"a":7}`},
		"unknown block":   {`{"content":[{"type":"video","data":"AAAA"},{"type":"text","text":"after"}]}`, `"video" AAAA after`},
		"odd URI":         {`{"content":[{"type":"resource_link","uri":"mem://a/b c?ü=<1>","name":"n","title":null}]}`, "mem://a/b c?ü=<1>"},
		"embedded":        {`{"content":[{"type":"resource","resource":{"uri":"mem:ü","text":"x","blob":null,"mimeType":null},"annotations":null}]}`, "mem:ü"},
	} {
		e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) { answerNative(w, c.result) })
		for _, v := range []protocol.Revision{protocol.V20241105, protocol.V20251125, protocol.V20260728} {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				body := newClient(t, e, v, `{}`).call(t, "native", `{}`)
				got := resultOf(t, v, body)
				if text := words(got) + string(body); got.IsError || !testkit.ContainsAll(strings.ReplaceAll(text, `\"`, `"`), c.want) {
					t.Errorf("got %s, want %s", body, c.want)
				}
			})
		}
	}
}

// Icons in native results are checked like those of the configuration, because clients show them.
func TestNative_icons_are_checked(t *testing.T) {
	for rule, c := range map[string]struct{ icon, want string }{
		"script":      {`{"src":"javascript:alert(1)"}`, "icons […] source"},
		"nothing":     {`{}`, "icons […] source"},
		"sizes":       {`{"src":"https://e.example/i","sizes":"48x48"}`, "icons […] sizes array"},
		"theme":       {`{"src":"https://e.example/i","theme":1}`, "icons […] theme string"},
		"other-theme": {`{"src":"https://e.example/i","theme":"red"}`, "icons […] light dark"},
	} {
		e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			answerNative(w, `{"content":[{"type":"resource_link","uri":"x://y","name":"y","icons":[`+c.icon+`]}]}`)
		})
		for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
			got := resultOf(t, v, newClient(t, e, v, `{}`).call(t, "native", `{}`))
			if text := words(got); !got.IsError || !testkit.ContainsAll(text, c.want) {
				t.Errorf("%s in %v: got %q, want the words %s", rule, v, text, c.want)
			}
		}
	}
}

func TestNativeError(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", content.NativeType)
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"code":-32002,"message":"no such thing","data":{"uri":"x"}}}`)
	})
	for _, v := range revisions {
		body := newClient(t, e, v, `{}`).call(t, "native", `{}`)
		validate(t, v, "", body)
		if !strings.Contains(string(body), `"error":{"code":-32002,"message":"no such thing","data":{"uri":"x"}}`) {
			t.Errorf("%v: %s", v, body)
		}
	}
}

// Results are passed on as native ones only for operations that declare the media type. Only these
// operations get the client's capabilities.
func TestNative_is_declared(t *testing.T) {
	e := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			for name := range r.Header {
				if strings.HasPrefix(name, "Mcp-") {
					t.Errorf("the API got the header %s", name)
				}
			}
		} else if got := r.Header.Get(elicit.HeaderCapabilities); got != `{"sampling":{},"elicitation":{"form":{}}}` {
			t.Errorf("the API got %q", got)
		}
		answerNative(w, `{"content":[{"type":"text","text":"hi"}]}`)
	})
	c := newClient(t, e, protocol.V20260728, `{"sampling":{},"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`)
	if got := words(resultOf(t, protocol.V20260728, c.call(t, "plain", `{}`))); !strings.HasPrefix(got, `{"content"`) {
		t.Errorf("got %q", got)
	}
	if got := words(resultOf(t, protocol.V20260728, c.call(t, "native", `{}`))); got != "hi" {
		t.Errorf("got %q", got)
	}
}
