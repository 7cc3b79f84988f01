package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/overlay"
	"github.com/fairwayhq/fairway/tools/search"
	"github.com/fairwayhq/fairway/tools/source"
)

// documents holds the loaded documents. Handlers and successive configurations that build the
// same tools from the same document share one entry, so a reload does not load the document
// again. Once one of them needs response schemas, the shared tools have them.
var documents = caddy.NewUsagePool()

// DocumentKey holds everything that the tools of a document depend on, in a normalized form.
// Equal keys share one document.
type DocumentKey struct {
	Name     string        `json:"name"`
	Kind     sourceKind    `json:"kind"`
	Address  string        `json:"address"`
	Overlays []string      `json:"overlays"` // absolute paths
	Lock     string        `json:"lock"`     // absolute path; "" if there is none
	Refresh  time.Duration `json:"refresh"`
	Site     string        `json:"site"` // distinguishes sites whose documents have the same path

	MCPServer json.RawMessage `json:"mcp_server,omitempty"` // its placeholders are not replaced
	server    mcpServer       // has these options; nil for an OpenAPI document

	tools.BuildOptions // without Name, Location and Overlaid

	TokenBudget int             `json:"token_budget"`
	Embeddings  json.RawMessage `json:"embeddings,omitempty"` // its placeholders are not replaced
}

// String returns the key as comparable text.
func (k DocumentKey) String() string {
	text, _ := json.Marshal(k) // strings and numbers only: cannot fail
	if k.Uploads {
		return "uploads " + string(text)
	}
	return string(text)
}

// Document keeps the tools of one document current, and logs and counts its loads.
type Document struct {
	Key       DocumentKey
	Loader    *loader.Loader
	FromSite  bool          // loaded by requests to the site (loader.Loader.Ensure)
	MCPServer OpenMCPServer // whose tools the document describes; nil for an OpenAPI document

	semantic        SemanticSearch // nil without the option embeddings
	responseSchemas atomic.Bool    // the tools have response schemas

	inputs          *inputFiles               // the files besides the document that the tools depend on
	lockState       atomic.Pointer[lockState] // see LockChanges
	approving       sync.Mutex                // held while Approve writes the lock file
	overlayWarnings []overlay.Warning         // of the document that is being built; used by the loader only

	lastGood    lastGood
	hideFailing func() // ends the export of whether the latest load failed

	recorder       atomic.Pointer[audit.Recorder] // of the configuration that was started last
	lockDigest     string                         // of the lock file at the latest build
	withheld       map[string]bool                // tools that the lock did not approve at the latest build
	approver       atomic.Pointer[string]         // who has approved tools in the console since the latest build, or nil
	logger         atomic.Pointer[zap.Logger]     // logger of the configuration that was started last
	loggedWarnings map[string]struct{}            // warnings already logged; used by the loader's observer only
	previous       *tools.Toolset                 // the toolset of the observer's previous call; nil at first
}

// openDocument returns the document with that key from the pool. The caller must call
// closeDocument once. A file is read immediately and must be valid, unless the process starts: see
// lastGood. URLs and paths on the site are not fetched before Start.
func openDocument(ctx context.Context, key DocumentKey, semantic SemanticSearch, logger *zap.Logger) (*Document, error) {
	if _, err := key.readOverlays(); err != nil && (errors.Is(err, fs.ErrNotExist) || !key.hasCopy() || !startsProcess()) {
		return nil, fmt.Errorf("toolset %q: %w", key.Name, err)
	}
	if key.Lock != "" {
		if _, err := lock.ReadFile(key.Lock); err != nil {
			return nil, ExplainLock(key, err)
		}
	}
	value, _, err := documents.LoadOrNew(key.String(), func() (caddy.Destructor, error) {
		return newDocument(key, semantic, logger)
	})
	if err != nil {
		return nil, err
	}
	d := value.(*Document)
	if key.ResponseSchemas {
		d.addResponseSchemas()
	}
	if err := d.LoadFile(ctx); err != nil {
		closeDocument(key)
		return nil, err
	}
	return d, nil
}

// LoadResponseSchemas loads the document with the schemas of the responses, for the handlers that need them.
func (d *Document) LoadResponseSchemas(ctx caddy.Context) error {
	d.addResponseSchemas()
	return d.LoadFile(ctx)
}

// addResponseSchemas adds response schemas to the tools, from the next load on. The tools keep them as
// long as a configuration uses the document.
func (d *Document) addResponseSchemas() {
	if !d.responseSchemas.Swap(true) {
		d.Loader.Rebuild()
	}
}

// LoadFile reads the document if it is a file, which must be valid. Exception: if the process starts,
// start decides what is in use in place of a broken one. Other documents are loaded by start.
func (d *Document) LoadFile(ctx context.Context) error {
	if d.inputs.changed() {
		d.Loader.Rebuild()
	}
	if d.Key.Kind != SourceFile {
		return nil
	}
	if err := d.Loader.Load(ctx); err != nil {
		if d.Loader.Toolset() == nil && startsProcess() {
			return nil
		}
		return explainFile(d.Key, err)
	}
	// Another configuration may have loaded the document already, and the file may have changed
	// since.
	for _, err := range d.Loader.Toolset().Report.Unmatched {
		return explainFile(d.Key, err)
	}
	return nil
}

// closeDocument releases a document that openDocument returned.
func closeDocument(key DocumentKey) {
	_, _ = documents.Delete(key.String())
}

// newDocument creates a document and its loader. It does not read the document.
func newDocument(key DocumentKey, semantic SemanticSearch, logger *zap.Logger) (*Document, error) {
	origin, err := key.Source(logger)
	if err != nil {
		return nil, err
	}
	d := &Document{Key: key, FromSite: key.Kind == SourceSite, semantic: semantic, loggedWarnings: make(map[string]struct{})}
	d.MCPServer, _ = origin.(OpenMCPServer)
	d.logger.Store(logger)
	d.responseSchemas.Store(key.ResponseSchemas)
	d.inputs = newInputFiles(key.inputs())
	d.Loader = loader.New(loader.Options{
		Source:   origin,
		Prepare:  key.Preparation(&d.overlayWarnings),
		Build:    d.build,
		Refresh:  key.Refresh,
		Observer: loader.Observer{Loaded: d.loaded, Failed: d.failed},
	})
	metrics.All.Acquire(key.Name)
	d.hideFailing = metrics.All.ExportFailing(key.Name, d.Loader.Err)
	return d, nil
}

// Source returns the source that the document is read from. An OpenMCPServer must be closed.
func (k DocumentKey) Source(logger *zap.Logger) (source.Source, error) {
	switch k.Kind {
	case sourceMCP:
		return k.server.Open(k.Name, logger)
	case SourceFile:
		return &source.File{Path: k.Address, MaxSize: int64(k.MaxDocument)}, nil
	case SourceSite:
		return &source.Site{Path: k.Address, MaxSize: int64(k.MaxDocument)}, nil
	}
	return source.NewURL(k.Address, source.URLOptions{MaxSize: int64(k.MaxDocument)})
}

// CloseSource ends the connections of a source that Source has returned.
func CloseSource(s source.Source) {
	if server, ok := s.(OpenMCPServer); ok {
		server.Close()
	}
}

// Build builds the tools from the document. It is a loader.BuildFunc.
func (k DocumentKey) Build(_ context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
	options := k.OptionsOf(location)
	options.Reloaded = previous != nil
	toolset, err := tools.Build(data, options)
	if err != nil {
		return nil, nil, err
	}
	if previous != nil {
		if err := toolset.CheckGuards(previous); err != nil {
			return nil, nil, err
		}
	}
	if k.server != nil {
		k.server.Warn(toolset, data)
	}
	toolset.Finder = search.NewFinder(toolset.Tools())
	return toolset, toolset.Report.Files, nil
}

// build calls DocumentKey.Build, with response schemas if a handler needs them by now.
func (d *Document) build(ctx context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
	key := d.Key
	key.ResponseSchemas = d.responseSchemas.Load()
	toolset, files, err := key.Build(ctx, data, location, previous)
	if err != nil {
		return nil, files, err
	}
	toolset.Report.Warnings = append(OverlayWarnings(d.overlayWarnings), toolset.Report.Warnings...)
	if d.semantic != nil {
		toolset.Finder = d.finder(toolset, previous)
	}
	if toolset, err = d.withhold(toolset); err != nil {
		return nil, files, err
	}
	d.recordApproval()
	if toolset.ResponseSchemas && !key.ResponseSchemas {
		toolset.DropResponseSchemas()
	}
	if key.hasCopy() {
		d.keepCopy(data)
	}
	return toolset, files, nil
}

// ShownName returns the toolset's name as clients see it. For a toolset without a name it is
// the last part of the document's address only, so that clients do not learn internal paths.
func (k DocumentKey) ShownName() string {
	name := k.Name
	if _, rest, isURL := strings.Cut(name, "://"); isURL {
		_, name, _ = strings.Cut(rest, "/")
	}
	if name = path.Base(filepath.ToSlash(name)); name == "." || name == "/" {
		return "openapi"
	}
	return name
}

// OptionsOf returns the build options for the document that was read from location.
func (k DocumentKey) OptionsOf(location string) tools.BuildOptions {
	options := k.BuildOptions
	options.Name, options.Location, options.Overlaid = k.ShownName(), location, len(k.Overlays) > 0
	options.ResponseSchemas = k.ResponseSchemas || k.Lock != "" // a lock compares them
	return options
}

// start begins to load and watch the document. Log messages go to the logger of the
// configuration that is being started. It returns an error if a file cannot be used,
// has no copy, and the configuration is at fault rather than the text of the document.
func (d *Document) start(a *App) error {
	d.logger.Store(a.logger)
	// A file without tools was broken when it was provisioned. The first start tries its copy.
	if first := d.lastGood.app.Swap(a) == nil; first && d.Key.Kind == SourceFile && d.Loader.Toolset() == nil {
		err := d.Loader.Err()
		d.failed(err)
		if d.Loader.Toolset() == nil && (errors.Is(err, fs.ErrNotExist) || d.Key.isUsableAlone()) {
			return explainFile(d.Key, err)
		}
	}
	go d.saveCopy(a)
	d.Loader.Start()
	d.inputs.start(d.Loader.Rebuild)
	if d.MCPServer != nil {
		d.MCPServer.Watch(d.Loader.Rebuild)
	}
	return nil
}

// Destruct stops the loader. The pool calls it when no configuration uses the document.
func (d *Document) Destruct() error {
	d.inputs.stop()
	d.Loader.Stop()
	if d.MCPServer != nil {
		d.MCPServer.Unwatch()
	}
	d.hideFailing()
	metrics.All.Release(d.Key.Name)
	return nil
}

// loaded logs and counts a newly loaded toolset. The loader never calls its observer
// concurrently.
func (d *Document) loaded(toolset *tools.Toolset, took time.Duration) {
	names := make([]string, len(toolset.Tools()))
	for i, tool := range toolset.Tools() {
		names[i] = tool.Name
	}
	metrics.All.Loaded(d.Key.Name, names, len(toolset.Report.Warnings))
	logger := d.logger.Load().With(zap.String("toolset", d.Key.Name), zap.String("document", d.Loader.Location()))
	tokens := EstimateTokens(toolset)
	logger.Info("loaded toolset",
		zap.Int("tools", len(toolset.Tools())),
		zap.Int("operations", toolset.Report.Operations),
		zap.Int("excluded", toolset.Report.Excluded),
		zap.Int("warnings", len(toolset.Report.Warnings)),
		zap.Int("estimated_tokens", tokens),
		zap.Duration("took", took))
	if budget := d.Key.TokenBudget; budget > 0 && tokens > budget {
		logger.Warn("tool list exceeds the token budget; select fewer tools with include and exclude, or raise token_budget",
			zap.Int("estimated_tokens", tokens), zap.Int("token_budget", budget))
	}
	d.logChanges(logger, toolset)
	d.logWithheld(logger)
	d.logWarnings(logger, toolset.Report.Warnings)
}

// MaxLoggedWarnings limits how many warnings of one document are logged individually.
const MaxLoggedWarnings = 20

// logWarnings logs the warnings that it has not logged for this document before. The level is
// warning if an operation did not become a tool or has a suspicious text, else debug.
func (d *Document) logWarnings(logger *zap.Logger, warnings []tools.Warning) {
	logged, omitted := 0, 0
	current := make(map[string]struct{}, len(warnings))
	for _, w := range warnings {
		text := w.Operation + "\x00" + w.Reason
		current[text] = struct{}{}
		if _, known := d.loggedWarnings[text]; known {
			continue
		}
		if logged == MaxLoggedWarnings {
			omitted++
			continue
		}
		logged++
		log := logger.Debug
		if w.Lost || w.Operation == "" || w.Suspect != "" {
			log = logger.Warn
		}
		log("document warning", zap.String("operation", w.Operation), zap.String("reason", w.Reason), zap.Bool("lost", w.Lost))
	}
	d.loggedWarnings = current
	if omitted > 0 {
		logger.Warn("more document warnings; caddy tools prints all of them", zap.Int("more", omitted))
	}
}

// failed logs and counts a failed load. If there are no tools yet, it tries the copy of the document.
func (d *Document) failed(err error) {
	a := d.lastGood.app.Load()
	if a == nil && d.Key.Kind == SourceFile && d.Loader.Toolset() == nil {
		return // LoadFile returns this error, or start calls this function again
	}
	metrics.All.Failed(d.Key.Name)
	message := "loading the document failed; the previous tools stay in use"
	fields := []zap.Field{zap.String("toolset", d.Key.Name), zap.String("document", d.Loader.Location()), zap.Error(err)}
	if d.Loader.Toolset() == nil {
		message = "loading the document failed; requests for its tools get 503 until it is loaded"
		if a != nil && d.Key.hasCopy() {
			if date, err := d.restore(a); err != nil {
				fields = append(fields, zap.NamedError("copy_error", err))
			} else {
				message = "loading the document failed; its last good copy is in use until it is loaded"
				fields = append(fields, zap.Time("copy", date))
				d.loaded(d.Loader.Toolset(), 0)
			}
		}
	}
	d.logger.Load().Error(message, fields...)
}

// explainFile adds to a load error of a file how to fix it.
func explainFile(key DocumentKey, err error) error {
	if unmatched, ok := errors.AsType[*build.UnmatchedError](err); ok {
		return fmt.Errorf("toolset %q: %w", key.Name, unmatched)
	}
	if other, ok := errors.AsType[*lock.OtherError](err); ok {
		return fmt.Errorf("toolset %q: lock %s: %w", key.Name, key.Lock, other)
	}
	if faulty, ok := errors.AsType[*overlay.Error](err); ok {
		return fmt.Errorf("toolset %q: %w", key.Name, faulty)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("toolset %q: %w: check the path; a relative path starts at Caddy's working directory", key.Name, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("toolset %q: %w: give Caddy's user permission to read the file", key.Name, err)
	case errors.Is(err, source.ErrTooLarge):
		return fmt.Errorf("toolset %q: %w: raise max_document if this is the right file", key.Name, err)
	}
	return fmt.Errorf("toolset %q: %w", key.Name, err)
}
