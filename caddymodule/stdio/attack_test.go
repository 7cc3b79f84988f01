package stdio

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/route"
)

// TestOAgent_no_bypass_by_stdio calls a forbidden tool, and a good one, on standard
// input.
func TestOAgent_no_bypass_by_stdio(t *testing.T) {
	var reached atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/trips" {
			reached.Add(1)
		}
		_, _ = w.Write([]byte("fine"))
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("trips.yaml", `openapi: 3.1.0
info: {title: Trips, version: 1.2.3}
paths:
  /trips: {get: {operationId: listTrips, responses: {"200": {description: ok}}}}
  /trips/1: {delete: {operationId: deleteTrip, responses: {"204": {description: ok}}}}
`)
	write("agent.yaml", "kind: openagentspec:v1/agent\nname: desk\ndescription: Works at the desk.\nintent: You work.\nowner: tests\ncapabilities:\n  list-trips: {user_identity: false}\n")
	write("Caddyfile", fmt.Sprintf("{\n\tadmin off\n\tagents {\n\t\tstore bolt %[1]s/store.db\n\t}\n}\nhttp://127.0.0.1 {\n\tmcp %[1]s/trips.yaml\n\toagent %[1]s/agent.yaml\n\treverse_proxy %[2]s\n}\n",
		dir, strings.TrimPrefix(api.URL, "http://")))

	cmd := new(cobra.Command)
	callFlags(cmd)
	if err := cmd.Flags().Set("config", filepath.Join(dir, "Caddyfile")); err != nil {
		t.Fatal(err)
	}
	site, err := openOfflineSite(caddycmd.Flags{FlagSet: cmd.Flags()}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer site.close()
	var out strings.Builder
	call := func(id int, tool string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`+"\n", id, tool)
	}
	in := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + call(1, "deleteTrip") + call(2, "listTrips")
	if err := site.serveStdio(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the API was called %d times, want 0", n)
	}
	for _, want := range []string{`"kind":"not_allowed"`, "delete-trip", "fine"} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
