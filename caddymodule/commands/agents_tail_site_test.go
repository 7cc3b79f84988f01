package commands_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestAdmin_follows_calls checks that the admin endpoint sends calls while they end: those that the
// query asks for, with the arguments that the configuration allows.
func TestAdmin_follows_calls(t *testing.T) {
	s := sitetest.NewSite(t)
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	load := func(comment string) {
		caddyfile := strings.NewReplacer("DIR", s.Dir, "PORT", fmt.Sprint(s.Port), "ADMIN", admin, "COMMENT", comment).Replace(`{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
	agents {
		store bolt DIR/store.db
		calls {
			arguments id
		}
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	mcp /mcp DIR/trips.yaml
	respond OK COMMENT
}
`)
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatal(err)
		}
		if err := caddy.Load(config, true); err != nil {
			t.Fatal(err)
		}
	}
	load("200")
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	call := func(name, arguments string) {
		t.Helper()
		a := s.Request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18")
		if a.Status != http.StatusOK {
			t.Fatalf("calling %s: %d %s", name, a.Status, a.Body)
		}
	}
	response, err := sitetest.Client.Get("http://" + admin + "/agents/calls?tool=getTrip")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	call("noSuchTool", `{}`)
	call("getTrip", `{"id":"7","secret":"x"}`)
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() {
		t.Fatal("the admin endpoint sent no call")
	}
	var got calllog.Call
	if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tool != "getTrip" || string(got.Arguments) != `{"id":"7"}` {
		t.Errorf("the call is %s, want getTrip with the argument id only", lines.Bytes())
	}
	load("201") // another configuration ends the response
	for lines.Scan() {
		if text := lines.Text(); text != "" {
			t.Errorf("a further line: %s", text)
		}
	}
}
