package agents

import (
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/ocp"
)

// filledView is a Toolset and what it is without the arguments that credentials
// fill.
type filledView struct{ declared, filled *ocp.Toolset }

// filledViews keeps the view of the current document.
type filledViews struct {
	making sync.Mutex
	latest atomic.Pointer[filledView]
}

// Filled returns the tools without the arguments that the toolset's credentials
// fill, nil of nil. Toolsets that share a document each have their own.
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

// fillers returns what reports whether one of the credentials fills an argument of
// a tool.
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

// isScheme reports whether the document declares the credential as an API key,
// and so says where it goes.
func (c *Credential) isScheme(set *ocp.Toolset) bool {
	for _, scheme := range set.SecuritySchemes {
		if scheme.In == c.In && strings.EqualFold(scheme.ParameterName, c.Name) {
			return true
		}
	}
	return false
}

// isAt reports whether the credential goes to the place of the argument. Names of
// query parameters depend on case.
func (c *Credential) isAt(a *ocp.Argument) bool {
	switch a.In {
	case ocp.InHeader:
		return c.In == InHeader && strings.EqualFold(c.Name, a.WireName)
	case ocp.InQuery:
		return c.In == inQuery && c.Name == a.WireName
	}
	return false
}

// belongsTo reports whether an argument of the credential's name in another place
// takes the credential: documents such as Slack's declare one key as a header, a
// query parameter or a form field, by operation.
func (c *Credential) belongsTo(tool *ocp.Tool, a *ocp.Argument) bool {
	if !a.AllowsText() || a.In != ocp.InHeader && a.In != ocp.InQuery && (a.In != ocp.InBody || !tool.TakesForm()) {
		return false
	}
	for i := range tool.Arguments {
		if c.isAt(&tool.Arguments[i]) {
			return false // there is the credential's own argument
		}
	}
	return true
}

// ValuesOf returns what gives the filled arguments of a call their values, from
// the credentials that the call is made with.
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
