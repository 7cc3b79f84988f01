package library

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestExtension_has_only_what_can_be_used reads values of all kinds for all members.
func TestExtension_has_only_what_can_be_used(t *testing.T) {
	for given, want := range map[string]string{
		`{"tool":"no","resource":5,"prompt":[],"icons":{},"ui":[],"openai":1,"execution":true}`:                         `{}`,
		`{"tool":false,"resource":false,"other":1}`:                                                                     `{"tool":false,"resource":false}`,
		`{"resource":{"uri":1,"name":"n","_meta":{"a":[1]},"other":1}}`:                                                 `{"resource":{"name":"n","_meta":{"a":[1]}}}`,
		`{"prompt":{"arguments":[5,{"name":"a","required":1,"values":["x"]},{"name":2}]}}`:                              `{"prompt":{"arguments":[{"name":"a","values":["x"]},{}]}}`,
		`{"icons":[{"src":"javascript:x"},{"src":"https://a.example/i","sizes":"any"}]}`:                                `{"icons":[{"src":"https://a.example/i"}]}`,
		`{"openai":{"openai/widgetDomain":"a","widgetDomain":"b","visibility":"all","new":1},"ui":{"new":2,"csp":[1]}}`: `{"openai":{"widgetDomain":"a","new":1},"ui":{"new":2}}`,
		`{"execution":{"taskSupport":"never"}}`:                                                                         `{"execution":{}}`,
	} {
		warned := 0
		if got := readExtension(jsontext.Value(given), func(string, ...any) { warned++ }); string(got) != want || warned == 0 {
			t.Errorf("%s: got %s and %d warnings, want %s", given, got, warned, want)
		}
	}
}

// TestExtension_takes_a_deep_meta checks a resource whose _meta is as deep as a document can be.
func TestExtension_takes_a_deep_meta(t *testing.T) {
	const levels = 90
	deep := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	d, ok := readExtension(jsontext.Value(`{"resource":{"uri":"a://b","_meta":`+deep+`}}`), silent).declared("resource")
	if !ok || d.URI != "a://b" || string(d.Meta) != deep {
		t.Errorf("got %+v, %t", d, ok)
	}
}
