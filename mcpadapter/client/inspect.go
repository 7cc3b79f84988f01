package client

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of what InspectDefinition reports.
const (
	maxFindings = 5   // of one tool
	maxShown    = 60  // bytes of a text that a finding quotes
	minEncoded  = 160 // characters of encoded data
)

// InspectDefinition returns what is suspicious in the definition of a tool as in tools/list, with the member that has it. Own
// has the names of the tools of the same server, which may refer to each other.
//
// Suspicious are texts that try to make a model do something else: characters that people do not see, escape sequences for
// terminals, encoded data, and instructions about other tools, secrets or the user. A finding is a reason to read the
// text, not a proof: texts that pass may be malicious too. What protects is a lock (package tools/lock).
func InspectDefinition(definition jsontext.Value, own map[string]bool) []string {
	i := inspector{own: own}
	i.value("", definition)
	return i.findings
}

// InspectText returns what is suspicious in a text of a server.
func InspectText(s string, own map[string]bool) []string {
	i := inspector{own: own}
	i.text("", s)
	return i.findings
}

type inspector struct {
	own      map[string]bool
	findings []string
}

// value checks a value and all that it contains. Path is the path of members to it.
func (i *inspector) value(path string, value jsontext.Value) {
	switch value.Kind() {
	case '"':
		i.text(path, strictjson.Text(value))
	case '{', '[':
		for walk := strictjson.Into(value); walk.Next() && len(i.findings) < maxFindings; {
			member := path
			if len(walk.Name) > 0 {
				name := strictjson.Text(walk.Name)
				i.text(path, name)
				member = strings.TrimPrefix(path+"."+name, ".")
			}
			i.value(member, walk.Value)
		}
	}
}

// text checks one text. Each kind of finding is reported once.
func (i *inspector) text(path, s string) {
	if hidden := strings.IndexFunc(s, isControl); hidden >= 0 {
		i.report(path, fmt.Sprintf("has a control character (%U), which may be an escape sequence for terminals", []rune(s[hidden:])[0]))
	}
	if r, ok := text.Hidden(s); ok {
		i.report(path, fmt.Sprintf("has characters that people do not see (%U)", r))
	}
	if found := encoded.FindString(s); found != "" && !strings.HasPrefix(s, "data:image/") && isMixed(found) {
		i.report(path, fmt.Sprintf("has %d characters of encoded data", len(found)))
	}
	for _, p := range phrases {
		if found := p.expression.FindString(s); found != "" {
			i.report(path, fmt.Sprintf("%s: %q", p.meaning, text.Cut(found, maxShown)))
		}
	}
	for _, found := range aboutTool.FindAllStringSubmatch(s, maxFindings) {
		if name := found[1]; !i.own[name] {
			i.report(path, fmt.Sprintf("says when to use the tool of another server: %q", text.Cut(found[0], maxShown)))
		}
	}
}

func (i *inspector) report(path, finding string) {
	if path = text.Cut(path, maxShown); path != "" {
		finding = path + " " + finding
	}
	if len(i.findings) < maxFindings && !slices.Contains(i.findings, finding) {
		i.findings = append(i.findings, finding)
	}
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

var encoded = regexp.MustCompile(fmt.Sprintf(`[A-Za-z0-9+/_-]{%d,}={0,2}`, minEncoded))

// isMixed reports whether a text has small letters, capitals and digits, as encoded data has.
func isMixed(s string) bool {
	return strings.ContainsFunc(s, unicode.IsLower) && strings.ContainsFunc(s, unicode.IsUpper) && strings.ContainsFunc(s, unicode.IsDigit)
}

// phrases are expressions that descriptions of tools have no reason for.
var phrases = []struct {
	expression *regexp.Regexp
	meaning    string
}{
	{regexp.MustCompile(`(?i)\b(ignore|disregard|forget|override)\s+(all\s+|any\s+)?(of\s+)?(the\s+|your\s+)?(previous|prior|above|earlier|other|system)\s+(instructions?|prompts?|rules?|messages?|tools?)`), "tells models to ignore other instructions"},
	{regexp.MustCompile(`(?i)\b(do\s+not|don't|never|without|must\s+not)\s+(tell|telling|mention|mentioning|inform|informing|notify|notifying|reveal|revealing|show|showing|alert|alerting|disclos\w+)\b[^.\n]{0,60}\busers?\b`), "tells models to hide something from the user"},
	{regexp.MustCompile(`(?i)<\s*/?\s*(important|system|secret|hidden|critical|instructions?)\s*>`), "has a tag that marks orders for models"},
	{regexp.MustCompile(`(?i)~/\.\w+|\bid_(rsa|ed25519|ecdsa)\b|(^|[\s"'` + "`" + `(/])\.(env|netrc|npmrc|pgpass)\b|/etc/(passwd|shadow)\b|\.(ssh|aws|kube|gnupg)/`), "names files with secrets"},
	{regexp.MustCompile(`(?i)\b(before|after|instead\s+of|whenever|when)\s+(you\s+)?(use|using|call|calling|invoke|invoking|run|running)\s+(any|every|all|each)\s+(other\s+)?tools?\b`), "says when to use other tools"},
}

// aboutTool finds the name of a tool that a text says to use before, after or in place of it.
var aboutTool = regexp.MustCompile("(?i)\\b(?:before|after|instead\\s+of)\\s+(?:use\\s+of|using|calling|invoking|running)\\s+(?:the\\s+)?[\"'`]?([a-z][a-z0-9.-]*_[a-z0-9_.-]*[a-z0-9])")
