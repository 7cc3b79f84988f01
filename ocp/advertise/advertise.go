// Package advertise adds x-ocp-* flags to an API's OpenAPI document. The flags tell
// clients what the gateway in front of the API does with OCP context (OCP 1.0,
// Level 2, OpenAPI Extensions).
//
// [Document] is called once for each document that is loaded. It parses the text,
// sets the flags according to a [Site], and returns the result as JSON and as YAML,
// ready to be served. Apart from the flags and servers, the order and the meaning
// of the document stay the same.
//
// A flag is set in two cases:
//
//   - The gateway itself does what the flag says.
//   - The document declares it for the API, and the gateway forwards the context.
//
// Flags for which neither is true are removed.
package advertise

import (
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// maxYAML bounds the size of the YAML output, in bytes.
const maxYAML = 4 * openapi.DefaultMaxSize

// A Site describes what the gateway does with the OCP context of requests to an API.
// The zero value ignores the context.
type Site struct {
	Toolset  *tools.Toolset    // the toolset of the document
	Enhancer *enhance.Enhancer // adds properties to responses; may be nil

	Forwards bool // the API receives the context, so the flags it declares are true
	Replies  bool // responses carry an updated context
	Requires bool // the gateway enforces requires_context where the document declares it

	// AgentTypes are the agent types that the gateway serves. If it is empty, the
	// agent types that the document declares are kept.
	AgentTypes []string

	// BasePath is the path of the API on this gateway. It replaces the document's
	// servers, so that clients call the API through the gateway. If it is "", the
	// servers are kept. The servers of single paths and operations are always kept.
	BasePath string
}

// Options say where a document comes from and limit it.
type Options struct {
	Location    string // path or URL of the document, for messages and relative $refs
	Refs        string // directory whose files $refs may refer to; "" allows no other files
	MaxDocument int    // limit on the size of each file, in bytes; 0 means source.DefaultMaxDocument
}

// Document returns the OpenAPI document in data (3.0, 3.1 or Swagger 2.0) with the
// x-ocp-* flags that are true of the site. It returns an error if data is not an
// OpenAPI document or if the output is too large.
func Document(data []byte, options Options, site Site) (asJSON, asYAML []byte, err error) {
	document, err := openapi.Read(data, openapi.Options{
		Location: options.Location, Refs: options.Refs, Limits: openapi.Limits{Size: options.MaxDocument},
	})
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

// flags sets the x-ocp-* flags of one document.
type flags struct {
	site       Site
	document   openapi.Place
	swagger    bool
	operations map[string]*openapi.Operation // keyed by method and path
	tools      map[string]*tools.Tool        // keyed by method and path
}

func newFlags(document *openapi.Document, site Site) *flags {
	f := &flags{
		site:       site,
		document:   document.Root(),
		swagger:    document.Root().File.Version == openapi.Swagger20,
		operations: make(map[string]*openapi.Operation),
		tools:      make(map[string]*tools.Tool),
	}
	operations := document.Operations()
	for i := range operations {
		o := &operations[i]
		f.operations[o.Method+" "+o.Path] = o
	}
	if site.Toolset != nil {
		for _, tool := range site.Toolset.Tools() {
			f.tools[tool.Plan.Method+" "+tool.Plan.Path] = tool
		}
	}
	return f
}

// root returns the whole document with its flags.
func (f *flags) root() *openapi.Node {
	root, info := f.document.Node, f.info()
	for _, name := range []string{ocpextension.Enabled, ocpextension.ContextAware, ocpextension.AgentTypes, ocpextension.Version} {
		root = root.Without(name) // some documents have them at the root; they belong in info
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

// info returns the document's info object with the flags that apply to the whole API.
func (f *flags) info() *openapi.Node {
	info := f.inline(f.document.At("info"))
	said := func(name string) *openapi.Node {
		if n := info.Get(name); n != nil {
			return n
		}
		return f.document.Get(name)
	}
	aware := f.site.Replies || f.enhances() || f.site.Forwards && said(ocpextension.ContextAware).True()
	types := said(ocpextension.AgentTypes)
	info = info.With(ocpextension.Enabled, openapi.Boolean(true)).
		With(ocpextension.ContextAware, openapi.Boolean(aware)).
		With(ocpextension.Version, openapi.Text(ocp.Version))
	switch {
	case len(f.site.AgentTypes) > 0:
		return info.With(ocpextension.AgentTypes, texts(f.site.AgentTypes))
	case types.Kind() == '[':
		return info.With(ocpextension.AgentTypes, types)
	}
	return info.Without(ocpextension.AgentTypes)
}

// enhances reports whether the Enhancer adds properties to any operation's responses.
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

// servers replaces the document's servers by the gateway's base path, if one is set.
func (f *flags) servers(root *openapi.Node) *openapi.Node {
	switch {
	case f.site.BasePath == "":
		return root
	case f.swagger:
		return root.Without("host").Without("schemes").With("basePath", openapi.Text(f.site.BasePath))
	}
	return root.With("servers", openapi.List(openapi.Object(openapi.Member{Name: "url", Value: openapi.Text(f.site.BasePath)})))
}

// inline returns the target of a $ref if it is in the same file, where relative $refs
// keep their meaning. Otherwise it returns the value itself.
func (f *flags) inline(p openapi.Place) *openapi.Node {
	resolved, err := p.Resolve()
	if err != nil || resolved.File != f.document.File {
		return p.Node
	}
	return resolved.Node
}

// texts returns an array of strings without duplicates.
func texts(all []string) *openapi.Node {
	items := make([]*openapi.Node, 0, len(all))
	for i, text := range all {
		if !slices.Contains(all[:i], text) {
			items = append(items, openapi.Text(text))
		}
	}
	return openapi.List(items...)
}
