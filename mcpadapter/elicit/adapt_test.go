package elicit

import (
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// A request for a model says in an old revision what it can say there.
func TestAdaptSampling(t *testing.T) {
	for _, c := range []struct {
		version      protocol.Revision
		params, want string // "" for a refusal
	}{
		{
			protocol.V20250618, `{"maxTokens":1,"task":{},"systemPrompt":"s","messages":[{"role":"user","content":{"type":"text","text":"a","_meta":{}},"_meta":{}},{"role":"assistant","content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}]}`,
			`{"maxTokens":1,"systemPrompt":"s","messages":[{"role":"user","content":{"type":"text","text":"a","_meta":{}}},{"role":"assistant","content":{"type":"audio","data":"","mimeType":"audio/wav"}}]}`,
		},
		{protocol.V20241105, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"a","_meta":{}}}]}`, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`},
		{protocol.V20241105, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"audio","data":"","mimeType":"audio/wav"}}]}`, ``},
		{protocol.V20250618, `{"maxTokens":1,"messages":[{"role":"user","content":[{"type":"tool_use","id":"1"}]}]}`, ``},
		{protocol.V20250618, `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text"}}]}`, ``},
	} {
		got, err := adaptSampling([]byte(c.params), c.version)
		if (err != nil) != (c.want == "") || err == nil && string(got) != c.want {
			t.Errorf("%s in %v: %s, %v", c.params, c.version, got, err)
		}
	}
}
