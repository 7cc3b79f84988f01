package credential

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// Filled returns the tools without the arguments that the credentials fill.
func (s Set) Filled(declared *tools.Toolset) *tools.Toolset {
	if len(s) == 0 {
		return declared
	}
	return declared.FilledBy(s.fillers(declared))
}

// fillers returns a function that reports whether one of the credentials fills an argument of a
// tool.
func (s Set) fillers(set *tools.Toolset) func(*tools.Tool, *tools.Argument) bool {
	elsewhere := make([]bool, len(s))
	for i := range s {
		elsewhere[i] = !s[i].isDeclaredAPIKey(set)
	}
	return func(tool *tools.Tool, a *tools.Argument) bool {
		for i := range s {
			c := &s[i]
			if _, basic := c.Module.(*Basic); basic || !strings.EqualFold(c.at.Name, a.WireName) {
				continue
			}
			if c.matchesArgument(a) || elsewhere[i] && c.fillsElsewhere(tool, a) {
				return true
			}
		}
		return carriesCredential(tool, a) && describesCredential.MatchString(a.Description) && s.satisfies(set, tool)
	}
}

// Doubtful returns the required arguments that may carry what the credentials already are, as tool.argument. Filled
// is the result of Filled.
func (s Set) Doubtful(filled *tools.Toolset) (names []string) {
	for _, t := range filled.Tools() {
		for i := range t.Definition.Arguments {
			if a := &t.Definition.Arguments[i]; len(s) > 0 && a.Required && carriesCredential(t, a) && s.satisfies(filled, t) {
				names = append(names, t.Name+"."+a.Name)
			}
		}
	}
	return names
}

var (
	namesCredential = regexp.MustCompile(`(?i)^(x[-_])?(token|(auth|access|api|bearer|oauth)[-_]?(token|key))$`)

	// "The access token to revoke" does not match, because it is not the token of the request.
	describesCredential = regexp.MustCompile(`(?i)^(your |the |an? )?(authentication|authorization|auth|access|api|bearer|oauth) (token|key)( bearing [a-z ]+)?\s*($|[.,;:(])`)
)

// carriesCredential reports whether an argument has the place and the name of a credential. Properties of JSON bodies
// and parameters of the path are data.
func carriesCredential(t *tools.Tool, a *tools.Argument) bool {
	return isOutsideData(t, a) && namesCredential.MatchString(a.WireName)
}

// isOutsideData reports whether an argument is text in a header, in the query or in a form.
func isOutsideData(t *tools.Tool, a *tools.Argument) bool {
	return a.AllowsText() && (a.In == tools.InHeader || a.In == tools.InQuery || a.In == tools.InBody && t.TakesForm())
}

// satisfies reports whether the credentials meet one of the security requirements of a tool's operation. An argument
// that only carries a credential is then not sent.
func (s Set) satisfies(set *tools.Toolset, t *tools.Tool) bool {
	schemes := set.PartOf(t).SecuritySchemes
	return slices.ContainsFunc(t.Plan.Security, func(requirement tools.SecurityRequirement) bool {
		for name := range requirement {
			if scheme := schemes[name]; scheme == nil || !slices.ContainsFunc(s, func(c located) bool { return c.is(scheme) }) {
				return false
			}
		}
		return len(requirement) > 0
	})
}

// is reports whether a security scheme describes the credential.
func (c *located) is(scheme *security.Scheme) bool {
	if scheme.Type == "apiKey" {
		return scheme.In == c.at.in() && strings.EqualFold(scheme.ParameterName, c.at.Name)
	}
	return !c.at.Query && c.at.Name == "Authorization"
}

// isDeclaredAPIKey reports whether the document declares the credential as an API key. The declaration
// then says where the credential goes.
func (c *located) isDeclaredAPIKey(set *tools.Toolset) bool {
	for _, scheme := range set.SecuritySchemes {
		if scheme.Type == "apiKey" && c.is(scheme) {
			return true
		}
	}
	return false
}

// matchesArgument reports whether the argument has the credential's location and name. Names of query
// parameters are case-sensitive, names of headers are not.
func (c *located) matchesArgument(a *tools.Argument) bool {
	switch a.In {
	case tools.InHeader:
		return !c.at.Query && strings.EqualFold(c.at.Name, a.WireName)
	case tools.InQuery:
		return c.at.Query && c.at.Name == a.WireName
	}
	return false
}

// fillsElsewhere reports whether an argument with the credential's name in another location also
// gets the credential. Some documents, such as Slack's, declare one key as a header, a query
// parameter or a form field, depending on the operation.
func (c *located) fillsElsewhere(t *tools.Tool, a *tools.Argument) bool {
	if !isOutsideData(t, a) {
		return false
	}
	for i := range t.Definition.Arguments {
		if c.matchesArgument(&t.Definition.Arguments[i]) {
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
func Values(credentials *security.Supplement) func(in tools.Location, wireName string) (string, bool) {
	return func(in tools.Location, wireName string) (string, bool) {
		inHeader := func() (string, bool) {
			values := credentials.Header[textproto.CanonicalMIMEHeaderKey(wireName)]
			return strings.Join(values, ""), len(values) > 0
		}
		if text, ok := inHeader(); ok && in == tools.InHeader {
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
