package openapi

import (
	"fmt"
	"slices"
	"strings"
)

// keywordKinds are the JSON kinds that schema keywords may have in each version.
var keywordKinds = map[string]struct {
	kinds []Kind
	want  string
}{
	"items":       {[]Kind{'{', 't', 'f'}, "a schema"},
	"properties":  {[]Kind{'{'}, "an object"},
	"enum":        {[]Kind{'['}, "an array"},
	"allOf":       {[]Kind{'['}, "an array of schemas"},
	"description": {[]Kind{'"'}, "a string"},
}

// namesInComponents are further members, in OpenAPI 3, whose own members have names
// chosen by the author.
var namesInComponents = map[string]bool{
	"schemas": true, "requestBodies": true, "securitySchemes": true, "links": true, "callbacks": true, "pathItems": true, "webhooks": true,
	"$defs": true, "dependentSchemas": true, "variables": true, "mapping": true, "scopes": true, "encoding": true, "content": true,
}

// wrongKinds returns a finding for each keyword whose value has the wrong JSON type, such
// as an array of schemas in items. The validator would fail on it without a location.
func wrongKinds(root Place) []string {
	var findings []string
	var walk func(p Place, path string, names bool)
	walk = func(p Place, path string, names bool) {
		for _, m := range p.Members() {
			at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.Name)
			known, isKeyword := keywordKinds[m.Name]
			if !names && isKeyword && !slices.Contains(known.kinds, m.Value.Kind()) && len(findings) < maxLintRefs {
				findings = append(findings, clipLine(fmt.Sprintf("#%s must be %s, not %v", at, known.want, m.Value.Kind())))
			}
			if names || !isLiteral(m.Name) {
				walk(Place{m.Value, p.File}, at, !names && (namesByAuthor(m.Name) || namesInComponents[m.Name]))
			}
		}
		for i, item := range p.Items() {
			walk(Place{item, p.File}, fmt.Sprintf("%s/%d", path, i), false)
		}
	}
	walk(root, "", false)
	return findings
}
