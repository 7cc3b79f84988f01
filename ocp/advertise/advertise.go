// Package advertise says in an API's own OpenAPI document what a site before it
// does with OCP context (OCP 1.0, Level 2, OpenAPI Extensions).
//
// Document reads the text of the API's document, sets the x-ocp-* flags as they
// are true of a Site, and gives the result as JSON and as YAML, in the order of
// the document and otherwise with its meaning. It is called once for each
// document that is loaded; what it returns is served as it is.
//
// A flag is true of a site for one of two reasons: the site itself sees to it, or
// the document says it of the API and the site lets the context through to it.
// What neither holds for is taken out.
package advertise

import (
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/ocp/openapi"
)

// maxYAML bounds the document as YAML, in bytes.
const maxYAML = 4 * openapi.DefaultMaxSize

// A Site is what a site does with the OCP context of requests to an API. The zero
// value ignores it.
type Site struct {
	Toolset  *ocp.Toolset      // of the document
	Enhancer *enhance.Enhancer // adds to answers; nil if nothing does

	Forwards bool // the API sees the context: what its document says of itself holds
	Replies  bool // answers carry an updated context
	Requires bool // where the document says requires_context, the site insists

	// AgentTypes are those the site is made for. If there are none, the document
	// has the word.
	AgentTypes []string

	// BasePath is the path on this site below which the API is: it takes the
	// place of the document's servers, so that those who read it call the API
	// through this site. "" leaves them as they are. Servers of single paths and
	// operations stay.
	BasePath string
}

// Document returns the OpenAPI document in data, 3.0, 3.1 or Swagger 2.0, with
// the x-ocp-* flags that are true of the site. It fails if data is no OpenAPI
// document, or grows too large.
func Document(data []byte, options openapi.Options, site Site) (asJSON, asYAML []byte, err error) {
	document, err := openapi.Read(data, options)
	if err != nil {
		return nil, nil, err
	}
	root := newFlags(document, site).root()
	asJSON = root.AppendJSON(make([]byte, 0, len(data)+len(data)/8))
	asYAML, err = root.AppendYAML(make([]byte, 0, len(data)+len(data)/4), maxYAML)
	if err != nil {
		return nil, nil, fmt.Errorf("writing %s: %w", options.Location, err)
	}
	return asJSON, asYAML, nil
}

// The names of the extensions.
const (
	enabled          = "x-ocp-enabled"
	contextAware     = "x-ocp-context-aware"
	agentTypes       = "x-ocp-agent-types"
	version          = "x-ocp-version"
	contextBehaviour = "x-ocp-context"
	enhancedResponse = "x-ocp-enhanced-response"
	contextUpdated   = "x-ocp-context-updated"
)

// flags sets the flags of one document.
type flags struct {
	site       Site
	document   openapi.Place
	swagger    bool
	operations map[string]*openapi.Operation // by method and path
	tools      map[string]*ocp.Tool          // likewise
}

func newFlags(document *openapi.Document, site Site) *flags {
	f := &flags{
		site:       site,
		document:   document.Root(),
		swagger:    document.Root().File.Version == openapi.Swagger20,
		operations: make(map[string]*openapi.Operation),
		tools:      make(map[string]*ocp.Tool),
	}
	operations := document.Operations()
	for i := range operations {
		o := &operations[i]
		f.operations[o.Method+" "+o.Path] = o
	}
	if site.Toolset != nil {
		for _, tool := range site.Toolset.Tools() {
			f.tools[tool.Method+" "+tool.Path] = tool
		}
	}
	return f
}

// root returns the document.
func (f *flags) root() *openapi.Node {
	root, info := f.document.Node, f.info()
	for _, name := range []string{enabled, contextAware, agentTypes, version} {
		root = root.Without(name) // some documents have them here; they are in info now
	}
	return f.servers(root.With("info", info)).Map(func(name string, value *openapi.Node) *openapi.Node {
		switch {
		case name == "paths":
			return value.Map(f.path)
		case name == "responses" && f.swagger:
			return value.Map(f.response)
		case name == "components" && !f.swagger:
			return value.Map(f.component)
		}
		return value
	})
}

func (f *flags) component(name string, value *openapi.Node) *openapi.Node {
	if name != "responses" {
		return value
	}
	return value.Map(f.response)
}

// info returns the document's info with the flags of the whole API.
func (f *flags) info() *openapi.Node {
	info := f.inline(f.document.At("info"))
	said := func(name string) *openapi.Node {
		if n := info.Get(name); n != nil {
			return n
		}
		return f.document.Get(name)
	}
	aware := f.site.Replies || f.enhances() || f.site.Forwards && said(contextAware).True()
	types := said(agentTypes)
	info = info.With(enabled, openapi.Boolean(true)).
		With(contextAware, openapi.Boolean(aware)).
		With(version, openapi.Text(ocp.Version))
	switch {
	case len(f.site.AgentTypes) > 0:
		return info.With(agentTypes, texts(f.site.AgentTypes))
	case types.Kind() == '[':
		return info.With(agentTypes, types)
	}
	return info.Without(agentTypes)
}

// enhances reports whether some answer gets further properties.
func (f *flags) enhances() bool {
	if f.site.Enhancer == nil {
		return false
	}
	for where := range f.operations {
		if len(f.site.Enhancer.Properties(f.tools[where])) > 0 {
			return true
		}
	}
	return false
}

// servers makes the document speak of this site, if it is to.
func (f *flags) servers(root *openapi.Node) *openapi.Node {
	switch {
	case f.site.BasePath == "":
		return root
	case f.swagger:
		return root.Without("host").Without("schemes").With("basePath", openapi.Text(f.site.BasePath))
	}
	return root.With("servers", openapi.List(openapi.Object(openapi.Member{Name: "url", Value: openapi.Text(f.site.BasePath)})))
}

// inline returns what a $ref stands for if that is in the same file, where its
// own $refs mean the same; else the value itself.
func (f *flags) inline(p openapi.Place) *openapi.Node {
	resolved, err := p.Resolve()
	if err != nil || resolved.File != f.document.File {
		return p.Node
	}
	return resolved.Node
}

// texts returns a list of texts.
func texts(all []string) *openapi.Node {
	items := make([]*openapi.Node, 0, len(all))
	for i, text := range all {
		if !slices.Contains(all[:i], text) {
			items = append(items, openapi.Text(text))
		}
	}
	return openapi.List(items...)
}
