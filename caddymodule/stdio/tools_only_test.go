package stdio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/route"
)

func TestToolsOnly_lets_tool_calls_of_standard_input_through(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"trips.yaml": "openapi: 3.1.0\ninfo: {title: Trips, version: 1.2.3}\npaths:\n  /trips: {get: {operationId: listTrips}}\n",
		"Caddyfile":  "{\n\tadmin off\n}\nhttp://127.0.0.1 {\n\tmcp " + dir + "/trips.yaml {\n\t\tcredential header X-Key secret\n\t}\n\ttools_only\n\trespond \"the API\"\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	message := func(id int, method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	}
	var out strings.Builder
	in := message(0, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`) +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + message(1, "tools/call", `{"name":"listTrips","arguments":{}}`)
	if err := site.serveStdio(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "the API") {
		t.Errorf("got %s", out.String())
	}
}
