package mcpadapter

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/callcontext"
)

func TestContext_in_meta(t *testing.T) {
	const session = "eyJjb250ZXh0X2lkIjoib2NwLTEifQ=="
	for rule, c := range map[string]struct {
		meta  string
		want  map[string]string // headers of a request with the call's context; nil if it has none
		valid bool
	}{
		"none":         {`{"traceparent":"00-1"}`, nil, false},
		"all":          {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":"ide","org.opencontextprotocol/current-goal":"fix \"it\"","org.opencontextprotocol/user":"ada","org.opencontextprotocol/workspace":"w","org.opencontextprotocol/version":"1.0","org.opencontextprotocol/session":"` + session + `"}`, map[string]string{ocp.HeaderContextID: "ocp-1", ocp.HeaderAgentType: "ide", ocp.HeaderCurrentGoal: `fix "it"`, ocp.HeaderUser: "ada", ocp.HeaderWorkspace: "w", ocp.HeaderVersion: "1.0", ocp.HeaderSession: session}, true},
		"unknown-key":  {`{"org.opencontextprotocol/mood":"good"}`, nil, false},
		"no-key":       {`{"org.opencontextprotocol/":"x"}`, nil, false},
		"wrong-type":   {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":7}`, map[string]string{ocp.HeaderContextID: "ocp-1"}, false},
		"invalid":      {`{"org.opencontextprotocol/context-id":"a\u0000","org.opencontextprotocol/user":"x\r\nHost: evil"}`, map[string]string{}, false},
		"too-long":     {`{"org.opencontextprotocol/session":"` + strings.Repeat("a", ocp.MaxSession+1) + `"}`, map[string]string{}, false},
		"split-header": {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/session":"eyJj\r\nHost: evil"}`, map[string]string{ocp.HeaderContextID: "ocp-1"}, false},
	} {
		t.Run(rule, func(t *testing.T) {
			call := readOCP([]byte(c.meta))
			if (call == nil) != (c.want == nil) {
				t.Fatalf("got %+v", call)
			}
			header := http.Header{}
			callcontext.Set(header, call)
			if in := ocp.ReadHeaders(header, ocp.ReadOptions{}); len(header) != len(c.want) || in.Valid() != c.valid {
				t.Errorf("valid %t, got %v, want %v", in.Valid(), header, c.want)
			}
			for key, value := range c.want {
				if header.Get(key) != value {
					t.Errorf("%s: got %q, want %q", key, header.Get(key), value)
				}
			}
		})
	}
}
