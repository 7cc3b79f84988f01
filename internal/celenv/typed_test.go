package celenv_test

import (
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// infer infers an expression without knowledge about its parts.
func infer(t *testing.T, expression string) celenv.Inference {
	t.Helper()
	inferred, err := environment(t, celenv.Limits{Cost: 1000}).Infer(expression, func(ast.NavigableExpr) *cel.Type { return nil })
	if err != nil {
		t.Errorf("%s: %v", expression, err)
	}
	return inferred
}

func TestInfer_constants(t *testing.T) {
	for expression, want := range map[string]ref.Val{
		`1 > 2`:                              types.False,
		`"a" in ["a", "b"]`:                  types.True,
		`v.a == 1 && false`:                  types.False,
		`false && v.a == 1`:                  types.False,
		`v.a == 1 || true`:                   types.True,
		`[1, 2].all(x, x > 1)`:               types.False,
		`v.a == 1`:                           nil,
		`true ? v.a == 1 : false`:            nil,
		`[v.a].all(x, x > 1)`:                nil,
		`v.a.exists(x, x == 1)`:              nil,
		`1 / 0 == 1`:                         nil,
		`size("abc") == 4 || v.b.all(x, !x)`: nil,
	} {
		if got := infer(t, expression).Constant; got != want {
			t.Errorf("%s: got %v, want %v", expression, got, want)
		}
	}
}

// TestInfer_is_bounded checks that an expression whose loops never end in practice takes no long time.
func TestInfer_is_bounded(t *testing.T) {
	const deep, wide = 12, 25
	items := "[1,2,3,4,5,6,7,8,9]"
	for name, expression := range map[string]string{
		"nested":   strings.Repeat(items+".all(x, ", deep) + "true" + strings.Repeat(")", deep),
		"repeated": strings.TrimSuffix(strings.Repeat("lists.range(1000).all(x, x < 1000) && ", wide), "&& "),
	} {
		ended := make(chan celenv.Inference, 1)
		go func() { ended <- infer(t, expression) }()
		select {
		case got := <-ended:
			if got.Constant != nil {
				t.Errorf("%s: got %v, want no value", name, got.Constant)
			}
		case <-time.After(testkit.Patience):
			t.Errorf("%s: takes longer than %s", name, testkit.Patience)
		}
	}
}
