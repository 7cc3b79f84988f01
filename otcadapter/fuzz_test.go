package otcadapter

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// FuzzServeHTTP wants an answer to everything: valid JSON with a message or an
// outcome, and tools called with JSON objects only.
func FuzzServeHTTP(f *testing.F) {
	f.Add("POST", "/call", "application/json", []byte(`{"request":{"call_id":"c","tool_id":"Calculator.Add@1.0.0","input":{"a":1,"b":2}}}`), []byte(`{"sum":3}`))
	f.Add("POST", "/call", "application/json", []byte(`{"tool_id":"Calculator.Add","inputs":{}}`), []byte("\xff"))
	f.Add("POST", "/call", "application/json; charset=utf-8", []byte(`{"tool_id":"Calculator.Add@latest"`), []byte(""))
	f.Add("POST", "/call", "text/plain", []byte(`null`), []byte("[[["))
	f.Add("POST", "/tools/call", "application/json", []byte(`{"$schema":"x","request":{"tool_id":"Calculator.Add","context":{"secrets":[{"id":"k","value":"v"}]}}}`), []byte("1"))
	f.Add("GET", "/tools", "application/json", []byte(`{"$schema":"x"}`), []byte("null"))
	f.Add("GET", "/tools", "", []byte(`{}`), []byte("null"))
	f.Add("PUT", "/health", "", []byte(nil), []byte(nil))
	f.Add("GET", "/\x00\xff", "", []byte(nil), []byte(nil))
	s, toolset := New(Options{MaxBody: 1 << 16}), calculator()
	f.Fuzz(func(t *testing.T, method, endpoint, contentType string, body, result []byte) {
		caller := callerFunc(func(_ context.Context, called string, arguments []byte) tools.Outcome {
			if !isWord(called) {
				t.Errorf("called %q", called)
			}
			if members, err := strictjson.Members(nil, arguments); len(arguments) > 0 && err != nil {
				t.Errorf("called with %q (%v): %v", arguments, members, err)
			}
			return tools.Outcome{Result: jsonResult(string(result))}
		})
		request := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		request.Method = method
		request.Header.Set("Content-Type", contentType)
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, request, endpoint, siteOf(toolset, caller))
		answer := recorder.Body.Bytes()
		if !json.Valid(answer) || !utf8.Valid(answer) {
			t.Fatalf("status %d, invalid answer %q", recorder.Code, answer)
		}
		if recorder.Code != 200 && !bytes.Contains(answer, []byte(`"message":"`)) {
			t.Errorf("status %d without a message: %s", recorder.Code, answer)
		}
	})
}
