package stdio

import (
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/route"
)

func TestSelectEndpoint(t *testing.T) {
	var endpoints []endpoint
	for _, path := range []string{"/mcp", "/gw/mcp", "/other"} {
		endpoints = append(endpoints, endpoint{tools: &route.Endpoint{Path: path}})
	}
	for _, c := range []struct{ rule, path, want string }{
		{"exact path", "/mcp", "/mcp"},
		{"exact path that another one ends", "/gw/mcp", "/gw/mcp"},
		{"longest suffix", "/site/gw/mcp", "/gw/mcp"},
		{"suffix", "/site/mcp/", "/mcp"},
		{"no endpoint", "/none", ""},
		{"no path", "", ""},
	} {
		selected, err := selectEndpoint(endpoints, "", c.path)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s: got %s, want an error", c.rule, selected)
		case c.want != "" && (err != nil || selected.tools.Path != c.want):
			t.Errorf("%s: got %v and the error %v, want %s", c.rule, selected, err, c.want)
		}
	}
}
