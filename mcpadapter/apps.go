package mcpadapter

import (
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
		page := resource{
			uri:         app.URI,
			name:        first(app.Name, lastPart(app.URI)),
			title:       app.Title,
			description: app.Description,
			mime:        appType,
			meta:        app.pageMeta(),
			size:        -1,
			file:        &file{path: app.File, limit: l.options.MaxFile},
		}
		older := page
		older.uri, older.mime, older.meta = app.skybridge(), skybridgeType, app.skybridgeMeta()
		l.resources = append(l.resources, &page, &older)
		for _, tool := range app.Tools {
			if other := l.apps[tool]; other != nil {
				return fmt.Errorf("app %s: tool %s has the app %s already", app.URI, tool, other.URI)
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
		return errors.New("the URI of an app begins with ui://")
	case a.File == "":
		return errors.New("has no file")
	case len([]rune(a.Invoking)) > maxStatusText || len([]rune(a.Invoked)) > maxStatusText:
		return fmt.Errorf("invoking and invoked have at most %d characters", maxStatusText)
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
			return fmt.Errorf("visibility is model or app, not %q", who)
		}
	}
	return nil
}

// checkOrigin rejects values that cannot be an origin in a content security policy.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil ||
		strings.ContainsAny(origin, " ;,'\"") {
		return fmt.Errorf("%q is no origin: write it as https://cdn.example.com", origin)
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
	var ui members
	if csp := a.policy("connectDomains", "resourceDomains", "frameDomains"); csp != nil {
		ui.add("csp", csp)
	}
	if a.Domain != "" {
		ui.add("domain", wire.AppendString(nil, a.Domain))
	}
	if a.PrefersBorder != nil {
		ui.add("prefersBorder", boolean(*a.PrefersBorder))
	}
	if len(ui) == 0 {
		return nil
	}
	var meta members
	meta.add("ui", ui.object())
	return meta.object()
}

// skybridgeMeta returns _meta of the page for the Apps SDK (Resource Definition).
func (a *App) skybridgeMeta() jsontext.Value {
	var meta members
	if a.Description != "" {
		meta.add("openai/widgetDescription", wire.AppendString(nil, a.Description))
	}
	if a.PrefersBorder != nil {
		meta.add("openai/widgetPrefersBorder", boolean(*a.PrefersBorder))
	}
	if csp := a.policy("connect_domains", "resource_domains", "frame_domains"); csp != nil {
		meta.add("openai/widgetCSP", csp)
	}
	if a.Domain != "" {
		meta.add("openai/widgetDomain", wire.AppendString(nil, a.Domain))
	}
	if len(meta) == 0 {
		return nil
	}
	return meta.object()
}

// policy returns the allowed origins as a JSON object, or nil if no origins are configured. The
// first two members are always present, because the Apps SDK requires both.
func (a *App) policy(connect, resource, frame string) []byte {
	if len(a.ConnectDomains)+len(a.ResourceDomains)+len(a.FrameDomains) == 0 {
		return nil
	}
	var csp members
	csp.add(connect, appendStrings(nil, a.ConnectDomains))
	csp.add(resource, appendStrings(nil, a.ResourceDomains))
	if len(a.FrameDomains) > 0 {
		csp.add(frame, appendStrings(nil, a.FrameDomains))
	}
	return csp.object()
}

// addTo adds the members that link a tool to its app to the tool's _meta.
func (a *App) addTo(meta *members) {
	var ui members
	ui.add("resourceUri", wire.AppendString(nil, a.URI))
	if len(a.Visibility) > 0 {
		ui.add("visibility", appendStrings(nil, a.Visibility))
	}
	meta.add("ui", ui.object())
	meta.add("openai/outputTemplate", wire.AppendString(nil, a.skybridge()))
	if a.Invoking != "" {
		meta.add("openai/toolInvocation/invoking", wire.AppendString(nil, a.Invoking))
	}
	if a.Invoked != "" {
		meta.add("openai/toolInvocation/invoked", wire.AppendString(nil, a.Invoked))
	}
	if a.WidgetAccessible {
		meta.add("openai/widgetAccessible", boolean(true))
	}
	if len(a.Visibility) > 0 {
		public := "private"
		if slices.Contains(a.Visibility, "model") {
			public = "public"
		}
		meta.add("openai/visibility", wire.AppendString(nil, public))
	}
}

// members builds a JSON object one member at a time. The closing brace is added by object.
type members []byte

func (m *members) add(name string, value []byte) {
	separator := byte(',')
	if len(*m) == 0 {
		separator = '{'
	}
	*m = append(append(wire.AppendString(append(*m, separator), name), ':'), value...)
}

func (m members) object() []byte {
	if len(m) == 0 {
		return []byte("{}")
	}
	return append(slices.Clone(m), '}')
}

func boolean(value bool) []byte {
	if value {
		return []byte("true")
	}
	return []byte("false")
}

// decorate adds to an encoded tool (which ends in a brace) the members that do not follow from its
// operation alone: icons, securitySchemes, and _meta with its app.
func (c *catalog) decorate(dst []byte, tool *tool.Tool, v revision) []byte {
	if !v.titles() {
		return dst
	}
	e := readExtension(tool.MCP)
	schemes := securitySchemes(tool, c.tools, c.login)
	dst = appendIcons(dst[:len(dst)-1], readIcons(e.icons), v)
	if schemes != nil && v.pictures() {
		dst = append(append(dst, `,"securitySchemes":`...), schemes...)
	}
	var meta members
	if schemes != nil {
		meta.add("securitySchemes", schemes)
	}
	if app := c.library.apps[tool.Name]; app != nil {
		app.addTo(&meta)
	} else {
		for walk := wire.Into(jsontext.Value(e.appMeta(false).object())); walk.Next(); {
			meta.add(text(walk.Name), walk.Value)
		}
	}
	if len(meta) > 0 {
		dst = append(append(dst, `,"_meta":`...), meta.object()...)
	}
	return append(dst, '}')
}

// securitySchemes returns how a client can authorize a call of the tool (Apps SDK, Tool Definition
// Structure), or nil if the document does not declare OAuth. Each element is either "noauth" or
// "oauth2" with the scopes of the token.
//
// If the site requires a login, no tool is "noauth", and every token also needs the scopes of the
// login. API keys and passwords do not appear: the gateway injects them.
func securitySchemes(t *tool.Tool, tools *tool.Toolset, login *Login) []byte {
	if !usesTokens(tools) || login != nil && !login.OAuth {
		return nil
	}
	alternatives := t.Security
	if len(alternatives) == 0 {
		alternatives = []tool.SecurityRequirement{{}} // no security requirement
	}
	var list []string
	for _, alternative := range alternatives {
		if one, ok := appendScheme(nil, alternative, tools, login); ok && !slices.Contains(list, string(one)) {
			list = append(list, string(one))
		}
	}
	if list == nil && login != nil { // the gateway injects the API's own credentials
		one, _ := appendScheme(nil, nil, tools, login)
		list = append(list, string(one))
	}
	if list == nil {
		return nil
	}
	return []byte("[" + strings.Join(list, ",") + "]")
}

// appendScheme appends one element of securitySchemes. It returns false if the alternative needs
// credentials that a client cannot provide, such as an API key of the gateway.
func appendScheme(dst []byte, alternative tool.SecurityRequirement, tools *tool.Toolset, login *Login) ([]byte, bool) {
	if len(alternative) == 0 && login == nil {
		return append(dst, `{"type":"noauth"}`...), true
	}
	var scopes []string
	found := len(alternative) == 0
	if login != nil {
		scopes = append(scopes, login.Scopes...)
	}
	for name, needed := range alternative {
		if isTokenScheme(tools.SecuritySchemes[name]) {
			found = true
			scopes = append(scopes, needed...)
		}
	}
	if !found {
		return dst, false
	}
	dst = append(dst, `{"type":"oauth2"`...)
	if len(scopes) > 0 {
		slices.Sort(scopes)
		dst = appendStrings(append(dst, `,"scopes":`...), slices.Compact(scopes))
	}
	return append(dst, '}'), true
}

// usesTokens reports whether the document declares an OAuth 2.0 or OpenID Connect scheme.
func usesTokens(tools *tool.Toolset) bool {
	for _, scheme := range tools.SecuritySchemes {
		if isTokenScheme(scheme) {
			return true
		}
	}
	return false
}

func isTokenScheme(s *tool.SecurityScheme) bool {
	return s != nil && (s.Type == "oauth2" || s.Type == "openIdConnect")
}
