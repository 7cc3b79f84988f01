package siteroutes

import (
	"encoding/json"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestMay_reach_upstream(t *testing.T) {
	for name, test := range map[string]struct {
		routes string
		want   bool
	}{
		"alone":                         {`[{"handle":[{"handler":"mcp"}]}]`, false},
		"before only":                   {`[{"handle":[{"handler":"static_response"},{"handler":"mcp"}]}]`, false},
		"in the same route":             {`[{"handle":[{"handler":"mcp"},{"handler":"reverse_proxy"}]}]`, true},
		"in a later route":              {`[{"handle":[{"handler":"mcp"}]},{"handle":[{"handler":"file_server"}]}]`, true},
		"behind a terminal route":       {`[{"handle":[{"handler":"mcp"}],"terminal":true},{"handle":[{"handler":"file_server"}]}]`, false},
		"other endpoints":               {`[{"handle":[{"handler":"mcp"},{"handler":"otc"},{"handler":"encode"}]}]`, false},
		"in a subroute":                 {`[{"handle":[{"handler":"mcp"},{"handler":"subroute","routes":[{"handle":[{"handler":"headers"},{"handler":"respond"}]}]}]}]`, true},
		"in a subroute, no answer":      {`[{"handle":[{"handler":"mcp"},{"handler":"subroute","routes":[{"handle":[{"handler":"headers"}]}]}]}]`, false},
		"the present one is a subroute": {`[{"handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"otc"}]}]},{"handler":"php"}]}]`, true},
		"an unknown handler":            {`[{"handle":[{"handler":"mcp"},{"handler":"made_by_someone"}]}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			var routes caddyhttp.RouteList
			if err := json.Unmarshal([]byte(test.routes), &routes); err != nil {
				t.Fatal(err)
			}
			if got := mayReachIn(routes, nil); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
