package otcadapter

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/ocp"
)

const (
	// maxToolkit is the longest name of a toolkit, in bytes.
	maxToolkit = 64

	// maxToolkitDescription is how much of the document's description goes into
	// every tool definition, in bytes.
	maxToolkitDescription = 256

	// maxVersionPart is how many digits one part of a version may have.
	maxVersionPart = 18
)

// A toolkit is the tools of one document under one name and version. Several may
// have the same name.
type toolkit struct {
	name        string // [A-Za-z0-9_]+
	version     string // x.y.z
	description string
	index       int               // in Site.Toolkits
	entries     map[string]*entry // by the tool's name

	held              bool              // the gateway authorizes the calls itself
	authorizationURLs map[string]string // of the configuration, by id of the requirement
}

// An entry is a tool as the server offers it.
type entry struct {
	*ocp.Tool
	requirements [][]requirement // alternatives
}

func newToolkit(options Options, index int, site Toolkit) *toolkit {
	tools := site.Tools
	k := &toolkit{
		version:           options.Version,
		description:       summary(tools),
		index:             index,
		entries:           make(map[string]*entry, len(tools.Tools())),
		held:              site.Held,
		authorizationURLs: options.AuthorizationURLs,
	}
	for _, t := range tools.Tools() {
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

// summary returns the first paragraph of the document's description, shortened,
// or its title.
func summary(tools *ocp.Toolset) string {
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

// pascalCase joins the words of a title: "Train Travel API" is TrainTravelAPI. A
// text that is a toolkit's name already stays as it is; other letters than those
// of ASCII are left out.
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

// isWord reports whether s may be a part of a tool id: [A-Za-z0-9_]+.
func isWord(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// isVersion reports whether s may be the version in a tool id: [A-Za-z0-9_.-]+.
func isVersion(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return s != ""
}
