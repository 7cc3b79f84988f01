package console

import (
	"net/url"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

// TestForm checks what the text of a field becomes.
func TestForm(t *testing.T) {
	arguments := map[string]argument{
		"union":   {types: []string{"integer", "string"}},
		"text":    {Type: "string", types: []string{"string"}},
		"labels":  {Type: "array", types: []string{"array"}, items: []string{"object", "string"}},
		"names":   {Type: "array", types: []string{"array"}, items: []string{"string"}},
		"numbers": {Type: "array", types: []string{"array"}, items: []string{"integer"}},
		"objects": {Type: "array", types: []string{"array"}, items: []string{"object"}},
		"unknown": {},
	}
	for _, c := range []struct{ name, value, kind, want string }{
		{"union", "It fails", inputAny, `{"union":"It fails"}`},
		{"union", "5", inputAny, `{"union":5}`},
		{"union", `"5"`, inputAny, `{"union":"5"}`},
		{"union", "true", inputAny, `{"union":"true"}`},
		{"union", "007", inputAny, `{"union":"007"}`},
		{"text", `"5"`, inputText, `{"text":"\"5\""}`},
		{"labels", "bug\r\n\r\n {\"name\":\"ui\"} \r\n", inputLines, `{"labels":["bug",{"name":"ui"}]}`},
		{"labels", `["a", "b"]`, inputLines, `{"labels":["a", "b"]}`},
		{"names", "5\ntrue\n\"x\"", inputLines, `{"names":["5","true","\"x\""]}`},
		{"numbers", "5\nsix", inputLines, `{"numbers":[5,"six"]}`},
		{"objects", `[{}]`, inputJSON, `{"objects":[{}]}`},
		{"unknown", `{"a":1}`, inputJSON, `{"unknown":{"a":1}}`},
		{"names", "", inputLines, `{}`},
	} {
		a := arguments[c.name]
		a.Name = c.name
		fields := inputs([]argument{a}, url.Values{"arg." + c.name: {c.value}})
		if got := string(formArguments(fields)); got != c.want || fields[0].Kind != c.kind {
			t.Errorf("%s %q: got %s %s, want %s %s", c.name, c.value, fields[0].Kind, got, c.kind, c.want)
		}
	}
}

// TestForm_problems checks at which fields problems are shown.
func TestForm_problems(t *testing.T) {
	fields := inputs([]argument{{Name: "id"}, {Name: "idx"}, {Name: "a/b"}}, nil)
	setProblems(fields, []tools.Problem{{Path: "/id", Message: "missing"}, {Path: "/a~1b/0", Message: "must be string"}, {Path: "", Message: "other"}})
	for i, want := range []string{"missing", "", "0 must be string"} {
		if fields[i].Problem != want {
			t.Errorf("%s: %q, want %q", fields[i].Name, fields[i].Problem, want)
		}
	}
}
