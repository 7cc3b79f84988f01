package openapi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

// testdata is where the documents written for this project are.
const testdata = "../../testdata/openapi"

func readDocument(t testing.TB, name string, options Options) *Document {
	t.Helper()
	path := filepath.Join(testdata, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.Location = path
	document, err := Read(data, options)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func readText(t testing.TB, source string) *Document {
	t.Helper()
	document, err := Read([]byte(source), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func find(t testing.TB, d *Document, id string) Operation {
	t.Helper()
	for _, op := range d.Operations() {
		if op.ID == id {
			return op
		}
	}
	t.Fatalf("no operation %q", id)
	return Operation{}
}

func hasWords(lines []string, words string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return testkit.ContainsAll(line, words) })
}

func TestRead_refuses_what_is_no_document(t *testing.T) {
	tests := []struct{ rule, source, want string }{
		{"empty", "", "empty"},
		{"html", "<html><body>Not found</body></html>", "HTML"},
		{"json-without-version", `{"message":"not found","code":404}`, "openapi swagger message code"},
		{"empty-object", `{}`, "openapi swagger"},
		{"yaml-list", "- a\n- b", "list"},
		{"plain-text", "Service unavailable", "single value"},
		{"version-2.1", `swagger: '2.1'`, "version 2.1 supported"},
		{"version-4", `openapi: 4.0.0`, "version 4.0.0 supported"},
		{"version-1", `swaggerVersion: '1.2'`, "Swagger 1 supported"},
		{"version-is-object", `openapi: {}`, "openapi text"},
		{"version-is-empty", `openapi: ''`, "openapi text"},
		{"version-3-dot", `openapi: '3.x'`, "version 3.x supported"},
		{"asyncapi", `asyncapi: 2.0.0`, "AsyncAPI"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := Read([]byte(test.source), Options{Location: "some.yaml"})
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "some.yaml: ") {
				t.Errorf("got %v, want some.yaml: …%s", err, test.want)
			}
		})
	}
}

func TestReadVersions(t *testing.T) {
	tests := []struct {
		source  string
		version Version
		old     bool
		warning string
	}{
		{"openapi: 3.0.3", OpenAPI30, true, ""},
		{"openapi: 3.0", OpenAPI30, true, "number 3.0"},
		{"openapi: 3", OpenAPI30, true, "number 3"},
		{"openapi: '3.1.1'", OpenAPI31, false, ""},
		{"openapi: 3.2.0", OpenAPI31, false, "3.2.0 3.1"},
		{"swagger: '2.0'", Swagger20, true, ""},
		{"swagger: 2.0", Swagger20, true, "number 2.0"},
	}
	for _, test := range tests {
		t.Run(test.source, func(t *testing.T) {
			d := readText(t, test.source+"\ninfo: {title: A}\npaths: {}")
			if file := d.Root().File; file.Version != test.version || file.Version30 != test.old {
				t.Errorf("version %d, Version30 %v", file.Version, file.Version30)
			}
			if test.warning == "" && len(d.Warnings) > 0 || test.warning != "" && !hasWords(d.Warnings, test.warning) {
				t.Errorf("warnings %q", d.Warnings)
			}
		})
	}
}

func TestRead_tolerates_missing_parts(t *testing.T) {
	tests := []struct{ rule, source, warning string }{
		{"no-info", `{"openapi":"3.0.0","paths":{}}`, "no info"},
		{"info-is-list", `{"openapi":"3.0.0","info":[],"paths":{}}`, "no info"},
		{"no-paths", `{"openapi":"3.0.0","info":{}}`, "no paths"},
		{"webhooks-only", `{"openapi":"3.1.0","info":{},"webhooks":{"a":{"post":{}}}}`, "webhooks no paths"},
		{"paths-is-list", `{"openapi":"3.0.0","info":{},"paths":[{"get":{}}]}`, "paths not object"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			d := readText(t, test.source)
			if len(d.Operations()) != 0 || !hasWords(d.Warnings, test.warning) {
				t.Errorf("%d operations, warnings %q", len(d.Operations()), d.Warnings)
			}
		})
	}
}

func TestReadHostile(t *testing.T) {
	for name, want := range map[string]string{
		"alias-bomb.yaml":   "values limit",
		"deep.json":         "deeper 100",
		"truncated.json":    "2, 30: JSON ends",
		"invalid-utf8.json": "byte 36",
	} {
		data, err := os.ReadFile(filepath.Join(testdata, "hostile", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(data, Options{}); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestDocument_kinds(t *testing.T) {
	d := readDocument(t, "harbour-3.1.yaml", Options{})
	if got, want := [...]string{d.Title, d.Description, d.Version, d.OpenAPI}, [...]string{"Harbour Office", "Berths, ships and tides.\n", "1.10", "3.1.0"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(d.Warnings) > 0 {
		t.Errorf("warnings %q", d.Warnings)
	}
	other := readDocument(t, "library-3.0.json", Options{})
	if d.Hash() == other.Hash() || d.Hash() != readDocument(t, "harbour-3.1.yaml", Options{}).Hash() {
		t.Error("the hash does not identify the content")
	}
}

func TestBasePath(t *testing.T) {
	tests := []struct{ rule, location, servers, want, warning string }{
		{"none", "", `[]`, "", ""},
		{"root", "", `[{"url":"/"}]`, "", ""},
		{"relative", "", `[{"url":"/v1/"}]`, "/v1", ""},
		{"relative-without-slash", "", `[{"url":"v1"}]`, "/v1", ""},
		{"relative-to-document", "https://a.example/docs/openapi.json", `[{"url":"v1"}]`, "/docs/v1", ""},
		{"relative-to-file", "/etc/openapi.json", `[{"url":"v1"}]`, "/v1", ""},
		{"dots", "", `[{"url":"../../v1"}]`, "/v1", ""},
		{"absolute", "", `[{"url":"https://a.example/api/v2"},{"url":"/other"}]`, "/api/v2", ""},
		{"escaped", "", `[{"url":"https://a.example/my api"}]`, "/my%20api", ""},
		{"variable", "", `[{"url":"{s}://a.example/{v}","variables":{"s":{"default":"https"},"v":{"default":"v3"}}}]`, "/v3", ""},
		{"variable-from-enum", "", `[{"url":"/{v}","variables":{"v":{"enum":["a","b"]}}}]`, "/a", ""},
		{"variable-empty", "", `[{"url":"/api{v}","variables":{"v":{"default":""}}}]`, "/api", ""},
		{"variable-without-default", "", `[{"url":"/{v}"}]`, "", "v default"},
		{"brace-open", "", `[{"url":"/{v"}]`, "", "closed"},
		{"long", "", `[{"url":"/` + strings.Repeat("v", maxPath) + `"}]`, "", "8192 bytes"},
		{"long-through-variables", "", `[{"url":"/{v}{v}","variables":{"v":{"default":"` + strings.Repeat("v", maxPath/2) + `"}}}]`, "", "8192 bytes"},
		{"garbage", "", `[{"url":"http://[x"}]`, "", "base path"},
		{"opaque", "", `[{"url":"mailto:a@b"}]`, "", "base path"},
		{"wrong-type", "", `{"url":"/x"}`, "", ""},
		{"text-for-object", "", `["/x"]`, "/x", ""},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			source := `{"openapi":"3.0.0","info":{},"servers":` + test.servers + `,"paths":{"/a":{"get":{}}}}`
			d, err := Read([]byte(source), Options{Location: test.location})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Operations()[0].BasePath; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if test.warning == "" && len(d.Warnings) > 0 || test.warning != "" && !hasWords(d.Warnings, test.warning) {
				t.Errorf("warnings %q", d.Warnings)
			}
		})
	}
}

func TestSecuritySchemes(t *testing.T) {
	var got []string
	for _, name := range []string{"library-3.0.json", "bakery-2.0.json"} {
		for _, s := range readDocument(t, name, Options{}).SecuritySchemes() {
			got = append(got, strings.Join([]string{s.Name, s.Type, s.In, s.ParameterName, s.Scheme}, " "))
		}
	}
	want := []string{"card apiKey header X-Library-Card ", "staff oauth2   ", "desk http   basic", "till http   basic", "key apiKey query key "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
