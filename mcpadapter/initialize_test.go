package mcpadapter

import (
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// TestInitialize_ignores_any_session_id: a client that starts again may still send its old one. Other requests get 404.
func TestInitialize_ignores_any_session_id(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	for _, id := range []string{"of-another-server", begin(t, e.server, protocol.V20251125)} {
		r := conformant(protocol.V20251125, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
		response := e.do(t, http.MethodPost, "/mcp", r.body, map[string]string{sessionHeader: id})
		if got := response.Header.Get(sessionHeader); response.StatusCode != http.StatusOK || got == "" || got == id {
			t.Errorf("%s: status %d, session %q", id, response.StatusCode, got)
		}
	}
	header := map[string]string{sessionHeader: "of-another-server", versionHeader: "2025-11-25"}
	list := conformant(protocol.V20251125, "tools/list", "")
	for method, body := range map[string]string{http.MethodPost: list.body, http.MethodGet: "", http.MethodDelete: ""} {
		if response := e.do(t, method, "/mcp", body, header); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", method, response.StatusCode)
		}
	}
}
