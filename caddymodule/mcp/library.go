package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/selector"
	"github.com/fairwayhq/fairway/ocp/source"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Library configures what an MCP endpoint serves in addition to its tools, and how it handles
// the hints that clients send about their users. The document can add resources and prompts
// with x-mcp.
type Library struct {
	// Files that clients may read, each under its own URI. Default: none.
	Resources []Resource `json:"resources,omitempty"`

	// Folders whose files clients may read, except files whose names begin with a dot. Default:
	// none.
	Folders []Folder `json:"folders,omitempty"`

	// GET operations that are also resources, or resource templates if they have arguments.
	// Default: the operations that the document marks with x-mcp.
	Operations []selector.Selector `json:"operations,omitempty"`

	// A YAML or JSON file of prompts. It must be valid when the configuration is loaded, and is
	// watched for changes. If it becomes invalid later, the error is logged and the previous
	// prompts stay. Default: none.
	Prompts string `json:"prompts,omitempty"`

	// Pages that clients show for the results of tools (MCP Apps). Default: none.
	Apps []AppPage `json:"apps,omitempty"`

	// The languages that the API supports, the default language first. The client's locale
	// (_meta, openai/locale) is matched with them and sent as the Accept-Language of the tool
	// call. Default: none; the client's locale is ignored.
	Locales []string `json:"locales,omitempty"`

	// The headers that pass client hints to the API. Clients can send any value, so do not base
	// access decisions on these headers. If the client's own request has them, they are
	// dropped. Default: none.
	Hints *Hints `json:"hints,omitempty"`

	// The largest file that clients may read, in bytes. Default: 4 MiB.
	MaxResource int64 `json:"max_resource,omitempty"`
}

// Resource is a file that clients may read under a URI.
type Resource struct {
	// The URI of the resource, such as docs:///fares. Required.
	URI string `json:"uri"`

	// The path of the file. Placeholders such as {env.DOCS} are replaced. Required.
	File string `json:"file"`

	// The name of the resource. Default: the last part of the URI.
	Name string `json:"name,omitempty"`

	// The display title. Default: omitted.
	Title string `json:"title,omitempty"`

	// What the resource contains, for models. Default: omitted.
	Description string `json:"description,omitempty"`

	// The media type. Default: derived from the file's name or content.
	MIMEType string `json:"mime_type,omitempty"`
}

// Folder is a folder whose files clients may read.
type Folder struct {
	// The path of the folder. Placeholders such as {env.DOCS} are replaced. Required.
	Path string `json:"path"`

	// The beginning of the files' URIs. If several prefixes match a URI, the longest applies.
	// Default: file:/// and the folder's name.
	Prefix string `json:"prefix,omitempty"`
}

// AppPage is a page that clients show for the results of tools.
type AppPage struct {
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
	Connect []string `json:"connect,omitempty"`

	// The origins that the page may load scripts, styles and images from. Default: none.
	Resource []string `json:"resource,omitempty"`

	// The origins that the page may embed in frames. Default: none.
	Frame []string `json:"frame,omitempty"`

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

// Hints are the names of the headers that pass client hints to the API.
type Hints struct {
	// The header for the client's user agent (_meta, openai/userAgent). Default: none; the hint
	// is not sent.
	UserAgent string `json:"user_agent,omitempty"`

	// The header for the user's location (_meta, openai/userLocation), as a JSON object in
	// ASCII. Default: none; the hint is not sent.
	Location string `json:"location,omitempty"`
}

// folderInterval is how often folders are checked for files that were added or removed.
const folderInterval = 5 * time.Second

// maxPromptMedia is the maximum size of a file that a prompt refers to, in bytes.
const maxPromptMedia = 4 << 20

// provisionLibrary sets the server's library and keeps it current until the configuration ends.
func (l *Library) provisionLibrary(ctx caddy.Context, server *mcpadapter.Server) error {
	if err := directive.NotNegative("max_resource", l.MaxResource); err != nil {
		return err
	}
	k := &libraryWatcher{server: server, logger: ctx.Logger(), options: l.options()}
	if err := checkFiles(k.options); err != nil {
		return err
	}
	if l.Prompts != "" {
		path, err := filepath.Abs(caddy.NewReplacer().ReplaceAll(l.Prompts, ""))
		if err != nil {
			return err
		}
		k.source = &source.File{Path: path, MaxSize: library.MaxPromptFile}
		if _, err := k.readPrompts(ctx); err != nil {
			return err
		}
	}
	if err := k.publish(); err != nil {
		return err
	}
	// Both polls run until the configuration ends.
	if len(l.Folders) > 0 {
		go watch.Poll(ctx.Context, folderInterval, k.folderCheck())
	}
	if k.source != nil {
		go watch.Poll(ctx.Context, watch.Interval(), k.reloadPrompts)
	}
	return nil
}

// checkFiles returns an error if a file does not exist, so that a misspelled name is found at
// start.
func checkFiles(o library.LibraryOptions) error {
	for _, r := range o.Resources {
		if _, err := os.Stat(r.File); err != nil {
			return fmt.Errorf("resource %s: %w", r.URI, err)
		}
	}
	for _, a := range o.Apps {
		if _, err := os.Stat(a.File); err != nil {
			return fmt.Errorf("app %s: %w", a.URI, err)
		}
	}
	return nil
}

// options returns the options of the library, without the prompts.
func (l *Library) options() library.LibraryOptions {
	repl := caddy.NewReplacer()
	file := func(path string) string { return repl.ReplaceAll(path, "") }
	o := library.LibraryOptions{Operations: l.Operations, Locales: l.Locales, MaxFile: l.MaxResource}
	if l.Hints != nil {
		o.UserAgentHeader, o.LocationHeader = l.Hints.UserAgent, l.Hints.Location
	}
	for _, r := range l.Resources {
		o.Resources = append(o.Resources, library.Resource{
			URI: r.URI, File: file(r.File), Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
		})
	}
	for _, f := range l.Folders {
		o.Folders = append(o.Folders, library.Folder{Path: file(f.Path), Prefix: f.Prefix})
	}
	for _, a := range l.Apps {
		o.Apps = append(o.Apps, library.App{
			URI: a.URI, File: file(a.File), Name: a.Name, Title: a.Title, Description: a.Description, Tools: a.Tools,
			ConnectDomains: a.Connect, ResourceDomains: a.Resource, FrameDomains: a.Frame, Domain: a.Domain,
			PrefersBorder: a.PrefersBorder, Invoking: a.Invoking, Invoked: a.Invoked,
			WidgetAccessible: a.WidgetAccessible, Visibility: a.Visibility,
		})
	}
	return o
}

// A libraryWatcher keeps the library of one server current.
type libraryWatcher struct {
	server    *mcpadapter.Server
	logger    *zap.Logger
	options   library.LibraryOptions
	source    source.Source // of the prompts; nil if there are none
	snapshot  *source.Snapshot
	lastError string // the error of the last check
	library   *library.Library
}

// publish builds the library from the options and sets it in the server.
func (k *libraryWatcher) publish() error {
	library, err := library.NewLibrary(k.options)
	if err != nil {
		return err
	}
	k.library = library
	k.server.SetLibrary(library)
	return nil
}

// folderCheck returns a function that notifies clients if files were added to or removed from the
// folders since the last call.
func (k *libraryWatcher) folderCheck() func(context.Context) {
	folders := k.library // reading the prompts again does not change its folders
	state := folders.FolderState()
	return func(context.Context) {
		if now := folders.FolderState(); now != state {
			state = now
			k.server.Notify(mcpadapter.ResourcesChanged)
		}
	}
}

// reloadPrompts reads the prompts again if they have changed. An error is logged once.
func (k *libraryWatcher) reloadPrompts(ctx context.Context) {
	changed, err := k.readPrompts(ctx)
	if err == nil && changed {
		err = k.publish()
	}
	switch {
	case err != nil && ctx.Err() == nil && err.Error() != k.lastError:
		k.lastError = err.Error()
		k.logger.Error("loading the prompts failed; the previous prompts stay in use", zap.Error(err))
	case err == nil && changed:
		k.lastError = ""
		k.logger.Info("loaded prompts", zap.String("file", k.source.Location()), zap.Int("prompts", len(k.options.Prompts)))
		k.server.Notify(mcpadapter.PromptsChanged)
	}
}

// readPrompts reads the prompts if their file, or a file that they refer to, has changed. Its
// errors contain the file and the line.
func (k *libraryWatcher) readPrompts(ctx context.Context) (changed bool, err error) {
	snapshot, changed, err := k.source.Fetch(ctx, k.snapshot)
	if err != nil {
		return false, fmt.Errorf("prompts: %w", err)
	}
	if !changed {
		k.snapshot = snapshot
		return false, nil
	}
	var files []string
	prompts, err := library.ReadPrompts(snapshot.Data, func(name string) ([]byte, error) {
		folder := filepath.Dir(k.source.Location())
		files = append(files, filepath.Join(folder, filepath.FromSlash(name)))
		return readInFolder(folder, name)
	})
	k.snapshot = snapshot.Keep(files)
	if err != nil {
		return false, fmt.Errorf("prompts %s: %w", k.source.Location(), err)
	}
	k.options.Prompts = prompts
	return true, nil
}

// readInFolder reads a file that must be inside the folder.
func readInFolder(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	file, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := buffer.ReadLimited(file, maxPromptMedia)
	if errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("is larger than the limit of %d bytes", maxPromptMedia)
	}
	return content, err
}

// documentObserver returns a function to call when a document has changed. It notifies clients
// about the lists that changed, and logs parts of x-mcp that cannot be used.
func (m *Handler) documentObserver(logger *zap.Logger) func() {
	var mu sync.Mutex
	before := m.Endpoint.Parts.Declared()
	if before != nil {
		m.logLibraryWarnings(before, logger)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		after := m.Endpoint.Parts.Declared()
		changes := mcpadapter.ToolsChanged | mcpadapter.PromptsChanged | mcpadapter.ResourcesChanged
		if before != nil && after != nil {
			changes = m.server.Changes(before, after)
		}
		if before = after; after != nil {
			m.logLibraryWarnings(after, logger)
		}
		m.server.Notify(changes)
	}
}

// logLibraryWarnings logs the parts of x-mcp that cannot be used.
func (m *Handler) logLibraryWarnings(tools *tool.Toolset, logger *zap.Logger) {
	warnings := m.server.Warnings(tools)
	for _, w := range warnings[:min(len(warnings), agents.MaxLoggedWarnings)] {
		logger.Warn("MCP warning about the document", zap.String("reason", w.Reason), zap.String("operation", w.Operation), zap.String("toolset", m.Endpoint.Parts.Name()))
	}
	if omitted := len(warnings) - agents.MaxLoggedWarnings; omitted > 0 {
		logger.Warn("more MCP warnings about the document; caddy tools --lint prints all of them", zap.Int("more", omitted), zap.String("toolset", m.Endpoint.Parts.Name()))
	}
}
