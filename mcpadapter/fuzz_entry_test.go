package mcpadapter

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// FuzzStdio holds for any input: it is served to its end, and what comes out is one
// JSON value a line.
func FuzzStdio(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n[" + callBlocked + "]\n")
	f.Add("\n\r\n \x00\n{\n}\n[]\n" + callBlocked)
	f.Add(`{"jsonrpc":"2.0","id":"x","result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n")
	server, toolset := New(Options{MaxBody: 16 << 10}), trains()
	f.Fuzz(func(t *testing.T, input string) {
		var out strings.Builder
		if err := server.ServeStdio(t.Context(), strings.NewReader(input), &out, siteOf(toolset, echo)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !strings.HasSuffix(line, "\n") || !json.Valid([]byte(line)) {
				t.Errorf("wrote %q", line)
			}
		}
	})
}

// FuzzNative holds for any answer of an API that speaks MCP itself, in any
// revision: what the client gets is strict JSON.
func FuzzNative(f *testing.F) {
	f.Add(`{"content":[{"type":"audio","data":"AA==","mimeType":"a/b"},{"type":"resource","resource":{"uri":"a:b","text":""}}],"_meta":{"openai/locale":"de"}}`, `{}`)
	f.Add(`{"resultType":"input_required","requestState":"é","inputRequests":{"a":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}}}`, `{"a":{}}`)
	f.Add(`{"error":{"code":1,"message":"x","data":[]}}`, `{"fairway_arguments":{"action":"accept","content":{}}}`)
	f.Add(`{"structuredContent":[1],"isError":true}`, `[]`)
	var answer string
	toolset := buildTools(f, payments, tools.BuildOptions{Name: "payments"})
	caller := api{toolset, func(w http.ResponseWriter, _ *http.Request) { answerNative(w, answer) }}
	server := New(Options{})
	f.Fuzz(func(t *testing.T, native, responses string) {
		answer = native
		for _, v := range revisions {
			params := `"name":"native","arguments":{}`
			if strictjson.Valid([]byte(responses)) {
				params += `,"inputResponses":` + responses
			}
			r := conformant(v, "tools/call", params)
			r.server, r.tools, r.caller = server, toolset, caller
			body, err := io.ReadAll(r.Send(t).Result().Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := strictjson.Check(body); err != nil && len(native)+len(responses) < 4<<10 && strictjson.CheckDepth(body, strictjson.MaxDepth) == nil {
				t.Errorf("%v: %v in %s", v, err, body)
			}
		}
	})
}
