package openapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/source"
)

// viaYAML returns a tree's JSON after it was written as YAML and read again.
func viaYAML(t testing.TB, n *Node) string {
	t.Helper()
	text, err := n.AppendYAML(nil, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	// An object in JSON is YAML too; what is written here is not JSON.
	back, err := Parse(text, Limits{})
	if err != nil {
		t.Fatalf("%v in\n%.2000s", err, text)
	}
	return string(back.AppendJSON(nil))
}

func TestAppendYAML(t *testing.T) {
	for name, test := range map[string]struct{ json, want string }{
		"members": {`{"b":1,"a":{"c":true,"d":null}}`, "b: 1\na:\n  c: true\n  d: null\n"},
		"items":   {`{"l":["a",{"x":1,"z":[2]},[3,[4]],{},[]]}`, "l:\n  - a\n  - x: 1\n    z:\n      - 2\n  - - 3\n    - - 4\n  - {}\n  - []\n"},
		"keys":    {`{"200":1,"/a/{b}":2,"yes":3,"$ref":4,"":5,"a b":6,"a: b":7}`, "\"200\": 1\n/a/{b}: 2\n\"yes\": 3\n$ref: 4\n\"\": 5\na b: 6\n\"a: b\": 7\n"},
		"texts":   {`{"a":"plain text","b":"1.0","c":"No","d":"#x","e":"a #b","f":" a","g":"2026-01-02","h":"- a","i":"~"}`, "a: plain text\nb: \"1.0\"\nc: \"No\"\nd: \"#x\"\ne: \"a #b\"\nf: \" a\"\ng: \"2026-01-02\"\nh: \"- a\"\ni: \"~\"\n"},
		"blocks":  {`{"a":"x\n\n  y: #\nz","b":{"c":"x\ny\n"},"d":["p\nq"]}`, "a: |-\n  x\n\n    y: #\n  z\nb:\n  c: |\n    x\n    y\nd:\n  - |-\n    p\n    q\n"},
		"spaces":  {`{"a":"\nx","b":" x\ny","c":"x\n \ny","d":"x\n\n","e":"x\ry\n"}`, "a: \"\\nx\"\nb: \" x\\ny\"\nc: \"x\\n \\ny\"\nd: |+\n  x\n\ne: \"x\\ry\\n\"\n"},
		"numbers": {`{"a":-1.50,"b":1e5,"c":2.5E-7}`, "a: -1.50\nb: 1.0e+5\nc: 2.5e-7\n"},
		"unicode": {`{"a":"\ud83d\ude82 \u0085\ufeff\u2028é\u007f"}`, "a: \"\\U0001F682 \\N\\uFEFF\\Lé\\x7F\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := Parse([]byte(test.json), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.AppendYAML(nil, 1000)
			if err != nil || string(got) != test.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, test.want)
			}
			var want, back any
			if json.Unmarshal([]byte(test.json), &want) != nil || json.Unmarshal([]byte(viaYAML(t, n)), &back) != nil {
				t.Fatal("no JSON")
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(back)
			if string(a) != string(b) {
				t.Errorf("read back %s, want %s", b, a)
			}
		})
	}
}

func TestAppendYAML_long_key(t *testing.T) {
	n := Object(Member{strings.Repeat("k", 3000), Object(Member{"a", Text("b")})},
		Member{strings.Repeat("\x01", 500), Text("longer as it is written")}, Member{"z", List(Text("c"))})
	if got, want := viaYAML(t, n), string(n.AppendJSON(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendYAML_limit(t *testing.T) {
	n := List(Text(strings.Repeat("a", 100)))
	if _, err := n.AppendYAML(nil, 50); !errors.Is(err, source.ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}

// TestShared_append_YAML writes real documents as YAML and reads them again.
func TestShared_append_YAML(t *testing.T) {
	for _, name := range []string{
		"discord-3.1.json", "kubernetes-1.33-swagger-2.0.json", "museum-3.1.yaml", "slack-web-v2.json",
		"stripe.json", "train-travel-3.1.yaml", "twilio-messaging-v1.json", "xero-files.json",
	} {
		t.Run(name, func(t *testing.T) {
			n, err := Parse(testkit.ReadDocument(t, "openapi/"+name+".gz"), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := n.AppendYAML(nil, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Parse(text, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, n, back) {
				t.Error("the document read back differs")
			}
		})
	}
}

// sameJSON compares two trees, scalars by their value.
func sameJSON(t testing.TB, a, b *Node) bool {
	t.Helper()
	same := a.Kind() == b.Kind() && len(a.Members()) == len(b.Members()) && len(a.Items()) == len(b.Items()) &&
		a.Text() == b.Text() && (a.Kind() == '"' || sameNumber(a, b))
	for i, m := range a.Members() {
		if !same {
			break
		}
		same = m.Name == b.Members()[i].Name && sameJSON(t, m.Value, b.Members()[i].Value)
	}
	for i, item := range a.Items() {
		if !same {
			break
		}
		same = sameJSON(t, item, b.Items()[i])
	}
	if !same {
		t.Logf("%.200s and %.200s", a.AppendJSON(nil), b.AppendJSON(nil))
	}
	return same
}

func sameNumber(a, b *Node) bool {
	if a.Kind() != '0' {
		return string(a.Raw()) == string(b.Raw())
	}
	var x, y float64
	return json.Unmarshal(a.Raw(), &x) == nil && json.Unmarshal(b.Raw(), &y) == nil && x == y
}

func FuzzAppendYAML(f *testing.F) {
	for _, s := range []string{"\x80\xff", "\t\n\x80", "a", "a\nb", "- a", "\t", "a: b", "\u0085x\n", "'", "|", "a\n b\n\nc\n", "{a}", "/x, y", "0x1f", ".inf", "1:30"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		n := Object(Member{name, Text(value)}, Member{name + "l", List(Text(value), Object(Member{name, List(Text(value))}), List(List(Text(name))))})
		if got, want := viaYAML(t, n), string(n.AppendJSON(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
