package console

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
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

// TestSkeleton checks what people fill in for a JSON argument.
func TestSkeleton(t *testing.T) {
	const document = `{"type":"object","properties":{},"$defs":{
		"Node":{"type":"object","required":["next"],"properties":{"next":{"$ref":"#/$defs/Node"}}},
		"Base":{"required":["id"],"properties":{"id":{"type":"integer"}}}}}`
	for rule, c := range map[string]struct{ schema, want string }{
		"required only":       {`{"type":"object","required":["street"],"properties":{"street":{"type":"string"},"zip":{"type":"string"}}}`, `{"street":""}`},
		"none is required":    {`{"type":"object","properties":{"on":{"type":"boolean"},"n":{"type":"number"}}}`, `{"on":false,"n":0}`},
		"examples, enums":     {`{"type":"object","properties":{"a":{"examples":[7]},"b":{"enum":["x","y"]},"c":{"default":[1]},"d":{"const":null}}}`, `{"a":7,"b":"x","c":[1],"d":null}`},
		"lists":               {`{"type":"array","items":{"type":"object","properties":{"tags":{"type":"array"}}}}`, `[{"tags":[]}]`},
		"alternatives":        {`{"anyOf":[{"type":"object","properties":{"a":{"type":["string","null"]}}},{"type":"integer"}]}`, `{"a":""}`},
		"parts":               {`{"allOf":[{"$ref":"#/$defs/Base"},{"properties":{"id":{"type":"string"},"more":{"type":"string"}}}]}`, `{"id":0}`},
		"endless":             {`{"$ref":"#/$defs/Node"}`, `{"next":{"next":{"next":{"next":{"next":{}}}}}}`},
		"an unknown $ref":     {`{"$ref":"#/$defs/None"}`, ``},
		"nothing is known":    {`{}`, `{}`},
		"the schema is false": {`false`, ``},
	} {
		a := argument{Name: "a"}
		if c.schema != "false" {
			a.root, a.schema = schema.Open(jsontext.Value(document), jsontext.Value(c.schema))
		}
		got := jsontext.Value(skeleton(&a))
		if len(got) > 0 && got.Compact() != nil || string(got) != c.want {
			t.Errorf("%s: got %s, want %s", rule, got, c.want)
		}
	}
	wide := `{"type":"object","properties":{`
	for i := range 2000 {
		wide += strconv.Quote("property"+strconv.Itoa(i)) + `:{"type":"string"},`
	}
	a := argument{}
	a.root, a.schema = schema.Open(nil, jsontext.Value(wide+`"last":{}}}`))
	if got := skeleton(&a); len(got) > 2*maxSkeleton || !strings.HasSuffix(got, "}") {
		t.Errorf("got %d bytes, want about %d", len(got), maxSkeleton)
	}
}
