package assertion

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestRewrite(t *testing.T) {
	names := NewNames([]string{"a-b", "a", "a-b-c", "t.a-b", "in", "x"})
	for source, want := range map[string]string{
		`recent.a-b.inputs`:                    "recent.`a-b`.inputs",
		`recent.a_b.inputs`:                    "recent.`a-b`.inputs",
		`recent.a-b-c.inputs`:                  "recent.`a-b-c`.inputs",
		`recent.a.inputs`:                      "recent.`a`.inputs",
		`recent.t.a-b.inputs`:                  "recent.`t.a-b`.inputs",
		`recent.in.inputs`:                     "recent.`in`.inputs",
		`recent.?a-b.inputs`:                   "recent.?`a-b`.inputs",
		`has(recent.a-b)`:                      "has(recent.`a-b`)",
		`history.a-b[0].inputs`:                "history.`a-b`[0].inputs",
		`history.a-b == recent.x`:              "history.`a-b` == recent.`x`",
		`history.a-b.size()-1`:                 "history.`a-b`.size()-1",
		`history._total-1`:                     `history._total-1`,
		`history.x(1) + history.x[0]`:          "history.x(1) + history.`x`[0]",
		`history.x (1)`:                        "history.x (1)",
		`recent["a-b"].inputs`:                 `recent["a-b"].inputs`,
		"recent.`a-b`.inputs":                  "recent.`a-b`.inputs",
		`recent.abc.inputs`:                    `recent.abc.inputs`,
		`o.recent.a-b`:                         `o.recent.a-b`,
		`o . recent.a-b`:                       `o . recent.a-b`,
		`recents.a-b`:                          `recents.a-b`,
		`my_recent.a-b`:                        `my_recent.a-b`,
		`recent.a-b ? recent.a : 1`:            "recent.`a-b` ? recent.`a` : 1",
		`x ?recent.a-b.inputs : 1`:             "x ?recent.`a-b`.inputs : 1",
		`"recent.a-b" + 'recent.a-b'`:          `"recent.a-b" + 'recent.a-b'`,
		`"\"recent.a-b"`:                       `"\"recent.a-b"`,
		`r"\" + recent.a-b.inputs`:             "r\"\\\" + recent.`a-b`.inputs",
		`"""a " recent.a-b""" + "b"`:           `"""a " recent.a-b""" + "b"`,
		"1 // recent.a-b\n+ recent.a":          "1 // recent.a-b\n+ recent.`a`",
		`"recent.a-b`:                          `"recent.a-b`,
		`recent.`:                              `recent.`,
		`recent`:                               `recent`,
		`recent.a-`:                            "recent.`a`-",
		`"[" == ".["`:                          `"[" == ".["`,
		`recent.` + strings.Repeat("a.", 5000): "recent.`a`" + `.` + strings.Repeat("a.", 4999),
	} {
		got, err := rewrite(source, names)
		if err != nil || got.text != want {
			t.Errorf("%.60s: got %.60s, %v; want %.60s", source, got.text, err, want)
		}
	}
	for source, want := range map[string]string{
		`recent.a-d.inputs`:       "1, 8: recent a-d",
		"1 ==\n history.q-r":      "2, 10: history q-r",
		`history.a-b.[0].inputs`:  "1, 12: index dot",
		"history.a-b. [0].inputs": "1, 12: index dot",
	} {
		if _, err := rewrite(source, names); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", source, err, want)
		}
	}
}

// FuzzRewrite: what is not a known name stays as it is, and every place is found
// again.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		`recent.a-b.inputs["x"] == 1 && history.a.size() < 2`, `"recent.a-b`, "recent.`a-b`", `r'\' + recent.t.a-b`,
		"// recent.a\nhistory.a", `recent.?a-b`, `'''recent.a''' + recent.in`, `recent.é-a`,
	} {
		f.Add(seed)
	}
	names := NewNames([]string{"a-b", "a", "a-b-c", "t.a-b", "in"})
	f.Fuzz(func(t *testing.T, source string) {
		r, err := rewrite(source, names)
		if err != nil {
			return
		}
		var restored strings.Builder
		at := 0
		for _, e := range r.edits {
			name := r.text[e.newAt:e.newEnd]
			if !names.known[strings.Trim(name, "`")] || strings.ReplaceAll(source[e.at:e.end], "_", "-") != strings.Trim(name, "`") {
				t.Fatalf("%q stands for %q", name, source[e.at:e.end])
			}
			restored.WriteString(r.text[at:e.newAt] + source[e.at:e.end])
			at = e.newEnd
			if r.offset(e.newAt) != e.at || r.offset(e.newEnd) != e.end {
				t.Fatalf("the place of %q is lost", name)
			}
		}
		if restored.WriteString(r.text[at:]); restored.String() != source {
			t.Errorf("got %q of %q", r.text, source)
		}
		_, _ = Compile(Source{Expression: source, Rule: "rule"}, names)
	})
}
