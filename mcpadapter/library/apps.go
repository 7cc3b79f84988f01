package library

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// App is a page that clients show for the results of tools (MCP Apps, and the older
// Apps SDK).
//
// It becomes two resources:
//
//   - the URI itself, with the media type text/html;profile=mcp-app
//   - the same URI with ".skybridge" before the extension, as text/html+skybridge, for hosts that know only the Apps SDK
type App struct {
	// The URI of the page, which begins with ui://. Required.
	URI string `json:"uri"`

	// The path of the HTML file. Placeholders such as {env.PAGES} are replaced. Required.
	File string `json:"file"`

	// The name of the page. Default: the last part of the URI.
	Name string `json:"name,omitempty"`

	// The display title. Default: omitted.
	Title string `json:"title,omitempty"`

	// What the page shows, for models. Default: omitted.
	Description string `json:"description,omitempty"`

	// The names of the tools whose results the page shows. Default: none.
	Tools []string `json:"tools,omitempty"`

	// The origins that the page may fetch from. Default: none.
	ConnectDomains []string `json:"connect,omitempty"`

	// The origins that the page may load scripts, styles and images from. Default: none.
	ResourceDomains []string `json:"resource,omitempty"`

	// The origins that the page may embed in frames. Default: none.
	FrameDomains []string `json:"frame,omitempty"`

	// The origin at which the client hosts the page. Default: chosen by the client.
	Domain string `json:"domain,omitempty"`

	// Whether the client should draw a border around the page. Default: chosen by the client.
	PrefersBorder *bool `json:"prefers_border,omitempty"`

	// The status text while a tool runs. Default: chosen by the client.
	Invoking string `json:"invoking,omitempty"`

	// The status text after a tool has run. Default: chosen by the client.
	Invoked string `json:"invoked,omitempty"`

	// Whether the page may call the tools itself. Default: false.
	WidgetAccessible bool `json:"widget_accessible,omitempty"`

	// Who may call the tools: model, app. Default: both.
	Visibility []string `json:"visibility,omitempty"`
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
			size:        -1,
			file:        &file{path: app.File, limit: l.options.MaxFile},
		}
		older := page
		older.uri, older.Mime = app.skybridge(), skybridgeType
		meta := app.extension().appMeta(true)
		page.meta, older.meta = meta[0], meta[1]
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
	if err != nil || u.Scheme == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil ||
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

// extension returns what the x-mcp of an operation would declare for the app: the same members of _meta.
func (a *App) extension() extension {
	exposed := "private"
	if slices.Contains(a.Visibility, "model") {
		exposed = "public"
	}
	if len(a.Visibility) == 0 {
		exposed = ""
	}
	encoded, err := json.Marshal(map[string]any{
		"ui": appUI{a.URI, a.Visibility, a.policy("connectDomains", "resourceDomains", "frameDomains"), a.Domain, a.PrefersBorder},
		"openai": appOpenAI{
			a.skybridge(), a.Invoking, a.Invoked, a.WidgetAccessible, exposed,
			a.Description, a.PrefersBorder, a.policy("connect_domains", "resource_domains", "frame_domains"), a.Domain,
		},
	})
	if err != nil {
		panic(err) // cannot happen: the types have nothing but texts and booleans
	}
	return encoded
}

// appUI are the members for MCP Apps.
type appUI struct {
	ResourceURI   string              `json:"resourceUri"`
	Visibility    []string            `json:"visibility,omitempty"`
	CSP           map[string][]string `json:"csp,omitempty"`
	Domain        string              `json:"domain,omitempty"`
	PrefersBorder *bool               `json:"prefersBorder,omitempty"`
}

// appOpenAI are the members for the Apps SDK.
type appOpenAI struct {
	OutputTemplate    string              `json:"outputTemplate"`
	Invoking          string              `json:"toolInvocation/invoking,omitempty"`
	Invoked           string              `json:"toolInvocation/invoked,omitempty"`
	WidgetAccessible  bool                `json:"widgetAccessible,omitempty"`
	Visibility        string              `json:"visibility,omitempty"`
	WidgetDescription string              `json:"widgetDescription,omitempty"`
	PrefersBorder     *bool               `json:"widgetPrefersBorder,omitempty"`
	CSP               map[string][]string `json:"widgetCSP,omitempty"`
	Domain            string              `json:"widgetDomain,omitempty"`
}

// policy returns the allowed origins, or nil if no origins are configured. The first two members are always present,
// because the Apps SDK requires both.
func (a *App) policy(connect, resource, frame string) map[string][]string {
	if len(a.ConnectDomains)+len(a.ResourceDomains)+len(a.FrameDomains) == 0 {
		return nil
	}
	csp := map[string][]string{connect: append([]string{}, a.ConnectDomains...), resource: append([]string{}, a.ResourceDomains...)}
	if len(a.FrameDomains) > 0 {
		csp[frame] = a.FrameDomains
	}
	return csp
}

// AddToolMeta adds the members of a tool's _meta that come from its app or from x-mcp.
func (l *Library) AddToolMeta(meta *strictjson.ObjectBuilder, tool *tools.Tool) {
	e := readExtension(tool.MCP, silent)
	if app := l.apps[tool.Name]; app != nil {
		e = app.extension()
	}
	for _, part := range e.appMeta(false) {
		addMembers(meta, part, nil)
	}
}
