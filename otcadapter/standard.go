package otcadapter

import (
	"slices"
	"strings"
)

// A standard is one of the two forms of responses to calls.
type standard struct {
	schema string // the $schema of the responses
	oxp    bool   // the form of OXP instead of that of OTC's text
}

// The standards. The text of OTC 1.0 defines its URI. OXP has no URI, so its responses refer to
// the OpenAPI document in its repository.
var (
	otcStandard = &standard{schema: "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"}
	oxpStandard = &standard{schema: "https://github.com/OpenExecProtocol/Specification/tree/main/spec/http/1.0/openapi.json", oxp: true}
)

// knownSchemas are the values of $schema that a request may have: those of the standards, and
// that of the drafts between them, which have the form of OXP. They do not determine the form
// of the response; the endpoint does.
var knownSchemas = []string{
	otcStandard.schema,
	oxpStandard.schema,
	"https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
}

// knowsSchema reports whether the URI refers to a supported version of the standard, as a page
// or a file of its repository. The fragment is ignored.
func knowsSchema(uri string) bool {
	if uri == "" {
		return true // the latest version
	}
	uri, _, _ = strings.Cut(uri, "#")
	uri = strings.Replace(uri, "/blob/", "/tree/", 1)
	return slices.Contains(knownSchemas, uri)
}
