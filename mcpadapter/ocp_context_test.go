package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/tool"
)

func TestContextInMeta(t *testing.T) {
	const session = "eyJjb250ZXh0X2lkIjoib2NwLTEifQ=="
	for rule, c := range map[string]struct {
		meta  string
		want  map[string]string // headers of the call's context; nil if it has none
		valid bool
	}{
		"none":         {`{"traceparent":"00-1"}`, nil, false},
		"all":          {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":"ide","org.opencontextprotocol/current-goal":"fix \"it\"","org.opencontextprotocol/user":"ada","org.opencontextprotocol/workspace":"w","org.opencontextprotocol/version":"1.0","org.opencontextprotocol/session":"` + session + `"}`, map[string]string{ocp.HeaderContextID: "ocp-1", ocp.HeaderAgentType: "ide", ocp.HeaderCurrentGoal: `fix "it"`, ocp.HeaderUser: "ada", ocp.HeaderWorkspace: "w", ocp.HeaderVersion: "1.0", ocp.HeaderSession: session}, true},
		"unknown-key":  {`{"org.opencontextprotocol/mood":"good"}`, nil, false},
		"no-key":       {`{"org.opencontextprotocol/":"x"}`, nil, false},
		"wrong-type":   {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":7}`, map[string]string{ocp.HeaderContextID: "ocp-1"}, false},
		"invalid":      {`{"org.opencontextprotocol/context-id":"a b","org.opencontextprotocol/user":"x\r\nHost: evil"}`, map[string]string{}, false},
		"split-header": {`{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/session":"eyJj\r\nHost: evil"}`, map[string]string{ocp.HeaderContextID: "ocp-1"}, false},
	} {
		t.Run(rule, func(t *testing.T) {
			in := readContext([]byte(c.meta))
			if (in == nil) != (c.want == nil) {
				t.Fatalf("got %+v", in)
			}
			if in == nil {
				return
			}
			header := http.Header{}
			in.Set(header)
			if len(header) != len(c.want) || in.Valid() != c.valid {
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

// A result tells of the context in _meta exactly if the call brought its own.
func TestReplyInMeta(t *testing.T) {
	for rule, meta := range map[string]string{
		"own":     `"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":"ide"`,
		"without": ``,
	} {
		for _, v := range []revision.Revision{revision.V20250326, revision.V20250618, revision.V20251125} {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				var seen *ocp.Incoming
				r := conformant(v, "tools/call", `"name":"get_trip","arguments":{},"_meta":{`+meta+`}`)
				r.caller = callerFunc(func(ctx context.Context, _ string, _ []byte) tool.Outcome {
					seen = ocp.IncomingFromContext(ctx)
					outcome := answered(http.StatusOK, "application/json", `{}`)
					outcome.Result.Header[ocp.HeaderContextID] = []string{"ocp-1"}
					outcome.Result.Header[ocp.HeaderSession] = []string{"abc="}
					outcome.Result.Header[ocp.HeaderVersion] = []string{"1.0"}
					return outcome
				})
				var got struct {
					Meta json.RawMessage `json:"_meta"`
				}
				r.result(t, "CallToolResult", &got)
				want := ""
				if meta != "" {
					want = `{"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/version":"1.0","org.opencontextprotocol/session":"abc="}`
				}
				if string(got.Meta) != want || (seen != nil) != (meta != "") {
					t.Errorf("got %s, want %s; the call saw %v", got.Meta, want, seen)
				}
			})
		}
	}
}
