package modelapi

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// TestNames maps names that an API does not allow to different ones, in any order of the tools.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	tools := []model.Tool{{Name: "a.b"}, {Name: "a_b"}, {Name: "a-b"}, {Name: "c.d"}, {Name: long + "1"}, {Name: long + "2"}, {Name: "ü"}}
	names := newNames(tools)
	reversed := make([]model.Tool, len(tools))
	for i, tool := range tools {
		reversed[len(tools)-1-i] = tool
	}
	other := newNames(reversed)
	seen := make(map[string]bool)
	for _, tool := range tools {
		mapped := names.ToAPI(tool.Name)
		if seen[mapped] || len(mapped) > 64 {
			t.Errorf("%q becomes %q, which is too long or not unique", tool.Name, mapped)
		}
		seen[mapped] = true
		if got := names.FromAPI(mapped); got != tool.Name {
			t.Errorf("%q becomes %q, and that %q", tool.Name, mapped, got)
		}
		if got := other.ToAPI(tool.Name); got != mapped {
			t.Errorf("%q becomes %q or %q, depending on the order of the tools", tool.Name, mapped, got)
		}
	}
	for name, want := range map[string]string{"a_b": "a_b", "a-b": "a-b", "c.d": "c_d", "unknown tool": "unknown_tool", "": "_"} {
		if got := names.ToAPI(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if got := names.FromAPI("made up"); got != "made up" {
		t.Errorf("an unknown name of the model becomes %q", got)
	}
}
