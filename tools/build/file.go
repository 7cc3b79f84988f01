package build

import (
	"slices"
	"strings"
	"unicode"

	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// FileUse says whether a property of a multipart form is a file.
type FileUse uint8

const (
	NoFile       FileUse = iota
	DeclaredFile         // the document declares it as a file
	LikelyFile           // the document declares it as text, possibly by mistake
)

// FileProperties returns which properties of a multipart form are files. Multipart forms
// are normally used to upload files. If the document declares no property as a file, a
// text property may be sent as one if its name or description suggests a file.
func FileProperties(object *schema.Object) map[string]FileUse {
	uses := make(map[string]FileUse)
	for _, p := range object.Properties {
		if file, _ := IsFile(p.Place); file {
			uses[p.Name] = DeclaredFile
		}
	}
	if len(uses) > 0 {
		return uses
	}
	for _, p := range object.Properties {
		if looksLikeFile(p.Name, p.Place) {
			uses[p.Name] = LikelyFile
		}
	}
	return uses
}

// fileWords are the last words in the names of properties that are usually files.
var fileWords = []string{
	"file", "files", "upload", "attachment", "attachments", "image", "photo", "picture", "avatar", "logo", "icon",
	"audio", "video", "media", "document", "binary", "blob",
}

// looksLikeFile reports whether the name or description of a property suggests a file, and
// its schema is unrestricted text or base64.
func looksLikeFile(name string, place openapi.Place) bool {
	resolved, err := place.Resolve()
	restricts := func(keyword string) bool { return resolved.Get(keyword) != nil }
	if err != nil || !slices.Equal(schema.Types(resolved), []string{"string"}) ||
		slices.ContainsFunc([]string{"enum", "const", "pattern", "maxLength"}, restricts) {
		return false
	}
	switch resolved.Get("format").Text() {
	case "byte":
		return true
	case "":
	default:
		return false
	}
	description := strings.ToLower(schema.Description(place))
	return slices.Contains(fileWords, lastWord(name)) ||
		strings.Contains(description, "file to upload") || strings.Contains(description, "multipart/form-data")
}

// lastWord returns the last word of a name, such as cover_image or coverImage, in lower
// case.
func lastWord(name string) string {
	name = strings.TrimRightFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
	start := strings.LastIndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) + 1
	word := name[start:]
	if upper := strings.LastIndexFunc(word, unicode.IsUpper); upper > 0 && strings.ToUpper(word) != word {
		word = word[upper:]
	}
	return strings.ToLower(word)
}

// IsFile reports whether a property is declared as a file, or an array of files.
func IsFile(place openapi.Place) (file, many bool) {
	if schema.IsFile(place) {
		return true, false
	}
	resolved, err := place.Resolve()
	if err != nil || resolved.Get("items") == nil {
		return false, false
	}
	return schema.IsFile(resolved.At("items")), true
}
