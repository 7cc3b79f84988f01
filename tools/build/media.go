package build

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// The media types of patch documents that Fairway distinguishes. A server applies each of
// them differently, even if the bodies are equal.
const (
	jsonPatch           = "application/json-patch+json"            // RFC 6902: an array of operations
	mergePatch          = "application/merge-patch+json"           // RFC 7396: an object
	strategicMergePatch = "application/strategic-merge-patch+json" // Kubernetes: an object
)

// The ranks of media types of a request body. Fairway chooses the media type with the
// lowest rank. If ranks are equal, it chooses the type that is declared first.
const (
	rankJSON       = iota // application/json
	rankOtherJSON         // text/json and all +json types
	rankJSONRange         // a range such as */* whose schema is not a file
	rankURLEncoded        // application/x-www-form-urlencoded
	rankMultipart         // multipart/form-data
	rankText              // text/*
	rankOther             // files and everything else
	rankUnfit             // added if the schema does not fit the media type
)

// bodyRank returns the rank of a media type of a request body.
func bodyRank(media *openapi.Media) int {
	base := httpheader.MediaType(media.Type)
	kind, isRange := RangeKind(media)
	rank := rankOther
	switch {
	case base == "application/json":
		rank = rankJSON
	case isRange && kind == request.JSON:
		rank = rankJSONRange
	case isRange && kind == request.Binary:
	case httpheader.IsJSON(base):
		rank = rankOtherJSON
	case base == "application/x-www-form-urlencoded":
		rank = rankURLEncoded
	case base == "multipart/form-data":
		rank = rankMultipart
	case strings.HasPrefix(base, "text/"):
		rank = rankText
	}
	if !fitsMediaType(media) {
		rank += rankUnfit
	}
	return rank
}

// PreferredBody returns the media type to send a body with. It prefers types that the schema
// fits, then JSON, forms, text and files, in this order.
func PreferredBody(content []openapi.Media) *openapi.Media {
	best := &content[0]
	for i := range content {
		if bodyRank(&content[i]) < bodyRank(best) {
			best = &content[i]
		}
	}
	return best
}

// fitsMediaType reports whether a value of the schema can be sent as the media type. A
// JSON Patch is an array of operations, while other patch types are objects. Documents
// often declare all of them with the same schema.
func fitsMediaType(media *openapi.Media) bool {
	types := schema.Types(media.Schema)
	switch httpheader.MediaType(media.Type) {
	case jsonPatch:
		return len(types) == 0 || slices.Contains(types, "array") && mayBeOperation(media.Schema)
	case mergePatch, strategicMergePatch:
		return len(types) == 0 || slices.Contains(types, "object")
	}
	return true
}

// mayBeOperation reports whether the document allows the items of an array to be
// operations of a JSON Patch: objects with the members op and path.
func mayBeOperation(array openapi.Place) bool {
	resolved, err := array.Resolve()
	if err != nil || resolved.Get("items") == nil {
		return true
	}
	items := resolved.At("items")
	if object, ok := schema.ObjectOf(items); ok {
		named := func(name string) bool {
			return slices.ContainsFunc(object.Properties, func(p schema.Property) bool { return p.Name == name })
		}
		return named("op") && named("path")
	}
	types := schema.Types(items)
	return len(types) == 0 || slices.Contains(types, "object")
}

// RangeKind returns how to build a body whose media type is a range without a format, such
// as */*. If the schema is absent or describes bytes, the body is a file. Otherwise it is
// JSON.
func RangeKind(media *openapi.Media) (kind request.Kind, isRange bool) {
	switch base := httpheader.MediaType(media.Type); base {
	case "*/*", "application/*":
	case "application/*+json":
		return request.JSON, true
	default:
		return 0, false
	}
	switch {
	case schema.IsFile(media.Schema):
		return request.Binary, true
	case len(media.Schema.Members()) == 0 && httpheader.MediaType(media.Type) == "*/*":
		return request.Binary, true
	}
	return request.JSON, true
}

// maxBodyTypes is the largest number of body media types that an operation offers.
const maxBodyTypes = 8

// BodyTypes returns the media types that a caller can choose from, the default first. It
// offers only patch types that fit the chosen type's schema, because only they differ in
// meaning. It returns nil if there is no choice.
func BodyTypes(content []openapi.Media, chosen *openapi.Media) (choices []*openapi.Media) {
	choices = append(choices, chosen)
	patches := isPatch(chosen)
	for i := range content {
		media := &content[i]
		base := httpheader.MediaType(media.Type)
		if len(choices) == maxBodyTypes || !isPatch(media) && base != "application/json" ||
			slices.ContainsFunc(choices, func(c *openapi.Media) bool { return httpheader.MediaType(c.Type) == base }) {
			continue
		}
		if !fitsMediaType(media) || !sameSchema(media.Schema, chosen.Schema) {
			continue
		}
		patches = patches || isPatch(media)
		choices = append(choices, media)
	}
	if len(choices) == 1 || !patches {
		return nil
	}
	return choices
}

func isPatch(media *openapi.Media) bool {
	switch httpheader.MediaType(media.Type) {
	case jsonPatch, mergePatch, strategicMergePatch:
		return true
	}
	return false
}

// sameSchema reports whether two media types clearly have the same schema.
func sameSchema(a, b openapi.Place) bool {
	return a.Node == b.Node || bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil))
}
