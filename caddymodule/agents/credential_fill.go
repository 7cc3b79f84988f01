package agents

import (
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/ocp"
)

// filledView is a toolset as declared by its document, and the same toolset without the
// arguments that credentials fill.
type filledView struct{ declared, filled *ocp.Toolset }

// filledViews caches the filledView of the current document.
type filledViews struct {
	making sync.Mutex
	latest atomic.Pointer[filledView]
}

// Filled returns the tools without the arguments that the toolset's credentials fill. Toolsets
// that share a document each have their own view. Filled returns nil for nil.
func (t *Toolset) Filled(declared *ocp.Toolset) *ocp.Toolset {
	if declared == nil || t.views == nil {
		return declared
	}
	if view := t.views.latest.Load(); view != nil && view.declared == declared {
		return view.filled
	}
	t.views.making.Lock()
	defer t.views.making.Unlock()
	view := t.views.latest.Load()
	if view == nil || view.declared != declared {
		view = &filledView{declared, declared.FilledBy(t.Credentials.fillers(declared))}
		t.views.latest.Store(view)
	}
	return view.filled
}

// fillers returns a function that reports whether one of the credentials fills an argument of a
// tool.
func (cs Credentials) fillers(set *ocp.Toolset) func(*ocp.Tool, *ocp.Argument) bool {
	elsewhere := make([]bool, len(cs))
	for i := range cs {
		elsewhere[i] = !cs[i].isScheme(set)
	}
	return func(tool *ocp.Tool, a *ocp.Argument) bool {
		for i := range cs {
			c := &cs[i]
			if c.In == inBasic || !strings.EqualFold(c.Name, a.WireName) {
				continue
			}
			if c.isAt(a) || elsewhere[i] && c.belongsTo(tool, a) {
				return true
			}
		}
		return false
	}
}

// isScheme reports whether the document declares the credential as an API key. The declaration
// then says where the credential goes.
func (c *Credential) isScheme(set *ocp.Toolset) bool {
	for _, scheme := range set.SecuritySchemes {
		if scheme.In == c.In && strings.EqualFold(scheme.ParameterName, c.Name) {
			return true
		}
	}
	return false
}

// isAt reports whether the argument has the credential's location and name. Names of query
// parameters are case-sensitive, names of headers are not.
func (c *Credential) isAt(a *ocp.Argument) bool {
	switch a.In {
	case ocp.InHeader:
		return c.In == InHeader && strings.EqualFold(c.Name, a.WireName)
	case ocp.InQuery:
		return c.In == inQuery && c.Name == a.WireName
	}
	return false
}

// belongsTo reports whether an argument with the credential's name in another location also
// gets the credential. Some documents, such as Slack's, declare one key as a header, a query
// parameter or a form field, depending on the operation.
func (c *Credential) belongsTo(tool *ocp.Tool, a *ocp.Argument) bool {
	if !a.AllowsText() || a.In != ocp.InHeader && a.In != ocp.InQuery && (a.In != ocp.InBody || !tool.TakesForm()) {
		return false
	}
	for i := range tool.Arguments {
		if c.isAt(&tool.Arguments[i]) {
			return false // the tool has the argument at the credential's own location
		}
	}
	return true
}

// ValuesOf returns a function that looks up the value of a filled argument in the credentials
// of the call.
func ValuesOf(own *ocp.Supplement) func(in ocp.Location, wireName string) (string, bool) {
	return func(in ocp.Location, wireName string) (string, bool) {
		inHeader := func() (string, bool) {
			values := own.Header[textproto.CanonicalMIMEHeaderKey(wireName)]
			return strings.Join(values, ""), len(values) > 0
		}
		if text, ok := inHeader(); ok && in == ocp.InHeader {
			return text, true
		}
		for name, values := range own.Query {
			if strings.EqualFold(name, wireName) && len(values) > 0 {
				return values[0], true
			}
		}
		return inHeader()
	}
}
