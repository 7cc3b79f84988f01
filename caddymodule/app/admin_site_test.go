package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestAdmin_lists_toolsets_without_global_options(t *testing.T) {
	s := sitetest.NewSite(t)
	admin := sitetest.StartAdmin(s, `{
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
