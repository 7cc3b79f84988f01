package library

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// openaiPrefix starts the names of the Apps SDK's members in _meta. A document may omit it.
const openaiPrefix = "openai/"

// An operation can be a tool with a page, a page itself, or both. The name of a member of x-mcp.ui
// and x-mcp.openai decides what the member describes: the names below describe the page, all others
// describe the tool (MCP Apps, UI Resource Format; Apps SDK, Resource Definition).
var (
	uiOfPage = map[string]bool{"csp": true, "permissions": true, "domain": true, "prefersBorder": true}

	openaiOfPage = map[string]bool{
		"widgetDescription": true, "widgetPrefersBorder": true, "widgetCSP": true, "widgetDomain": true,
	}
)

// appMeta returns the members of _meta that x-mcp declares for the page (page is true) or for the
// tool (page is false). It omits members whose value does not fit their name.
func (e *extension) appMeta(page bool) (meta strictjson.ObjectBuilder) {
	var ui strictjson.ObjectBuilder
	for walk := strictjson.Into(e.ui); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if uiOfPage[name] == page && uiRules.takes(name, walk.Value) {
			ui.Add(name, walk.Value)
		}
	}
	if len(ui) > 0 {
		meta.Add("ui", ui.Close())
	}
	added := make(map[string]bool)
	for walk := strictjson.Into(e.openai); walk.Next(); {
		name := strings.TrimPrefix(strictjson.Text(walk.Name), openaiPrefix)
		if openaiOfPage[name] == page && !added[name] && openaiRules.takes(name, walk.Value) {
			added[name] = true
			meta.Add(openaiPrefix+name, walk.Value)
		}
	}
	return meta
}

// describePage adds the page members of the operation's x-mcp to _meta of a resource that is a page.
// Members that the resource's own _meta already has are kept.
func (r *Entry) describePage(e *extension) {
	if !r.isPage() {
		return
	}
	own := r.meta
	var meta strictjson.ObjectBuilder
	for walk := strictjson.Into(own); walk.Next(); {
		meta.Add(strictjson.Text(walk.Name), walk.Value)
	}
	for walk := strictjson.Into(jsontext.Value(e.appMeta(true).Close())); walk.Next(); {
		if name := strictjson.Text(walk.Name); !strictjson.HasMember(own, name) {
			meta.Add(name, walk.Value)
		}
	}
	if len(meta) > 0 {
		r.meta = meta.Close()
	}
}

// isPage reports whether hosts show the resource as a page of an app.
func (r *Entry) isPage() bool {
	uri := r.uri
	if r.template != nil {
		uri = r.template.text
	}
	return pageType(r.Mime) != "" || strings.HasPrefix(uri, "ui://")
}
