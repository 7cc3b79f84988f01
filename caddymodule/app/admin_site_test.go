package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestAdmin_lists_toolsets_without_global_options(t *testing.T) {
	s := sitetest.NewSite(t)
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	caddyfile := strings.NewReplacer("DIR", s.Dir, "PORT", fmt.Sprint(s.Port), "ADMIN", admin).Replace(`{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
}
http://127.0.0.1:PORT {
	mcp DIR/trips.yaml
	respond OK
}
`)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	response, err := sitetest.Client.Get("http://" + admin + "/agents/toolsets")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"name":"getTrip"`) {
		t.Errorf("%d %s, %v", response.StatusCode, body, err)
	}
}
