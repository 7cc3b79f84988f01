package commands

import (
	"fmt"
	"slices"
	"strings"

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

// wrongKinds returns a finding for each keyword whose value has the wrong JSON type, such
// as an array of schemas in items. The validator would fail on it without a location.
func wrongKinds(root openapi.Place) []string {
	var findings []string
	var walk func(p openapi.Place, path string, names bool)
	walk = func(p openapi.Place, path string, names bool) {
		for _, m := range p.Members() {
			at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.Name)
			known, isKeyword := keywordKinds[m.Name]
			if !names && isKeyword && !slices.Contains(known.kinds, m.Value.Kind()) && len(findings) < maxLintRefs {
				findings = append(findings, text.Cut(fmt.Sprintf("#%s must be %s, not %v", at, known.want, m.Value.Kind()), maxLintLine))
			}
			if names || !openapi.IsLiteral(m.Name) {
				walk(openapi.Place{Node: m.Value, File: p.File}, at, !names && (openapi.NamesByAuthor(m.Name) || namesInComponents[m.Name]))
			}
		}
		for i, item := range p.Items() {
			walk(openapi.Place{Node: item, File: p.File}, fmt.Sprintf("%s/%d", path, i), false)
		}
	}
	walk(root, "", false)
	return findings
}
