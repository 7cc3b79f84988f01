package commands_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// library is a document with one operation. Version is the line of its version.
func library(version, parameters, body string) string {
	return version + `
info: {title: Library, version: "1"}
paths:
  /shelves/{shelf}/books:
    post:
      operationId: addBook
      parameters:
        - {name: shelf, in: path, required: true, schema: {type: string, pattern: "^[a-z]+$"}` + parameters + `}
      requestBody: {required: true, content: {application/json: ` + body + `}}
      responses: {"200": {description: Added}}
components:
  examples:
    shared: {value: {title: 7}}
  schemas:
    Year: {type: integer, maximum: 2100}
    Book:
      type: object
      required: [title]
      properties:
        title: {type: string}
        year: {$ref: '#/components/schemas/Year'}
        "a 'b' \"c\"\\d~/e": {type: string}
        note: {type: object}
        kind: {enum: [novel, poem]}
        code: {type: string, pattern: "^[0-9]+$"}
        tags: {type: array, maxItems: 1, items: {type: string}}
        size: {type: object, additionalProperties: false, required: [x], properties: {x: {type: integer}}}
        loan: {anyOf: [{type: object, required: [by], properties: {by: {type: string}}}, {type: boolean}]}
`
}

// overlayOf returns the overlay that lint prints.
func overlayOf(t *testing.T, out string) string {
	t.Helper()
	at := strings.Index(out, "\noverlay: ")
	if at < 0 {
		t.Fatalf("no overlay in\n%s", out)
	}
	return out[at+1:]
}

func TestLint_tries_examples(t *testing.T) {
	s := sitetest.NewSite(t)
	const v30, v31 = "openapi: 3.0.3", "openapi: 3.1.0"
	for rule, test := range map[string]struct {
		version, parameter, schema, example string
		want                                []string // parts of the reason; none if the example fits
		mended                              bool
	}{
		"fits":                  {v30, "", "", `{title: A, year: 1999}`, nil, false},
		"type":                  {v30, "", "", `{title: A, note: long}`, []string{"/note", "object", "string"}, true},
		"type-3.1":              {v31, "", "", `{title: A, note: [1]}`, []string{"/note", "object", "array"}, true},
		"null":                  {v30, "", "", `{title: A, note: {}, size: null, tags: [null]}`, []string{"/tags/0", "null"}, true},
		"null-3.1":              {v31, "", "", `{title: A, tags: [null]}`, []string{"/tags/0", "null"}, true},
		"enum":                  {v30, "", "", `{title: A, kind: essay}`, []string{"/kind", "poem"}, true},
		"pattern":               {v30, "", "", `{title: A, code: x7}`, []string{"/code", "pattern"}, true},
		"limit-behind-ref":      {v30, "", "", `{title: A, year: 3000}`, []string{"/year", "2"}, true},
		"items":                 {v30, "", "", `{title: A, tags: [a, b]}`, []string{"/tags"}, true},
		"required":              {v30, "", "", `{year: 1999}`, []string{"/title", "missing"}, true},
		"required-inside":       {v30, "", "", `{title: A, size: {}}`, []string{"/size/x", "missing"}, true},
		"closed-object":         {v30, "", "", `{title: A, size: {x: 1, y: 2}}`, []string{"/size/y"}, true},
		"alternatives":          {v30, "", "", `{title: A, loan: {by: {}}}`, []string{"/loan"}, true},
		"strange-name":          {v30, "", "", `{title: A, "a 'b' \"c\"\\d~/e": {}}`, []string{"object"}, true},
		"whole-body":            {v30, "", "{type: array, items: {$ref: '#/components/schemas/Book'}}", `[{title: {}}]`, []string{"/body/0/title"}, true},
		"another-kind-of-body":  {v30, "", "", `[1]`, []string{"object", "array"}, false},
		"parameter":             {v30, ", example: A1", "", `{title: A}`, []string{"parameter shelf", "/shelf", "pattern"}, true},
		"parameter-named":       {v30, ", examples: {first: {value: abc}, second: {value: A1}}", "", `{title: A}`, []string{`"second"`, "/shelf"}, true},
		"escapes-and-long-text": {v30, "", "", `{title: A, kind: "` + `\e[31m` + strings.Repeat("x", 900) + `"}`, []string{"/kind"}, true},
	} {
		t.Run(rule, func(t *testing.T) {
			schema := test.schema
			if schema == "" {
				schema = "{$ref: '#/components/schemas/Book'}"
			}
			document := s.Write(rule+".yaml", library(test.version, test.parameter, "{schema: "+schema+", examples: {sample: {value: "+test.example+"}}}"))
			out, _, err := sitetest.CaddyTools(document, "--lint")
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(out, '\x1b') {
				t.Error("the output has a control character")
			}
			found := false
			for line := range strings.Lines(out) {
				found = found || sitetest.ContainsAll(line, append([]string{"POST /shelves/{shelf}/books, example"}, test.want...))
			}
			if want := len(test.want) > 0; found != want {
				t.Errorf("an example is refused: got %t, want %t\n%s", found, want, out)
			}
			if got := strings.Contains(out, "\noverlay: "); got != test.mended {
				t.Fatalf("an overlay is printed: got %t, want %t\n%s", got, test.mended, out)
			}
			if !test.mended {
				return
			}
			again, _, err := sitetest.CaddyTools(document, "--lint", "--overlay", s.Write(rule+".overlay.yaml", overlayOf(t, out)))
			if err != nil || strings.Contains(again, "POST /shelves/{shelf}/books, example") || strings.Contains(again, "selects nothing") {
				t.Errorf("with the overlay: %v\n%s", err, again)
			}
		})
	}
}

func TestLint_examples_share_an_overlay(t *testing.T) {
	s := sitetest.NewSite(t)
	document := s.Write("several.yaml", library("openapi: 3.0.3", ", example: fiction", `{schema: {$ref: '#/components/schemas/Book'}, examples: {
		shared: {$ref: '#/components/examples/shared'}, list: {value: {title: [1]}}, both: {value: {title: {}, kind: 7}}, good: {value: {title: A}}, never: {value: 7}}}`))
	out, _, err := sitetest.CaddyTools(document, "--lint", "--format", "mcp")
	if err != nil || strings.Contains(out, "can be sent") {
		t.Errorf("standard output has only the tools: %v\n%s", err, out)
	}
	out, _, _ = sitetest.CaddyTools(document, "--lint")
	if !strings.Contains(out, "examples: 2 of 6 ") {
		t.Errorf("the count is not 2 of 6:\n%s", out)
	}
	again, _, err := sitetest.CaddyTools(document, "--lint", "--overlay", s.Write("shared.overlay.yaml", overlayOf(t, out)))
	if err != nil || !strings.Contains(again, "examples: 5 of 6 ") {
		t.Errorf("with the overlay, the count is not 5 of 6: %v\n%s\n%s", err, again, overlayOf(t, out))
	}
	if strings.Contains(again, "\noverlay: ") {
		t.Errorf("an overlay is printed although it helps no example:\n%s", again)
	}
}

func TestLint_reads_examples_of_schemas_and_Swagger(t *testing.T) {
	s := sitetest.NewSite(t)
	for version, body := range map[string]string{
		"swagger: '2.0'": `parameters: [{name: body, in: body, required: true, schema: %s}]`,
		"openapi: 3.0.3": `requestBody: {content: {application/json: {schema: %s}}}`,
		"openapi: 3.1.0": `requestBody: {content: {application/json: {schema: %s}}}`,
	} {
		schema := `{type: object, example: {n: a}, properties: {n: {type: integer}}}`
		if strings.Contains(version, "3.1") {
			schema = strings.Replace(schema, "example: {n: a}", "examples: [{n: 1}, {n: a}]", 1)
		}
		source := fmt.Sprintf("%s\ninfo: {title: A, version: '1'}\npaths:\n  /a:\n    put:\n      "+body+"\n      responses: {'200': {description: A}}\n", version, schema)
		document := s.Write("schema.yaml", source)
		out, _, err := sitetest.CaddyTools(document, "--lint")
		if err != nil || !strings.Contains(out, "/n: must be integer") {
			t.Fatalf("%s: %v\n%s", version, err, out)
		}
		again, _, _ := sitetest.CaddyTools(document, "--lint", "--overlay", s.Write("schema.overlay.yaml", overlayOf(t, out)))
		if strings.Contains(again, "/n: must be") {
			t.Errorf("%s: with the overlay\n%s", version, again)
		}
	}
}
