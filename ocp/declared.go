package ocp

import "github.com/fairwayhq/fairway/ocp/openapi"

// DeclaredEnhancements returns the properties that an operation declares in
// x-ocp-enhanced-response, with their schemas as written in the document. Properties of
// the operation come first, then those of its successful responses. Properties that do not
// have the form of the extension, or that are in another file than the operation, are
// omitted.
func DeclaredEnhancements(operation *openapi.Operation) []openapi.Member {
	declared := enhancements(nil, operation.Place, operation.File)
	for i := range operation.Responses {
		if response := &operation.Responses[i]; isSuccess(response.Status, operation.Responses) {
			declared = enhancements(declared, response.Place, operation.File)
		}
	}
	return declared
}

// enhancements appends the properties that one holder of the extension declares and that
// are not in the list yet.
func enhancements(declared []openapi.Member, holder openapi.Place, file *openapi.File) []openapi.Member {
	at, err := holder.At(extensionEnhancedResponse).Resolve()
	if err != nil || at.File != file {
		return declared
	}
	if isObjectSchema(at) {
		at = at.At("properties")
	}
	for _, m := range at.Members() {
		if len(declared) == maxEnhanced {
			break
		}
		known := false
		for i := range declared {
			known = known || declared[i].Name == m.Name
		}
		if !known && isPropertyName(m.Name) && m.Value.Kind() == '{' {
			declared = append(declared, m)
		}
	}
	return declared
}
