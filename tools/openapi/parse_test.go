package openapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestParse(t *testing.T) {
	many := &strings.Builder{}
	for i := range 40 {
		fmt.Fprintf(many, `"m%d":%d,`, i, i)
	}
	tests := []struct{ rule, source, want string }{
		{"json/order-is-kept", `{"b":1,"a":[true,null,"x"],"c":{}}`, `{"b":1,"a":[true,null,"x"],"c":{}}`},
		{"json/byte-order-mark", "\ufeff {\"a\":1}", `{"a":1}`},
		{"json/duplicate-name-keeps-last", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"json/numbers-keep-their-digits", `{"a":1.10,"b":-0,"c":12345678901234567890123}`, `{"a":1.10,"b":-0,"c":12345678901234567890123}`},
		{"json/escaped-name", `{"\u0061\n":"\u00e9"}`, `{"a\n":"\u00e9"}`},
		{
			"json/many-members-with-duplicate", "{" + many.String() + `"m0":"last"}`,
			"{" + strings.TrimSuffix(strings.Replace(many.String(), `"m0":0`, `"m0":"last"`, 1), ",") + "}",
		},
		{"yaml/order-is-kept", "b: 1\na: [true, null, x]\nc: {}", `{"b":1,"a":[true,null,"x"],"c":{}}`},
		{"yaml/byte-order-mark", "\ufeffa: 1", `{"a":1}`},
		{"yaml/keys-become-text", "200: a\ntrue: b\n1.5: c\nnull: d", `{"200":"a","true":"b","1.5":"c","null":"d"}`},
		{"yaml/dates-stay-text", "a: 2020-01-02\nb: 2020-01-02T03:04:05Z", `{"a":"2020-01-02","b":"2020-01-02T03:04:05Z"}`},
		{"yaml/numbers", "a: 0x10\nb: 0o10\nc: 1_000\nd: +5\ne: .5\nf: 1.10\ng: 1e3\nh: -0x10", `{"a":16,"b":8,"c":1000,"d":5,"e":0.5,"f":1.10,"g":1e3,"h":-16}`},
		{"yaml/numbers-json-lacks-become-null", "a: .inf\nb: -.Inf\nc: .nan", `{"a":null,"b":null,"c":null}`},
		{"yaml/booleans", "a: True\nb: FALSE\nc: yes\nd: off", `{"a":true,"b":false,"c":"yes","d":"off"}`},
		{"yaml/nulls", "a:\nb: ~\nc: Null", `{"a":null,"b":null,"c":null}`},
		{"yaml/quoted-stays-text", "a: '1'\nb: \"true\"\nc: !!str 5", `{"a":"1","b":"true","c":"5"}`},
		{"yaml/duplicate-key-keeps-last", "a: 1\nb: 2\na: 3", `{"a":3,"b":2}`},
		{"yaml/aliases", "a: &x {k: [1]}\nb: *x", `{"a":{"k":[1]},"b":{"k":[1]}}`},
		{"yaml/alias-as-key", "a: &x name\n*x : 1", `{"a":"name","name":1}`},
		{"yaml/merge-key-loses-to-own", "a: &x {k: 1, l: 2}\nb:\n  k: 3\n  <<: *x", `{"a":{"k":1,"l":2},"b":{"k":3,"l":2}}`},
		{"yaml/merge-of-list-earlier-wins", "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}", `{"a":{"k":1},"b":{"k":2,"l":2},"c":{"k":1,"l":2}}`},
		{"yaml/unknown-tag-is-text", "a: !thing b", `{"a":"b"}`},
		{"yaml/end-of-document-mark", "a: 1\n...\n", `{"a":1}`},
		{"yaml/empty-second-document", "a: 1\n---\n", `{"a":1}`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			node, err := Parse([]byte(test.source), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got := string(node.AppendJSON(nil))
			if strings.HasPrefix(test.rule, "yaml/merge-key") {
				// The order of merged members is not part of the rule.
				got = strings.Replace(got, `"b":{"l":2,"k":3}`, `"b":{"k":3,"l":2}`, 1)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	bomb := "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for c := 'b'; c <= 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	smallBomb, _, _ := strings.Cut(bomb, "g: ") // some million values, within the other limits
	blowup := "a: &a " + strings.Repeat("x", 1000) + "\nb: [" + strings.Repeat("*a,", 50) + "]"
	tests := []struct {
		rule, source, want string
		limits             Limits
	}{
		{rule: "empty", source: "", want: "empty"},
		{rule: "blank", source: " \n\t\n", want: "empty"},
		{rule: "comments-only", source: "# nothing\n", want: "empty"},
		{rule: "html", source: "<!DOCTYPE html>\n<html>", want: "HTML"},
		{rule: "size", source: `{"a":"0123456789"}`, want: "18 bytes 10", limits: Limits{Size: 10}},
		{rule: "json/truncated", source: "{\"a\":\n{\"b", want: "2, 4: JSON ends"},
		{rule: "json/truncated-in-list", source: `{"a":[1,`, want: "1, JSON ends"},
		{rule: "json/comma", source: "{\"a\":1\n  \"b\":2}", want: "line 2, column 3"},
		{rule: "json/trailing-comma", source: `{"a":1,}`, want: "line 1, column 7"},
		{rule: "json/number-as-name", source: `{1:2}`, want: "line 1, column 2"},
		{rule: "json/single-quotes", source: `{'a':2}`, want: "line 1, column 2"},
		{rule: "json/text-after-end", source: `{"a":1} {"b":2}`, want: "1, 9: after end"},
		{rule: "json/garbage-after-end", source: `{"a":1} x`, want: "line 1, column 9"},
		{rule: "json/invalid-utf8", source: "{\"a\":\"\xff\"}", want: "UTF-8 byte 6"},
		{rule: "json/depth", source: `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", want: "1, 105: deeper 100"},
		{rule: "json/nodes", source: `{"a":[1,2,3,4,5]}`, want: "values limit 5", limits: Limits{Nodes: 5}},
		{rule: "yaml/invalid-utf8", source: "a: \xff", want: "byte 3 UTF-8"},
		{rule: "yaml/tab", source: "a:\n\tb: 1", want: "line 2"},
		{rule: "yaml/indentation", source: "a:\n  b: 1\n c: 2", want: "line 2"},
		{rule: "yaml/depth", source: "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), want: "1: deeper 100"},
		{rule: "yaml/depth-through-alias", source: "a: &a [[[1]]]\nb: [[*a]]", want: "2: deeper 4", limits: Limits{Depth: 4}},
		{rule: "yaml/nodes", source: "a: [1,2,3,4,5]", want: "values limit 5", limits: Limits{Nodes: 5}},
		{rule: "yaml/alias-bomb", source: bomb, want: "values limit"},
		{rule: "yaml/alias-factor", source: smallBomb, want: "17 1234567 aliases"},
		{rule: "yaml/alias-bytes", source: blowup, want: "aliases 4000 bytes", limits: Limits{Size: 2000}},
		{rule: "yaml/alias-in-itself", source: "a: &a [*a]", want: "1: alias a inside"},
		{rule: "yaml/unknown-alias", source: "a: *b", want: "unknown anchor 'b'"},
		{rule: "yaml/list-as-key", source: "? [a, b]\n: 1", want: "1: key mapping text"},
		{rule: "yaml/two-documents", source: "a: 1\n---\nb: 2", want: "one YAML document"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			start := time.Now()
			_, err := Parse([]byte(test.source), test.limits)
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if took := time.Since(start); took > testkit.Patience {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestNodeGet(t *testing.T) {
	for _, size := range []int{0, 1, indexFrom, indexFrom + 1, 500} {
		t.Run(fmt.Sprintf("%d-members", size), func(t *testing.T) {
			source := &strings.Builder{}
			for i := range size {
				fmt.Fprintf(source, "m%d: %d\n", i, i)
			}
			source.WriteString("last: true")
			node, err := Parse([]byte(source.String()), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range size {
				if got := string(node.Get(fmt.Sprintf("m%d", i)).Raw()); got != fmt.Sprint(i) {
					t.Errorf("m%d is %s", i, got)
				}
			}
			if !node.Get("last").True() || node.Get("none") != nil {
				t.Error("last or none is wrong")
			}
		})
	}
	var absent *Node
	if absent.Get("a") != nil || absent.Items() != nil || absent.Members() != nil {
		t.Errorf("an absent node: got the member %v, the items %v and the members %v; want none", absent.Get("a"), absent.Items(), absent.Members())
	}
	if absent.Kind() != 0 || absent.Text() != "" || absent.True() {
		t.Errorf("an absent node: got the kind %v, the text %q, true: %t; want none", absent.Kind(), absent.Text(), absent.True())
	}
	if raw := absent.Raw(); raw != nil {
		t.Errorf("an absent node: got %s, want nil", raw)
	}
}
