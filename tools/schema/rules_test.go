package schema_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

func TestPattern_is_listed_if_all_engines_compile_it(t *testing.T) {
	listed := []string{`^a\d$`, `^[A-Za-z0-9_.-]{1,64}$`, `^[\w.-]+@[\w-]+$`, `^https?://\S+$`, `^(?:a|b)+?$`, `\bx\B`, `^\/a[\-b]`, `[0-9-_]`, `^[^\s\]]*$`, `\x41`, `^é.*$`, `a{2,}`, ``}
	unlisted := []string{`^[\p{L} ]+$`, `^https\:\/\/`, `[[a]`, `[a[]`, `(?i)a`, `(?P<n>a)`, `(?<n>a)`, `\Aa\z`, `\Qa\E`, `\x{41}`, `\a`, `a{`, `a}`, `a]`, `{a}`, `[\d-x]`, `[a-\d]`, `^*a`, `\b+`, `[]a]`, `\-`, `[a&&b]`, `a{,2}`, `[[:alpha:]]`, `\_`, `\@`}
	for _, pattern := range listed {
		if !schema.IsPortable(pattern) {
			t.Errorf("%s is not listed", pattern)
		}
	}
	for _, pattern := range unlisted {
		if schema.IsPortable(pattern) {
			t.Errorf("%s is listed", pattern)
		}
	}
}

func TestConform(t *testing.T) {
	tests := []struct{ rule, schema, want string }{
		{"a schema that keeps the rules is unchanged", `{ "type":"object", "x-own":1, "properties":{"a":{"type":["array","null"],"items":{}}} }`, `{ "type":"object", "x-own":1, "properties":{"a":{"type":["array","null"],"items":{}}} }`},
		{"array without items", `{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`},
		{"items of older drafts", `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":false}}}`, `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false}}}`},
		{"outermost alternatives", `{"type":"object","properties":{"a":{"anyOf":[{},{}]}},"anyOf":[{"required":["a"]}]}`, `{"type":"object","properties":{"a":{"anyOf":[{},{}]}}}`},
		{"enum with a value twice", `{"type":"object","properties":{"a":{"enum":[1,1.0,"x"]}}}`, `{"type":"object","properties":{"a":{"enum":[1,"x"]}}}`},
		{"pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"^\\p{L}"},"b":{"not":{"pattern":"\\p{L}"}}}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`},
		{"patternProperties", `{"type":"object","patternProperties":{"^(?=a)":{}},"additionalProperties":false}`, `{"type":"object"}`},
		{"keywords of other types", `{"type":"object","properties":{"a":{"type":"string","required":["x"]}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{"required without a property", `{"type":"object","required":["y"]}`, `{"type":"object","required":["y"],"properties":{"y":{}}}`},
		{"in definitions", `{"type":"object","$defs":{"A":{"type":"array"}}}`, `{"type":"object","$defs":{"A":{"type":"array","items":{}}}}`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			got, broken := schema.Conform([]byte(test.schema))
			if string(got) != test.want || (broken == nil) != (test.schema == test.want) {
				t.Errorf("\n got %s, broken %q\nwant %s", got, broken, test.want)
			}
			if again, broken := schema.Conform(got); broken != nil {
				t.Errorf("%s breaks %q", again, broken)
			}
			if !strictjson.Valid(got) {
				t.Error("not JSON")
			}
		})
	}
}
