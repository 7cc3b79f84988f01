package yamltree

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestParse_errors(t *testing.T) {
	deep := strings.Repeat("[", 5) + strings.Repeat("]", 5)
	for name, test := range map[string]struct {
		text string
		line int // 0 if unknown
		want string
	}{
		"empty":                       {"", 0, "empty"},
		"comment":                     {"# nothing\n", 0, "empty"},
		"two documents":               {"a: b\n---\nc: d\n", 0, "more than one"},
		"syntax":                      {"a:\n  - b\n c\n", 13, "did not find"},
		"too deep":                    {"a: b\nc: " + deep, 12, "4 levels"},
		"anchor":                      {"a:\n- &b c\n", 12, "anchors"},
		"never closed":                {"a:\n  [b,\n  c\n", 12, "did not find"},
		"tabs as indent":              {"a:\n\tb: c\n", 12, "cannot start any token"},
		"in a long text":              {strings.Repeat("- [a,\n   b]\n", 400) + "- c: d: e\n" + strings.Repeat("- \"f\n\n  g\"\n", 400), 811, "c: d: e quotes"},
		"in a value of several lines": {"a: [b,\n  c: d: e]\n" + strings.Repeat("f: g\n", 400), 11, "a: [b,"},
		"at the end":                  {strings.Repeat("- a\n", 400) + "\t- b\n", 411, "- b spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := Parse([]byte(test.text), Options{MaxDepth: 4, Before: 10})
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Fatalf("root %v, error %v, want %q", root, err, test.want)
			}
			located, ok := errors.AsType[*Error](err)
			if ok != (test.line > 0) || ok && located.Line != test.line {
				t.Errorf("error %v, want line %d", err, test.line)
			}
		})
	}
}

// The same content has the same nodes and lines in YAML and JSON.
func TestParse_lines(t *testing.T) {
	const text = "{\"a\":\n1,\"b\":\n[true,\nnull]}"
	options := Options{MaxDepth: 2, Before: 10}
	for name, parse := range map[string]func([]byte, Options) (*yaml.Node, error){"YAML": Parse, "JSON": ParseJSON} {
		t.Run(name, func(t *testing.T) {
			root, err := parse([]byte(text), options)
			if err != nil {
				t.Fatal(err)
			}
			a, b := Member(root, "a"), Member(root, "b")
			if got, want := [...]int{root.Line, a.Line, b.Line, b.Content[1].Line}, [...]int{11, 12, 13, 14}; got != want {
				t.Errorf("got the lines %d, want %d", got, want)
			}
			if value, ok := Bool(b.Content[0]); !value || !ok {
				t.Errorf("got %s, want true", Describe(b.Content[0]))
			}
			if c := Member(root, "c"); !IsNull(b.Content[1]) || c != nil {
				t.Errorf("got %s, want null; got the member c %v, want none", Describe(b.Content[1]), c)
			}
		})
	}
	if root, err := ParseJSON([]byte(`"\ud83d\ude82"`), options); err != nil || root.Value != "🚂" {
		t.Errorf("surrogate pair: %v, %v", root, err)
	}
}

func TestKeys(t *testing.T) {
	root, err := Parse([]byte("a: 1\nb: 2\na: 3\n7: 4\n"), Options{MaxDepth: 2})
	if err != nil {
		t.Fatal(err)
	}
	keys := make(Keys)
	for i, want := range []string{"", "", "duplicate", "string"} {
		err := keys.Add(root.Content[2*i])
		if (err == nil) != (want == "") || err != nil && !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("key %d: %v, want %q", i, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: &b [c]\nd: *b\n", "{\"a\": [1, true]}", "- &a [*a]\n", "a:\n\tb"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte, Options) (*yaml.Node, error){Parse, ParseJSON} {
			root, err := parse(data, Options{MaxDepth: 8})
			if err == nil && (root == nil || root.Line < 1) {
				t.Errorf("root %v without an error", root)
			}
		}
	})
}
