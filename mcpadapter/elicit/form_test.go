package elicit

import (
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

func TestFieldOf_form(t *testing.T) {
	called := &tools.Tool{Name: "x", Definition: tools.Definition{InputSchema: []byte(`{"$defs":{"a/b":{"$ref":"#/$defs/c"},"c":{"type":"string","enum":["x"],"title":"C"},"loop":{"$ref":"#/$defs/loop"}}}`)}}
	for _, c := range []struct {
		schema    string
		old, want string // in 2025-06-18 and since; "" for none
	}{
		{`{"type":"string"}`, `{"type":"string","title":"n"}`, `{"type":"string","title":"n"}`},
		{`{"$ref":"#/$defs/a~1b"}`, `{"type":"string","title":"C","enum":["x"]}`, `{"type":"string","title":"C","enum":["x"]}`},
		{`{"$ref":"#/$defs/loop"}`, ``, ``},
		{`{"$ref":"#/$defs/none"}`, ``, ``},
		{`{"anyOf":[{"type":"integer","minimum":1,"maximum":9},{"type":"null"}]}`, `{"type":"integer","title":"n","minimum":1,"maximum":9}`, `{"type":"integer","title":"n","minimum":1,"maximum":9}`},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, ``, ``},
		{`{"type":["number","null"],"default":1.5,"minLength":1}`, `{"type":"number","title":"n"}`, `{"type":"number","title":"n","default":1.5}`},
		{`{"type":["number","string"]}`, ``, ``},
		{`{"type":"boolean","default":true,"description":"sure?"}`, `{"type":"boolean","title":"n","description":"sure?","default":true}`, `{"type":"boolean","title":"n","description":"sure?","default":true}`},
		{
			`{"type":"string","default":"a","format":"date","pattern":"a","minLength":1,"maxLength":2}`,
			`{"type":"string","title":"n","format":"date","minLength":1,"maxLength":2}`, `{"type":"string","title":"n","default":"a","format":"date","minLength":1,"maxLength":2}`,
		},
		{`{"type":"string","default":1,"format":"uuid","enum":["a",null],"minLength":1.5}`, `{"type":"string","title":"n"}`, `{"type":"string","title":"n"}`},
		{`{"type":"integer","enum":[1,2],"default":"x"}`, `{"type":"integer","title":"n"}`, `{"type":"integer","title":"n"}`},
		{`{"type":"object"}`, ``, ``},
		{`{}`, ``, ``},
		{`true`, ``, ``},
	} {
		a := &tools.Argument{Name: "n", Schema: []byte(c.schema)}
		for v, want := range map[protocol.Revision]string{protocol.V20250618: c.old, protocol.V20251125: c.want, protocol.V20260728: c.want} {
			if got := string(fieldOf(called, a, v)); got != want {
				t.Errorf("%s in %v: %s", c.schema, v, got)
			}
		}
	}
}
