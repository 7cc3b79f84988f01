package otcadapter

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/ocp/tool"
)

const (
	// maxToolkit limits the length of a toolkit's name, in bytes.
	maxToolkit = 64

	// maxToolkitDescription limits how much of the document's description is in every tool
	// definition, in bytes.
	maxToolkitDescription = 256

	// ownVersion is the version of a toolkit that has a name of its own.
	ownVersion = "1.0.0"

	// maxVersionPart limits the number of digits in one part of a version.
	maxVersionPart = 18
)

// A toolkit has the tools of one document under one name and version. Several toolkits may have
// the same name.
type toolkit struct {
	name        string // [A-Za-z0-9_]+
	version     string // x.y.z
	description string
	index       int               // in Site.Toolkits
	entries     map[string]*entry // by the tool's name

	tools              *tool.Toolset
	injectsCredentials bool              // the gateway adds the credentials for the API
	authorizationURLs  map[string]string // from the configuration, by id of the requirement
}

// An entry is a tool with its requirements.
type entry struct {
	*tool.Tool
	requirements [][]requirement // alternatives
}

// newToolkit returns the toolkit of a loaded Toolset.
func newToolkit(options Options, index int, site Toolkit) *toolkit {
	tools := site.Tools
	if site.Name != "" {
		options.Toolkit, options.Version = site.Name, ownVersion
	}
	k := &toolkit{
		version:            options.Version,
		description:        shortDescription(tools),
		index:              index,
		entries:            make(map[string]*entry, len(tools.Listed())),
		injectsCredentials: site.InjectsCredentials,
		tools:              tools,
		authorizationURLs:  options.AuthorizationURLs,
	}
	for _, t := range tools.Listed() {
		k.entries[t.Name] = &entry{t, requirementsOf(t, tools.SecuritySchemes)}
	}
	for _, source := range []string{options.Toolkit, tools.Title, tools.Name, "Toolkit"} {
		if k.name = pascalCase(source); k.name != "" {
			break
		}
	}
	if k.version == "" {
		k.version = tools.Version
	}
	k.version = semver(k.version)
	return k
}

// appendID appends the full id of a tool.
func (k *toolkit) appendID(b []byte, tool string) []byte {
	b = append(b, k.name...)
	b = append(b, '.')
	b = append(b, tool...)
	b = append(b, '@')
	return append(b, k.version...)
}

// shortDescription returns the first paragraph of the document's description, shortened. If there is
// none, it returns the title.
func shortDescription(tools *tool.Toolset) string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(tools.Description, "\r\n", "\n")), "\n\n")
	text := strings.Join(strings.Fields(paragraph), " ")
	if text == "" {
		text = tools.Title
	}
	if len(text) <= maxToolkitDescription {
		return text
	}
	cut := maxToolkitDescription - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// pascalCase joins the words of a title: "Train Travel API" becomes TrainTravelAPI. A text that
// is a valid name of a toolkit stays unchanged. Letters outside ASCII are removed.
func pascalCase(title string) string {
	if isWord(title) && len(title) <= maxToolkit {
		return title
	}
	var name strings.Builder
	inWord := false
	for _, r := range title {
		switch {
		case r > unicode.MaxASCII && unicode.In(r, unicode.L, unicode.M, unicode.N):
			continue
		case r > unicode.MaxASCII || !isWordByte(byte(r)) || r == '_':
			inWord = false
			continue
		case !inWord:
			r = unicode.ToUpper(r)
			inWord = true
		}
		if name.Len() == maxToolkit {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}

// isWord reports whether s is valid as a part of a tool id: [A-Za-z0-9_]+.
func isWord(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// isWordByte reports whether isWord allows the byte.
func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// isVersion reports whether s is valid as the version in a tool id: [A-Za-z0-9_.-]+.
func isVersion(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return s != ""
}
