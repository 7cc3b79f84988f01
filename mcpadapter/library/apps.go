package library

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// An App is an HTML page that clients show for the results of some tools (MCP Apps, and the older
// Apps SDK). It becomes two resources:
//
//   - the URI itself, with the media type text/html;profile=mcp-app
//   - the same URI with ".skybridge" before the extension, as text/html+skybridge, for hosts that know only the Apps SDK
type App struct {
	URI         string // starts with ui://
	File        string // path of the HTML file
	Name        string // default: the last segment of the URI
	Title       string
	Description string   // for the model: what the page shows
	Tools       []string // names of the tools whose results the page shows

	ConnectDomains  []string // origins that the page may fetch from
	ResourceDomains []string // origins of the page's scripts, styles, images and fonts
	FrameDomains    []string // origins of pages that the page may embed
	Domain          string   // origin that the host serves the page from; "" lets the host choose
	PrefersBorder   *bool

	Invoking, Invoked string   // status texts shown while a tool runs and after it has run
	WidgetAccessible  bool     // whether the page may call the tools itself
	Visibility        []string // who may call the tools: "model", "app". Default: both
}

// maxStatusText is the maximum length of Invoking and Invoked, in characters.
const maxStatusText = 64

// addApps adds the two resources of each app and maps its tools to it.
func (l *Library) addApps() error {
	for i := range l.options.Apps {
		app := &l.options.Apps[i]
		if err := app.check(); err != nil {
			return fmt.Errorf("app %s: %w", app.URI, err)
		}
		page := Entry{
			uri:         app.URI,
			name:        cmp.Or(app.Name, LastPart(app.URI)),
			title:       app.Title,
			description: app.Description,
			Mime:        AppType,
			meta:        app.pageMeta(),
			size:        -1,
			file:        &file{path: app.File, limit: l.options.MaxFile},
		}
		older := page
		older.uri, older.Mime, older.meta = app.skybridge(), skybridgeType, app.skybridgeMeta()
		l.resources = append(l.resources, &page, &older)
		for _, tool := range app.Tools {
			if other := l.apps[tool]; other != nil {
				return fmt.Errorf("app %s: tool %s already has the app %s; a tool has at most one", app.URI, tool, other.URI)
			}
			l.apps[tool] = app
		}
	}
	return nil
}

// check returns an error for options that hosts of MCP Apps would reject.
func (a *App) check() error {
	switch {
	case !strings.HasPrefix(a.URI, "ui://") || len(a.URI) == len("ui://"):
		return errors.New("the URI of an app must begin with ui://")
	case a.File == "":
		return errors.New("file is missing")
	case len([]rune(a.Invoking)) > maxStatusText || len([]rune(a.Invoked)) > maxStatusText:
		return fmt.Errorf("invoking and invoked must have at most %d characters", maxStatusText)
	}
	if err := checkURI(a.URI); err != nil {
		return err
	}
	origins := slices.Concat(a.ConnectDomains, a.ResourceDomains, a.FrameDomains)
	if a.Domain != "" && strings.Contains(a.Domain, "://") {
		origins = append(origins, a.Domain)
	}
	for _, origin := range origins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	for _, who := range a.Visibility {
		if who != "model" && who != "app" {
			return fmt.Errorf("visibility must be model or app, not %q", who)
		}
	}
	return nil
}

// checkOrigin rejects values that cannot be an origin in a content security policy.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil ||
		strings.ContainsAny(origin, " ;,'\"") {
		return fmt.Errorf("%q is not an origin; write it as https://cdn.example.com", origin)
	}
	return nil
}

// skybridge returns the URI of the page for hosts that know only the Apps SDK.
func (a *App) skybridge() string {
	extension := path.Ext(a.URI)
	if strings.Contains(extension, "/") {
		extension = ""
	}
	return strings.TrimSuffix(a.URI, extension) + ".skybridge" + extension
}

// pageMeta returns _meta of the page for MCP Apps (UI Resource Format).
func (a *App) pageMeta() jsontext.Value {
	var ui wire.ObjectBuilder
	if csp := a.policy("connectDomains", "resourceDomains", "frameDomains"); csp != nil {
		ui.Add("csp", csp)
	}
	if a.Domain != "" {
		ui.Add("domain", wire.AppendString(nil, a.Domain))
	}
	if a.PrefersBorder != nil {
		ui.Add("prefersBorder", wire.Boolean(*a.PrefersBorder))
	}
	if len(ui) == 0 {
		return nil
	}
	var meta wire.ObjectBuilder
	meta.Add("ui", ui.Close())
	return meta.Close()
}

// skybridgeMeta returns _meta of the page for the Apps SDK (Resource Definition).
func (a *App) skybridgeMeta() jsontext.Value {
	var meta wire.ObjectBuilder
	if a.Description != "" {
		meta.Add("openai/widgetDescription", wire.AppendString(nil, a.Description))
	}
	if a.PrefersBorder != nil {
		meta.Add("openai/widgetPrefersBorder", wire.Boolean(*a.PrefersBorder))
	}
	if csp := a.policy("connect_domains", "resource_domains", "frame_domains"); csp != nil {
		meta.Add("openai/widgetCSP", csp)
	}
	if a.Domain != "" {
		meta.Add("openai/widgetDomain", wire.AppendString(nil, a.Domain))
	}
	if len(meta) == 0 {
		return nil
	}
	return meta.Close()
}

// policy returns the allowed origins as a JSON object, or nil if no origins are configured. The
// first two members are always present, because the Apps SDK requires both.
func (a *App) policy(connect, resource, frame string) []byte {
	if len(a.ConnectDomains)+len(a.ResourceDomains)+len(a.FrameDomains) == 0 {
		return nil
	}
	var csp wire.ObjectBuilder
	csp.Add(connect, wire.AppendStrings(nil, a.ConnectDomains))
	csp.Add(resource, wire.AppendStrings(nil, a.ResourceDomains))
	if len(a.FrameDomains) > 0 {
		csp.Add(frame, wire.AppendStrings(nil, a.FrameDomains))
	}
	return csp.Close()
}

// addTo adds the members that link a tool to its app to the tool's _meta.
func (a *App) addTo(meta *wire.ObjectBuilder) {
	var ui wire.ObjectBuilder
	ui.Add("resourceUri", wire.AppendString(nil, a.URI))
	if len(a.Visibility) > 0 {
		ui.Add("visibility", wire.AppendStrings(nil, a.Visibility))
	}
	meta.Add("ui", ui.Close())
	meta.Add("openai/outputTemplate", wire.AppendString(nil, a.skybridge()))
	if a.Invoking != "" {
		meta.Add("openai/toolInvocation/invoking", wire.AppendString(nil, a.Invoking))
	}
	if a.Invoked != "" {
		meta.Add("openai/toolInvocation/invoked", wire.AppendString(nil, a.Invoked))
	}
	if a.WidgetAccessible {
		meta.Add("openai/widgetAccessible", wire.Boolean(true))
	}
	if len(a.Visibility) > 0 {
		public := "private"
		if slices.Contains(a.Visibility, "model") {
			public = "public"
		}
		meta.Add("openai/visibility", wire.AppendString(nil, public))
	}
}

// AddToolMeta adds the members of a tool's _meta that come from its app or from x-mcp.
func (l *Library) AddToolMeta(meta *wire.ObjectBuilder, tool *tool.Tool) {
	if app := l.apps[tool.Name]; app != nil {
		app.addTo(meta)
		return
	}
	e := readExtension(tool.MCP)
	for walk := wire.Into(jsontext.Value(e.appMeta(false).Close())); walk.Next(); {
		meta.Add(wire.Text(walk.Name), walk.Value)
	}
}
