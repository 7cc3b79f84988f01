// Package ocpextension reads the OCP extensions of an OpenAPI document that both the tools and
// the advertised document are made from (OCP 1.0, Level 2, OpenAPI Extensions).
package ocpextension

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// The names of the extensions.
const (
	Enabled          = "x-ocp-enabled"
	ContextAware     = "x-ocp-context-aware"
	AgentTypes       = "x-ocp-agent-types"
	Version          = "x-ocp-version"
	Context          = "x-ocp-context"
	EnhancedResponse = "x-ocp-enhanced-response"
	ContextUpdated   = "x-ocp-context-updated"
)

// MaxEnhanced is how many properties one operation may add to its responses.
const MaxEnhanced = 64

// MaxPropertyName is the largest length of the name of an enhanced property, in bytes.
const MaxPropertyName = 128

// Enhanced returns the properties that an operation declares in x-ocp-enhanced-response,
// with their schemas as written in the document. Properties of the operation come first,
// then those of its successful responses. Properties that do not have the form of the
// extension, or that are in another file than the operation, are omitted.
func Enhanced(operation *openapi.Operation) []openapi.Member {
	declared := enhanced(nil, operation.Place, operation.File)
	for i := range operation.Responses {
		if response := &operation.Responses[i]; IsSuccess(response.Status, operation.Responses) {
			declared = enhanced(declared, response.Place, operation.File)
		}
	}
	return declared
}

// enhanced appends the properties that one holder of the extension declares and that are
// not in the list yet.
func enhanced(declared []openapi.Member, holder openapi.Place, file *openapi.File) []openapi.Member {
	at, err := holder.At(EnhancedResponse).Resolve()
	if err != nil || at.File != file {
		return declared
	}
	if isObjectSchema(at) {
		at = at.At("properties")
	}
	for _, m := range at.Members() {
		if len(declared) == MaxEnhanced {
			break
		}
		known := slices.ContainsFunc(declared, func(d openapi.Member) bool { return d.Name == m.Name })
		if !known && IsPropertyName(m.Name) && m.Value.Kind() == '{' {
			declared = append(declared, m)
		}
	}
	return declared
}

// isObjectSchema reports whether the value of x-ocp-enhanced-response is a single object
// schema, whose properties are the enhanced properties.
func isObjectSchema(p openapi.Place) bool {
	properties := p.Get("properties")
	if properties.Kind() != '{' {
		return false
	}
	// An enhanced property can itself be named "properties"; its value is then a schema.
	return p.Get("type").Kind() == '"' || len(p.Members()) == 1 && properties.Get("type").Kind() != '"'
}

// IsPropertyName reports whether an enhanced property can have the name:
// [a-zA-Z][a-zA-Z0-9_]*, at most MaxPropertyName characters.
func IsPropertyName(name string) bool {
	return len(name) <= MaxPropertyName && propertyName.MatchString(name)
}

var propertyName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)

// IsSuccess reports whether a response with this status is one of success. A document that
// declares only a default response declares it for success too.
func IsSuccess(status string, all []openapi.Response) bool {
	return strings.HasPrefix(status, "2") || status == "default" && len(all) == 1
}
