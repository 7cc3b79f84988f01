package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/ocp/callcontext"
	"github.com/fairwayhq/fairway/tools"
)

// A result has the context in _meta exactly if the call had one.
func TestReply_in_meta(t *testing.T) {
	for rule, meta := range map[string]string{
		"own":     `"org.opencontextprotocol/context-id":"ocp-1","org.opencontextprotocol/agent-type":"ide"`,
		"without": ``,
	} {
		for _, v := range []protocol.Revision{protocol.V20250326, protocol.V20250618, protocol.V20251125} {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				var seen http.Header
				r := conformant(v, "tools/call", `"name":"get_trip","arguments":{},"_meta":{`+meta+`}`)
				r.caller = callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
					seen = callcontext.FromContext(ctx)
					outcome := answered(http.StatusOK, "application/json", `{}`)
					outcome.Result.Header[callcontext.HeaderContextID] = []string{"ocp-1"}
					outcome.Result.Header[callcontext.HeaderSession] = []string{"abc="}
					outcome.Result.Header[callcontext.HeaderVersion] = []string{"1.0"}
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
