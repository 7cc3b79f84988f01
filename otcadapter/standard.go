package otcadapter

import (
	"slices"
	"strings"
)

// A standard is one of the two forms in which calls are answered.
type standard struct {
	schema string // the $schema of its answers
	oxp    bool   // the form of OXP, not that of OTC's text
}

// The standards. OTC 1.0 has its URI in its text; OXP never gave itself one, so
// its answers name the OpenAPI document in its repository.
var (
	otcStandard = &standard{schema: "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"}
	oxpStandard = &standard{schema: "https://github.com/OpenExecProtocol/Specification/tree/main/spec/http/1.0/openapi.json", oxp: true}
)

// knownSchemas are the values of $schema that a request may have: those of the
// standards, and that of the drafts between them, which have the form of OXP. The
// form of an answer is decided by the endpoint, not by them.
var knownSchemas = []string{
	otcStandard.schema,
	oxpStandard.schema,
	"https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
}

// knowsSchema reports whether the URI names a version of the standard that is
// served here, as a page of its repository or as the file there, and whatever
// part of it the fragment names.
func knowsSchema(uri string) bool {
	if uri == "" {
		return true // the latest
	}
	uri, _, _ = strings.Cut(uri, "#")
	uri = strings.Replace(uri, "/blob/", "/tree/", 1)
	return slices.Contains(knownSchemas, uri)
}
