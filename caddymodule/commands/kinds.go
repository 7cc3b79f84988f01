package commands

import (
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// keywordKinds are the JSON kinds that schema keywords may have in each version.
var keywordKinds = map[string]struct {
	kinds []openapi.Kind
	want  string
}{
	"items":       {[]openapi.Kind{'{', 't', 'f'}, "a schema"},
	"properties":  {[]openapi.Kind{'{'}, "an object"},
	"enum":        {[]openapi.Kind{'['}, "an array"},
	"allOf":       {[]openapi.Kind{'['}, "an array of schemas"},
	"description": {[]openapi.Kind{'"'}, "a string"},
}

// namesInComponents are further members, in OpenAPI 3, whose own members have names
// chosen by the author.
var namesInComponents = map[string]bool{
	"schemas": true, "requestBodies": true, "securitySchemes": true, "links": true, "callbacks": true, "pathItems": true, "webhooks": true,
	"$defs": true, "dependentSchemas": true, "variables": true, "mapping": true, "scopes": true, "encoding": true, "content": true,
}

// visitDocument calls visit with each value of a document that is no literal. names says that the names of its members are chosen by the
// author.
func visitDocument(p openapi.Place, path string, names bool, visit func(p openapi.Place, path string, names bool)) {
	visit(p, path, names)
	for _, m := range p.Members() {
		if names || !openapi.IsLiteral(m.Name) {
			visitDocument(openapi.Place{Node: m.Value, File: p.File}, path+text.Pointer(m.Name), !names && (openapi.NamesByAuthor(m.Name) || namesInComponents[m.Name]), visit)
		}
	}
	for i, item := range p.Items() {
		visitDocument(openapi.Place{Node: item, File: p.File}, fmt.Sprintf("%s/%d", path, i), false, visit)
	}
}

// wrongKinds returns a finding for each keyword whose value has the wrong JSON type, such
// as an array of schemas in items. The validator would fail on it without a location.
func wrongKinds(root openapi.Place) (findings []string) {
	visitDocument(root, "", false, func(p openapi.Place, path string, names bool) {
		for _, m := range p.Members() {
			if known, isKeyword := keywordKinds[m.Name]; !names && isKeyword && !slices.Contains(known.kinds, m.Value.Kind()) && len(findings) < maxLintRefs {
				findings = append(findings, text.Cut(fmt.Sprintf("#%s must be %s, not %v", path+text.Pointer(m.Name), known.want, m.Value.Kind()), maxLintLine))
			}
		}
	})
	return findings
}
