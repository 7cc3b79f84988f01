package tools

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestTool_JSON: a tool is written as the OCP tool schema has it and read back whole, but it
// cannot be called then.
func TestTool_JSON(t *testing.T) {
	tool, _ := buildTools(t, testkit.Shop, BuildOptions{}).Tool("getOrder")
	type stored struct{ Tool *Tool }
	text, err := json.Marshal(stored{tool})
	if want := `{"Tool":` + string(tool.AppendOCP(nil)) + `}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	var again stored
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	facts := func(t *Tool) [5]string {
		return [...]string{t.Name, t.Definition.Description, t.Plan.Method, t.Plan.Path, t.Definition.OperationID}
	}
	if got, want := facts(again.Tool), facts(tool); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if twice, err := json.Marshal(again); err != nil || string(twice) != string(text) {
		t.Errorf("got %s, %v\nwant %s", twice, err, text)
	}
	if _, err := again.Tool.Bind([]byte(`{}`)); !errors.Is(err, errToolRead) {
		t.Errorf("a call of it: %v", err)
	}
	for _, bad := range []string{`[]`, `{}`, `{"name":"a","method":"GET"}`, `{"name":7,"method":"GET","path":"/"}`, `7`} {
		kept := Tool{Name: "before"}
		if err := json.Unmarshal([]byte(bad), &kept); err == nil || kept.Name != "before" {
			t.Errorf("%s: %v, %q", bad, err, kept.Name)
		}
	}
}
