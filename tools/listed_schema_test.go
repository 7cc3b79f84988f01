package tools

import (
	"strings"
	"testing"
)

// listedDocument is a document with one operation.
func listedDocument(operation string) string {
	return `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"components":{"examples":{"Week":{"value":"2031W07"}}},"paths":{"/buses":{"post":{"operationId":"book",` + operation + `,"responses":{}}}}}`
}

func jsonBody(schema, more string) string {
	return `"requestBody":{"required":true,"content":{"application/json":{"schema":` + schema + more + `}}}`
}

func TestListed_schema_has_and_lacks(t *testing.T) {
	tests := []struct {
		rule, operation string
		has, lacks      string
		valid, invalid  string // arguments
	}{
		{"a pattern is checked and not listed", jsonBody(`{"type":"object","properties":{"name":{"type":"string","pattern":"^\\p{L}+$"}}}`, ""), `"name"`, `pattern`, `{"name":"Zoë"}`, `{"name":"7"}`},
		{"a pattern of an item is checked and not listed", jsonBody(`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string","pattern":"^\\p{L}+$"}}}}`, ""), `"names"`, `pattern`, `{"names":["Zoë"]}`, `{"names":["7"]}`},
		{"a required property without a schema is optional", jsonBody(`{"type":"object","required":["seat","note"],"properties":{"seat":{"type":"string"}}}`, ""), `"required":["seat"]`, "", `{"seat":"a"}`, `{"seat":1}`},
		{"a required property without a schema", jsonBody(`{"type":"object","required":["seat","note"],"properties":{"seat":{"type":"string"}}}`, ""), `"note":{}`, "", `{"seat":"a","note":[1]}`, `{"note":[1]}`},
		{"a required property of another part", jsonBody(`{"allOf":[{"type":"object","required":["note"],"properties":{"seat":{"type":"string"}}},{"properties":{"note":{"type":"integer"}}}]}`, ""), `"note":{"type":"integer"}`, `"note":{}`, `{"note":1}`, `{"note":"a"}`},
		{"a default that is a number", `"parameters":[{"name":"v","in":"query","required":true,"schema":{"type":"string","default":1.10}}]`, `"default":"1.10"`, `required`, `{}`, `{"v":1}`},
		{"a default outside the enum", `"parameters":[{"name":"v","in":"query","schema":{"type":"string","enum":["a"],"default":"z"}}]`, `"enum":["a"]`, `default`, `{}`, `{"v":"z"}`},
		{"examples of a parameter", `"parameters":[{"name":"w","in":"query","examples":{"a":{"$ref":"#/components/examples/Week"},"b":{"externalValue":"http://127.0.0.1/w"}},"schema":{"type":"string","example":"inner"}}]`, `"examples":["2031W07"]`, `inner`, `{}`, `{"w":1}`},
		{"the example of a body", jsonBody(`{"type":"object","properties":{"w":{"type":"string","example":"inner"},"n":{"type":"integer"}}}`, `,"example":{"w":"2031W07","n":"many"}`), `"examples":["2031W07"]`, `inner`, `{}`, `{"w":1}`},
		{"the example of the schema of a body", jsonBody(`{"type":"object","example":{"w":"outer","n":7},"properties":{"w":{"type":"string","example":"inner"},"n":{"type":"integer"}}}`, ""), `"examples":[7]`, `outer`, `{}`, `{"w":1}`},
		{"the example of a whole body", jsonBody(`{"type":"array","items":{"type":"integer"}}`, `,"examples":{"a":{"value":[7,8]}}`), `"examples":[[7,8]]`, "", `{"body":[1]}`, `{"body":["a"]}`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			tool := buildTools(t, listedDocument(test.operation), BuildOptions{}).Tools()[0]
			listed := string(tool.Definition.InputSchema)
			if !strings.Contains(listed, test.has) || test.lacks != "" && strings.Contains(listed, test.lacks) {
				t.Errorf("%s\nwant with %s, without %s", listed, test.has, test.lacks)
			}
			if _, err := tool.Bind([]byte(test.valid)); err != nil {
				t.Errorf("%s: %v", test.valid, err)
			}
			if _, err := tool.Bind([]byte(test.invalid)); err == nil {
				t.Errorf("%s is accepted", test.invalid)
			}
		})
	}
}

func TestYAML_numbers_that_mean_text_keep_their_digits(t *testing.T) {
	set := buildTools(t, `
openapi: 3.0.3
info: {title: T, version: "1"}
paths:
  /buses:
    get:
      operationId: list
      parameters:
        - {name: X-Version, in: header, required: true, schema: {type: string, enum: [1.10, 1.10]}}
        - {name: code, in: query, schema: {type: string, default: 007, enum: [007, +41]}}
        - {name: old, in: query, schema: {type: string, enum: [a], default: b}}
      responses: {}
`, BuildOptions{})
	tool := set.Tools()[0]
	if listed := string(tool.Definition.InputSchema); !strings.Contains(listed, `"enum":["007","+41"]`) || !strings.Contains(listed, `"default":"007"`) || strings.Contains(listed, "Version") {
		t.Error(listed)
	}
	for i, want := range map[int]string{0: `"007"`, 2: `"1.10"`} {
		if got := string(tool.Plan.Encodings[i].Fill); got != want {
			t.Errorf("the gateway fills %s, want %s", got, want)
		}
	}
	if w := set.Report.Warnings; len(w) != 1 || !strings.Contains(w[0].Reason, `"b"`) {
		t.Errorf("%+v, want one warning about the default", w)
	}
}

func TestForeign_tool_is_listed_by_the_rules_and_checked_by_its_own_schema(t *testing.T) {
	set := buildTools(t, `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/t":{"post":{"operationId":"t","x-mcp-server-kind":"tool","x-mcp-server":
		{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"array"},"n":{"type":"string","pattern":"^\\p{L}$"}},"anyOf":[{"required":["a"]},{"required":["n"]}]}},"responses":{}}}}}`, BuildOptions{Foreign: true})
	tool := set.Tools()[0]
	if got, want := string(tool.Definition.InputSchema), `{"type":"object","properties":{"a":{"type":"array","items":{}},"n":{"type":"string"}}}`; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for arguments, isValid := range map[string]bool{`{"a":[1]}`: true, `{"n":"é"}`: true, `{"n":"7"}`: false, `{"a":1}`: false} {
		if _, err := tool.Bind([]byte(arguments)); (err == nil) != isValid {
			t.Errorf("%s: %v, want valid = %v", arguments, err, isValid)
		}
	}
}
