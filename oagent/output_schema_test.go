package oagent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent"
)

const documentHead = "kind: openagentspec:v1/agent\nname: desk\ndescription: Answers.\nintent: You answer.\nowner: team\ncapabilities: {}\n"

func readSchema(t *testing.T, source string) *oagent.OutputSchema {
	t.Helper()
	a, err := oagent.ReadAgent([]byte(documentHead+"x-fairway:\n  output_schema: "+source+"\n"), "desk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a.OutputSchema
}

func TestOutputSchema_reads_answers(t *testing.T) {
	s := readSchema(t, "{type: object, required: [day], properties: {day: {$ref: '#/$defs/Day'}, date: {const: 2026-01-02}}, additionalProperties: false, $defs: {Day: {enum: [Mon, Tue]}}}")
	if want := `{"type":"object","required":["day"],"properties":{"day":{"$ref":"#/$defs/Day"},"date":{"const":"2026-01-02"}},"additionalProperties":false,"$defs":{"Day":{"enum":["Mon","Tue"]}}}`; string(s.JSON) != want {
		t.Errorf("as JSON: %s", s.JSON)
	}
	for answer, want := range map[string]string{
		`{"day":"Mon"}`: `{"day":"Mon"}`,
		" {\"day\":\"Mon\",\"date\":\"2026-01-02\"}": `{"day":"Mon","date":"2026-01-02"}`,
		"```json\n{\"day\":\"Tue\"}\n```":            `{"day":"Tue"}`,
	} {
		if value, problems := s.Read(answer); string(value) != want || problems != nil {
			t.Errorf("%s: %s %q", answer, value, problems)
		}
	}
	for answer, word := range map[string]string{
		"":                        "not JSON",
		"Monday":                  "not JSON",
		"```":                     "not JSON",
		`{"day":"Mon"} and`:       "not JSON",
		`{"day":"Mon","day":"x"}`: "not JSON",
		`{}`:                      "/day: missing",
		`[]`:                      "must be object",
		`{"day":"Wed"}`:           `"Tue"`,
		`{"day":"Mon","extra":1}`: "properties",
		`{"day":1e999999}`:        "too large",
	} {
		if value, problems := s.Read(answer); value != nil || !strings.Contains(strings.Join(problems, "\n"), word) {
			t.Errorf("%s: %s %q, want a problem with %q", answer, value, problems, word)
		}
	}
}

func TestOutputSchema_rejects_bad_schemas(t *testing.T) {
	for source, word := range map[string]string{
		"object":                          "a mapping",
		"{type: objekt}":                  "not valid",
		"{type: string, pattern: '('}":    "not valid",
		"{$ref: 'https://example.com/s'}": "never loaded",
		"{$ref: '#/$defs/Missing'}":       "not valid",
		"{minimum: low}":                  "not valid",
		"{description: " + strings.Repeat("x", oagent.MaxOutputSchema) + "}":           "limit",
		"{not: " + strings.Repeat("{not: ", 80) + "{}" + strings.Repeat("}", 80) + "}": "64",
	} {
		_, err := oagent.ReadAgent([]byte(documentHead+"x-fairway:\n  output_schema: "+source+"\n"), "desk.yaml")
		if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "desk.yaml:8") {
			t.Errorf("%.60s: error %.300v, want the line and %q", source, err, word)
		}
	}
	_, err := oagent.ReadAgent([]byte(documentHead+"x-fairway: {output: {}}\n"), "desk.yaml")
	if err == nil || !strings.Contains(err.Error(), "output_schema") {
		t.Errorf("unknown member: %v", err)
	}
}

// A schema that refers to itself in alternatives would take forever for a small value.
func TestOutputSchema_validation_is_bounded(t *testing.T) {
	for _, draft := range []string{"2020-12/schema", "2019-09/schema"} {
		s := readSchema(t, "{$schema: 'https://json-schema.org/draft/"+draft+"', anyOf: [{items: {$ref: '#'}, minItems: 1}, {items: {$ref: '#'}, minItems: 1}, {items: {$ref: '#'}, minItems: 1}]}")
		began := time.Now()
		if _, problems := s.Read(strings.Repeat("[", 60) + strings.Repeat("]", 60)); !strings.Contains(strings.Join(problems, ""), "too many steps") {
			t.Errorf("%s: problems %q after %s", draft, problems, time.Since(began))
		}
	}
}
