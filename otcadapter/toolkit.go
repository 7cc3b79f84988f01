package otcadapter

import (
	"net/http"
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

// A toolkit is the tools of one document under one name and version.
type toolkit struct {
	name        string // [A-Za-z0-9_]+
	version     string // [A-Za-z0-9_.-]+, x.y.z unless the configuration says another
	description string
}

func newToolkit(options Options, tools *ocp.Toolset) toolkit {
	k := toolkit{version: options.Version, description: summary(tools)}
	for _, source := range []string{options.Toolkit, tools.Title, tools.Name, "Toolkit"} {
		if k.name = pascalCase(source); k.name != "" {
			break
		}
	}
	if !isVersion(k.version) || k.version == "latest" {
		k.version = semver(k.version)
	}
	if options.Version == "" {
		k.version = semver(tools.Version)
	}
	return k
}

// appendID appends the full id of a tool.
func (k toolkit) appendID(b []byte, tool string) []byte {
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

// semver makes x.y.z of a version as documents write it: "v2" is 2.0.0 and
// "2024-10-01-preview" is 2024.10.1. A version without a number is 1.0.0.
func semver(version string) string {
	start := strings.IndexFunc(version, func(r rune) bool { return r >= '0' && r <= '9' })
	if start < 0 {
		return "1.0.0"
	}
	parts := make([]string, 0, 3)
	rest := version[start:]
	for len(parts) < cap(parts) {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits == 0 {
			break
		}
		part := strings.TrimLeft(rest[:min(digits, maxVersionPart)], "0")
		if part == "" {
			part = "0"
		}
		parts = append(parts, part)
		rest = rest[digits:]
		if rest == "" || !strings.Contains(".-_", rest[:1]) {
			break
		}
		rest = rest[1:]
	}
	for len(parts) < cap(parts) {
		parts = append(parts, "0")
	}
	return strings.Join(parts, ".")
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

func badToolID(id string, k toolkit) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   quoted(id) + " is not the id of a tool",
		developer: "an id is Toolkit.Tool or Toolkit.Tool@Version; GET /tools lists those of " + k.name,
	}
}

func unknownToolkit(name string, k toolkit) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown toolkit " + quoted(name) + "; the tools here are in " + k.name,
		developer: "GET /tools lists the ids of the tools there are",
	}
}

func unknownVersion(version string, k toolkit) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown version " + quoted(version) + " of the toolkit " + k.name + "; it has version " + k.version,
		developer: "write @" + k.version + " or @latest, or no version, which is the latest",
	}
}
