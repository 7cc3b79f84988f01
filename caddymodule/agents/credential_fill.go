package agents

import (
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// filledPair is a toolset as declared by its document, and the same toolset without the
// arguments that credentials fill.
type filledPair struct{ declared, filled *tool.Toolset }

// filledToolsets caches the filledPair of the current document.
type filledToolsets struct {
	mu      sync.Mutex
	current atomic.Pointer[filledPair]
}

// Filled returns the tools without the arguments that the toolset's credentials fill. Toolsets
// that share a document each have their own view. Filled returns nil for nil.
func (t *Toolset) Filled(declared *tool.Toolset) *tool.Toolset {
	if declared == nil || t.filledToolsets == nil {
		return declared
	}
	if view := t.filledToolsets.current.Load(); view != nil && view.declared == declared {
		return view.filled
	}
	t.filledToolsets.mu.Lock()
	defer t.filledToolsets.mu.Unlock()
	view := t.filledToolsets.current.Load()
	if view == nil || view.declared != declared {
		view = &filledPair{declared, t.Credentials.Filled(declared)}
		t.filledToolsets.current.Store(view)
	}
	return view.filled
}

// Filled returns the tools without the arguments that the credentials fill.
func (cs Credentials) Filled(declared *tool.Toolset) *tool.Toolset {
	if len(cs) == 0 {
		return declared
	}
	return declared.FilledBy(cs.fillers(declared))
}

// fillers returns a function that reports whether one of the credentials fills an argument of a
// tool.
func (cs Credentials) fillers(set *tool.Toolset) func(*tool.Tool, *tool.Argument) bool {
	elsewhere := make([]bool, len(cs))
	for i := range cs {
		elsewhere[i] = !cs[i].isDeclaredAPIKey(set)
	}
	return func(tool *tool.Tool, a *tool.Argument) bool {
		for i := range cs {
			c := &cs[i]
			if c.In == inBasic || !strings.EqualFold(c.Name, a.WireName) {
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
func (c *Credential) isDeclaredAPIKey(set *tool.Toolset) bool {
	for _, scheme := range set.SecuritySchemes {
		if scheme.In == c.In && strings.EqualFold(scheme.ParameterName, c.Name) {
			return true
		}
	}
	return false
}

// matchesArgument reports whether the argument has the credential's location and name. Names of query
// parameters are case-sensitive, names of headers are not.
func (c *Credential) matchesArgument(a *tool.Argument) bool {
	switch a.In {
	case tool.InHeader:
		return c.In == InHeader && strings.EqualFold(c.Name, a.WireName)
	case tool.InQuery:
		return c.In == inQuery && c.Name == a.WireName
	}
	return false
}

// fillsElsewhere reports whether an argument with the credential's name in another location also
// gets the credential. Some documents, such as Slack's, declare one key as a header, a query
// parameter or a form field, depending on the operation.
func (c *Credential) fillsElsewhere(t *tool.Tool, a *tool.Argument) bool {
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

// CredentialValues returns a function that looks up the value of a filled argument in the credentials
// of the call.
func CredentialValues(credentials *security.Supplement) func(in tool.Location, wireName string) (string, bool) {
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
