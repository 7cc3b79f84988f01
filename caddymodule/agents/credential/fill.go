package credential

import (
	"net/textproto"
	"strings"

	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Filled returns the tools without the arguments that the credentials fill.
func (s Set) Filled(declared *tool.Toolset) *tool.Toolset {
	if len(s) == 0 {
		return declared
	}
	return declared.FilledBy(s.fillers(declared))
}

// fillers returns a function that reports whether one of the credentials fills an argument of a
// tool.
func (s Set) fillers(set *tool.Toolset) func(*tool.Tool, *tool.Argument) bool {
	elsewhere := make([]bool, len(s))
	for i := range s {
		elsewhere[i] = !s[i].isDeclaredAPIKey(set)
	}
	return func(tool *tool.Tool, a *tool.Argument) bool {
		for i := range s {
			c := &s[i]
			if _, basic := c.Module.(*Basic); basic || !strings.EqualFold(c.at.Name, a.WireName) {
				continue
			}
			if c.matchesArgument(a) || elsewhere[i] && c.fillsElsewhere(tool, a) {
				return true
			}
		}
		return false
	}
}

// isDeclaredAPIKey reports whether the document declares the credential as an API key. The declaration
// then says where the credential goes.
func (c *located) isDeclaredAPIKey(set *tool.Toolset) bool {
	for _, scheme := range set.SecuritySchemes {
		if scheme.In == c.at.in() && strings.EqualFold(scheme.ParameterName, c.at.Name) {
			return true
		}
	}
	return false
}

// matchesArgument reports whether the argument has the credential's location and name. Names of query
// parameters are case-sensitive, names of headers are not.
func (c *located) matchesArgument(a *tool.Argument) bool {
	switch a.In {
	case tool.InHeader:
		return !c.at.Query && strings.EqualFold(c.at.Name, a.WireName)
	case tool.InQuery:
		return c.at.Query && c.at.Name == a.WireName
	}
	return false
}

// fillsElsewhere reports whether an argument with the credential's name in another location also
// gets the credential. Some documents, such as Slack's, declare one key as a header, a query
// parameter or a form field, depending on the operation.
func (c *located) fillsElsewhere(t *tool.Tool, a *tool.Argument) bool {
	if !a.AllowsText() || a.In != tool.InHeader && a.In != tool.InQuery && (a.In != tool.InBody || !t.TakesForm()) {
		return false
	}
	for i := range t.Arguments {
		if c.matchesArgument(&t.Arguments[i]) {
			return false // the tool has the argument at the credential's own location
		}
	}
	return true
}

// in returns where the credential is sent, as a security scheme of OpenAPI names it.
func (l Location) in() string {
	if l.Query {
		return "query"
	}
	return "header"
}

// Values returns a function that looks up the value of a filled argument in the credentials
// of the call.
func Values(credentials *security.Supplement) func(in tool.Location, wireName string) (string, bool) {
	return func(in tool.Location, wireName string) (string, bool) {
		inHeader := func() (string, bool) {
			values := credentials.Header[textproto.CanonicalMIMEHeaderKey(wireName)]
			return strings.Join(values, ""), len(values) > 0
		}
		if text, ok := inHeader(); ok && in == tool.InHeader {
			return text, true
		}
		for name, values := range credentials.Query {
			if strings.EqualFold(name, wireName) && len(values) > 0 {
				return values[0], true
			}
		}
		return inHeader()
	}
}
