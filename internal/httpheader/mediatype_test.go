package httpheader

import "testing"

func TestMediaTypes(t *testing.T) {
	for contentType, want := range map[string]struct {
		base       string
		json, text bool
	}{
		"application/json":                  {"application/json", true, false},
		" Application/JSON ; charset=utf-8": {"application/json", true, false},
		"text/json":                         {"text/json", true, false},
		"application/problem+json":          {"application/problem+json", true, false},
		"application/x-ndjson":              {"application/x-ndjson", false, true},
		"text/csv;header=present":           {"text/csv", false, true},
		"image/svg+xml":                     {"image/svg+xml", false, true},
		"application/x-www-form-urlencoded": {"application/x-www-form-urlencoded", false, true},
		"application/pdf":                   {"application/pdf", false, false},
		"image/png":                         {"image/png", false, false},
		"json":                              {"json", false, false},
		"":                                  {"", false, false},
	} {
		base := MediaType(contentType)
		if base != want.base || IsJSON(base) != want.json || IsText(base) != want.text {
			t.Errorf("%q: base %q, JSON %v, text %v", contentType, base, IsJSON(base), IsText(base))
		}
	}
}
