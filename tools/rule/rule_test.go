package rule

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/tools"
)

func TestCompile_rejects_rules_that_are_never_right(t *testing.T) {
	for rule, word := range map[string]string{
		``: "empty", `tool.nam == "x"`: "nam", `tool["nam"] == "x"`: "nam", `users.id == "x"`: "users", `1 + 1`: "type", `user.roles == []`: "roles", `true &&`: "Syntax",
	} {
		if _, err := Compile(rule); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want an error with %q", rule, err, word)
		}
	}
	if _, err := Compile(`user.groups.exists(tool, tool.any == "x")`); err != nil {
		t.Errorf("a variable of a loop: %v", err)
	}
}

// BenchmarkLists evaluates a rule for a list of 1,000 tools, as for the first request of a user.
func BenchmarkLists(b *testing.B) {
	r, err := Compile(`tool.readOnly || "ops" in user.groups && arguments.amount < 100`)
	if err != nil {
		b.Fatal(err)
	}
	user := &identity.User{ID: "ada", Groups: []string{"dev", "ops"}}
	all := make([]tools.Tool, 1000)
	for b.Loop() {
		of := NewSubject(user)
		for i := range all {
			if !r.Lists(of, &all[i], "t") {
				b.Fatal("not listed")
			}
		}
	}
}
