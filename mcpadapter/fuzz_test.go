package mcpadapter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// FuzzServeHTTP holds for any request: there is one answer, it is JSON or empty,
// and the id of a message that could be read comes back as it was.
func FuzzServeHTTP(f *testing.F) {
	for _, v := range revisions {
		for _, r := range []testRequest{
			conformant(v, "tools/list", `"cursor":"x"`),
			conformant(v, "tools/call", `"name":"get_trip","arguments":{"id":"\ud83d\ude00"}`),
			conformant(v, "initialize", `"protocolVersion":"2025-06-18"`),
			conformant(v, "server/discover", ``),
		} {
			f.Add(r.body, v.String(), r.header[methodHeader], r.header[nameHeader], "http://api.example.com")
		}
	}
	f.Add(`[{"jsonrpc":"2.0","id":1,"method":"ping"},1,[],{}]`, "", "", "", "")
	f.Add(`{"jsonrpc":"2.0","id":1e400,"method":""}`, "2030-01-01", "\x00", "=?base64?AA==?=", "null")
	f.Add(`{"jsonrpc":"2.0","id":1e400,"method":""}`, "2025-11-25", "", "", "")
	f.Add(`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "2025-11-25", "", "", "")
	f.Add(`{"jsonrpc":"2.0","id":"\ud800","result":{}}`, "2025-11-25", "", "=?base64??=", "://")
	server, tools := New(Options{MaxBody: 64 << 10, PageSize: 2}), trains()
	f.Fuzz(func(t *testing.T, body, version, method, name, origin string) {
		r := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", strings.NewReader(body))
		for field, value := range map[string]string{
			"Content-Type": "application/json", versionHeader: version, methodHeader: method, nameHeader: name, "Origin": origin,
		} {
			if value != "" {
				r.Header[field] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r, siteOf(tools, echo))
		checkAnswer(t, w)
		if w.Code == http.StatusForbidden || w.Code == http.StatusRequestEntityTooLarge || w.Body.Len() == 0 {
			return
		}
		var sent struct {
			ID jsontext.Value `json:"id"`
		}
		if strictjson.Unmarshal([]byte(body), &sent) != nil || !protocol.IsID(sent.ID) {
			return
		}
		var got struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.ID) != string(sent.ID) {
			t.Errorf("id %s came back as %s", sent.ID, got.ID)
		}
	})
}
