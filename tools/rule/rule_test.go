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

// TestRecorded decides about calls with arguments, groups and claims that are not recorded.
func TestRecorded(t *testing.T) {
	closed := &tools.Tool{Plan: tools.Plan{}, Definition: tools.Definition{Arguments: []tools.Argument{{Name: "amount"}, {Name: "note"}}}}
	open := &tools.Tool{Plan: tools.Plan{Undeclared: tools.Undeclared{Open: true}}, Definition: closed.Definition}
	known, unknown := &identity.User{ID: "ada", Groups: []string{"ops"}}, identity.Unknown("ada")
	const undecided, yes, no = "undecided", "allowed", "refused"
	for _, test := range []struct {
		rule      string
		user      *identity.User
		tool      *tools.Tool
		arguments string
		complete  bool
		want      string
	}{
		{`arguments.amount < 5`, known, closed, `{"amount":1}`, true, yes},
		{`arguments.amount < 5`, known, closed, `{"amount":9}`, false, no},
		{`arguments.amount < 5`, known, closed, `{"note":"a"}`, false, undecided},
		{`arguments.amount < 5`, known, closed, `{"note":"a"}`, true, no},
		{`has(arguments.amount)`, known, closed, `{"note":"a"}`, false, undecided},
		{`"amount" in arguments`, known, closed, `{"note":"a"}`, false, undecided},
		{`size(arguments) < 2`, known, closed, `{"note":"a"}`, false, undecided},
		{`arguments.exists(name, name == "amount")`, known, closed, `{"note":"a"}`, false, undecided},
		{`arguments.other < 5`, known, closed, `{"note":"a"}`, false, undecided},
		{`arguments.note == "a"`, known, open, `{"note":"a"}`, false, undecided},
		{`arguments.note == "a"`, known, open, `{"note":"a"}`, true, yes},
		{`user.id == "ada" || arguments.amount < 5`, known, closed, ``, false, yes},
		{`"ops" in user.groups && arguments.amount < 5`, known, closed, ``, false, undecided},
		{`"dev" in user.groups && arguments.amount < 5`, known, closed, ``, false, no},
		{`"ops" in user.groups`, unknown, closed, `{}`, true, undecided},
		{`user.claims.team == "a"`, unknown, closed, `{}`, true, undecided},
		{`user.id == "ada" || "ops" in user.groups`, unknown, closed, `{}`, true, yes},
		{`arguments.amount`, known, closed, `{"amount":true}`, true, yes},
		{`arguments.amount`, known, closed, `{"amount":1}`, true, no},
	} {
		r, err := Compile(test.rule)
		if err != nil {
			t.Fatal(err)
		}
		got := undecided
		if allowed, decided := r.Recorded(NewSubject(test.user), test.tool, "trips", []byte(test.arguments), test.complete); decided && allowed {
			got = yes
		} else if decided {
			got = no
		}
		if got != test.want {
			t.Errorf("%s with %s (complete: %t): got %s, want %s", test.rule, test.arguments, test.complete, got, test.want)
		}
	}
}
