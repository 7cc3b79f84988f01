package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// Library configures what an MCP endpoint serves in addition to its tools, and how it handles
// the hints that clients send about their users. The document can add resources and prompts
// with x-mcp.
type Library struct {
	library.LibraryOptions

	// A YAML or JSON file of prompts. It must be valid when the configuration is loaded, and is
	// watched for changes. If it becomes invalid later, the error is logged and the previous
	// prompts stay. Default: none.
	Prompts string `json:"prompts,omitempty"`

	// Directories of Agent Skills, which clients list and load with the MCP extension
	// io.modelcontextprotocol/skills. Each folder with a SKILL.md is a skill, and its files are also
	// resources. The directories must be valid when the configuration is loaded, and are watched for
	// changes. If one becomes invalid later, the error is logged and its previous skills stay.
	// Default: none.
	Skills []SkillDirectory `json:"skills,omitempty"`
}

// folderInterval is how often folders are checked for files that were added or removed.
const folderInterval = 5 * time.Second

// maxPromptMedia is the maximum size of a file that a prompt refers to, in bytes.
const maxPromptMedia = 4 << 20

// provisionLibrary sets the server's library and keeps it current until the configuration ends.
func (l *Library) provisionLibrary(ctx caddy.Context, server *mcpadapter.Server) error {
	if err := directive.NotNegative("max_resource", l.MaxFile); err != nil {
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
	if err := k.openSkills(l.Skills); err != nil {
		return err
	}
	if err := k.publish(); err != nil {
		return err
	}
	// The polls run until the configuration ends.
	if len(l.Folders) > 0 {
		go watch.Poll(ctx.Context, folderInterval, k.folderCheck())
	}
	if k.source != nil || len(k.skills) > 0 {
		go watch.Poll(ctx.Context, watch.Interval(), k.reload)
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

// options returns the options of the library, without the prompts. Placeholders in paths are replaced.
func (l *Library) options() library.LibraryOptions {
	o, repl := l.LibraryOptions, caddy.NewReplacer()
	o.Resources, o.Folders, o.Apps = slices.Clone(o.Resources), slices.Clone(o.Folders), slices.Clone(o.Apps)
	for i := range o.Resources {
		o.Resources[i].File = repl.ReplaceAll(o.Resources[i].File, "")
	}
	for i := range o.Folders {
		o.Folders[i].Path = repl.ReplaceAll(o.Folders[i].Path, "")
	}
	for i := range o.Apps {
		o.Apps[i].File = repl.ReplaceAll(o.Apps[i].File, "")
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
	skills    []*watchedSkills
	library   *library.Library
}

// reload reads the prompts and the skills again if they have changed.
func (k *libraryWatcher) reload(ctx context.Context) {
	if k.source != nil {
		k.reloadPrompts(ctx)
	}
	k.reloadSkills()
}

// publish builds the library from the options and sets it in the server.
func (k *libraryWatcher) publish() error {
	lib, err := library.NewLibrary(k.options)
	if err != nil {
		return err
	}
	k.library = lib
	k.server.SetLibrary(lib)
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
		return library.ReadInFolder(folder, name, maxPromptMedia)
	})
	k.snapshot = snapshot.Keep(files)
	if err != nil {
		return false, fmt.Errorf("prompts %s: %w", k.source.Location(), err)
	}
	k.options.Prompts = prompts
	return true, nil
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
		if len(m.Extensions) > 0 {
			changes |= mcpadapter.EventsChanged // an extension may have made them from the document
		}
		before = after
		if after != nil {
			m.logLibraryWarnings(after, logger)
		}
		m.server.Notify(changes)
	}
}

// logLibraryWarnings logs the parts of x-mcp that cannot be used.
func (m *Handler) logLibraryWarnings(toolset *tools.Toolset, logger *zap.Logger) {
	warnings := m.server.Warnings(toolset)
	for _, w := range warnings[:min(len(warnings), app.MaxLoggedWarnings)] {
		logger.Warn("MCP warning about the document", zap.String("reason", w.Reason), zap.String("operation", w.Operation), zap.String("toolset", m.Endpoint.Parts.Name()))
	}
	if omitted := len(warnings) - app.MaxLoggedWarnings; omitted > 0 {
		logger.Warn("more MCP warnings about the document; caddy tools --lint prints all of them", zap.Int("more", omitted), zap.String("toolset", m.Endpoint.Parts.Name()))
	}
}
