package mcpadapter

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// openaiPrefix begins the names of what the Apps SDK has in _meta. A document may
// leave it out.
const openaiPrefix = "openai/"

// An operation can be a tool that has a page, or a page itself, or both. Of which of
// them a member of ui or openai speaks, its name says: these are of the page, and all
// others of the tool (MCP Apps, UI Resource Format; Apps SDK, Resource Definition).
var (
	uiOfPage = map[string]bool{"csp": true, "permissions": true, "domain": true, "prefersBorder": true}

	openaiOfPage = map[string]bool{
		"widgetDescription": true, "widgetPrefersBorder": true, "widgetCSP": true, "widgetDomain": true,
	}
)

// appMeta returns the members of _meta that x-mcp has for the tool, or for the page.
// What does not fit its name is left out.
func (e *extension) appMeta(page bool) (meta members) {
	var ui members
	for walk := wire.Into(e.ui); walk.Next(); {
		name := text(walk.Name)
		if uiOfPage[name] == page && uiRules.takes(name, walk.Value) {
			ui.add(name, walk.Value)
		}
	}
	if len(ui) > 0 {
		meta.add("ui", ui.object())
	}
	added := make(map[string]bool)
	for walk := wire.Into(e.openai); walk.Next(); {
		name := strings.TrimPrefix(text(walk.Name), openaiPrefix)
		if openaiOfPage[name] == page && !added[name] && openaiRules.takes(name, walk.Value) {
			added[name] = true
			meta.add(openaiPrefix+name, walk.Value)
		}
	}
	return meta
}

// describePage completes _meta of a resource that is a page by what x-mcp says of the
// operation's page. What the resource's own _meta has is not touched.
func (r *resource) describePage(e *extension) {
	if !r.isPage() {
		return
	}
	own := r.meta
	var meta members
	for walk := wire.Into(own); walk.Next(); {
		meta.add(text(walk.Name), walk.Value)
	}
	for walk := wire.Into(jsontext.Value(e.appMeta(true).object())); walk.Next(); {
		if name := text(walk.Name); !hasMember(own, name) {
			meta.add(name, walk.Value)
		}
	}
	if len(meta) > 0 {
		r.meta = meta.object()
	}
}

// isPage reports whether hosts show the resource as a page of an app.
func (r *resource) isPage() bool {
	uri := r.uri
	if r.template != nil {
		uri = r.template.text
	}
	return pageType(r.mime) != "" || strings.HasPrefix(uri, "ui://")
}
