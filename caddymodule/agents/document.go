package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/schema"
)

// documents are shared by all handlers, and by successive configurations, that
// want the same tools of the same document: a reload keeps what is loaded. Once one
// of them wants the schemas of answers, all have them.
var documents = caddy.NewUsagePool()

// DocumentKey is everything that the tools of a document depend on, normalised.
// Equal keys share one document.
type DocumentKey struct {
	Name        string         `json:"name"`
	Kind        sourceKind     `json:"kind"`
	Address     string         `json:"address"`
	Refresh     time.Duration  `json:"refresh"`
	Refs        string         `json:"refs"`
	Include     []ocp.Selector `json:"include"`
	Exclude     []ocp.Selector `json:"exclude"`
	Schemas     schema.Mode    `json:"schemas"`
	BasePath    string         `json:"base_path"`
	MaxDocument int64          `json:"max_document"`
	MaxSchema   int64          `json:"max_schema"`
	TokenBudget int            `json:"token_budget"`
	Site        string         `json:"site"` // tells apart sites whose documents have the same path

	NonInferrable []string `json:"non_inferrable"`
	Answers       bool     `json:"-"` // the handler wants the schemas of answers
}

// String returns the key as a value that can be compared.
func (k DocumentKey) String() string {
	text, _ := json.Marshal(k) // strings and numbers: cannot fail
	return string(text)
}

// Document keeps the tools of one document current and tells of its loads.
type Document struct {
	Key    DocumentKey
	Loader *ocp.Loader
	BySite bool // loaded through requests (ocp.Loader.Ensure)

	answers atomic.Bool // the tools have the schemas of their answers

	logger atomic.Pointer[zap.Logger] // of the configuration that was started last
	told   map[string]struct{}        // warnings that have been logged; of the loader's observer
	latest *ocp.Toolset               // the observer was called with; nil at first
}

// openDocument returns the document of that key from the pool; whoever opens it
// calls closeDocument with its key once. A file is read at once, and must be
// good; URLs and sites are not asked before start.
func openDocument(ctx context.Context, key DocumentKey, logger *zap.Logger) (*Document, error) {
	value, _, err := documents.LoadOrNew(key.String(), func() (caddy.Destructor, error) {
		return newDocument(key, logger)
	})
	if err != nil {
		return nil, err
	}
	d := value.(*Document)
	if key.Answers {
		d.describe()
	}
	if err := d.load(ctx); err != nil {
		closeDocument(key)
		return nil, err
	}
	return d, nil
}

// describe has the tools have the schemas of their answers from the next load on,
// which they keep as long as there is a configuration with the document.
func (d *Document) describe() {
	if !d.answers.Swap(true) {
		d.Loader.Rebuild()
	}
}

// load reads a file, which must be good. Other documents are for start.
func (d *Document) load(ctx context.Context) error {
	if d.Key.Kind != SourceFile {
		return nil
	}
	if err := d.Loader.Load(ctx); err != nil {
		return ExplainFile(d.Key, err)
	}
	// A document that another configuration has loaded may have changed since.
	for _, err := range d.Loader.Toolset().Unmatched {
		return ExplainFile(d.Key, err)
	}
	return nil
}

func closeDocument(key DocumentKey) {
	_, _ = documents.Delete(key.String())
}

func newDocument(key DocumentKey, logger *zap.Logger) (*Document, error) {
	source, err := key.Source()
	if err != nil {
		return nil, err
	}
	d := &Document{Key: key, BySite: key.Kind == SourceSite, told: make(map[string]struct{})}
	d.logger.Store(logger)
	d.answers.Store(key.Answers)
	d.Loader = ocp.NewLoader(ocp.LoaderOptions{
		Source:   source,
		Build:    d.build,
		Refresh:  key.Refresh,
		Observer: ocp.LoadObserver{Loaded: d.loaded, Failed: d.failed},
	})
	AllMetrics.hold(key.Name)
	return d, nil
}

// Source returns where the document is read from.
func (k DocumentKey) Source() (openapi.Source, error) {
	switch k.Kind {
	case SourceFile:
		return &openapi.FileSource{Path: k.Address, MaxSize: k.MaxDocument}, nil
	case SourceSite:
		return &openapi.SiteSource{Path: k.Address, MaxSize: k.MaxDocument}, nil
	}
	return openapi.NewURLSource(k.Address, openapi.URLOptions{MaxSize: k.MaxDocument})
}

// Build is an ocp.BuildFunc.
func (k DocumentKey) Build(_ context.Context, data []byte, location string, previous *ocp.Toolset) (*ocp.Toolset, []string, error) {
	options := k.options(location)
	options.Reloaded = previous != nil
	toolset, err := ocp.Build(data, options)
	if err != nil {
		return nil, nil, err
	}
	return toolset, toolset.Files, nil
}

// build is the key's, with the schemas of answers if anybody wants them by now.
func (d *Document) build(ctx context.Context, data []byte, location string, previous *ocp.Toolset) (*ocp.Toolset, []string, error) {
	key := d.Key
	key.Answers = d.answers.Load()
	return key.Build(ctx, data, location, previous)
}

// ShownName returns the toolset's name as clients see it. One that is called by
// its document's address shows the last part of that only: where documents lie
// inside is not for clients.
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

// options says which tools are made of the document that came from location.
func (k DocumentKey) options(location string) ocp.BuildOptions {
	return ocp.BuildOptions{
		Name:      k.ShownName(),
		Location:  location,
		Refs:      k.Refs,
		Include:   k.Include,
		Exclude:   k.Exclude,
		Schemas:   k.Schemas,
		BasePath:  k.BasePath,
		MaxSchema: int(k.MaxSchema),
		Limits:    openapi.Limits{Size: int(k.MaxDocument)},

		NonInferrable:   k.NonInferrable,
		ResponseSchemas: k.Answers,
	}
}

// start begins to load and watch, with the logger of the configuration that is
// being started.
func (d *Document) start(logger *zap.Logger) {
	d.logger.Store(logger)
	d.Loader.Start()
}

// Destruct stops the loader. It is called when no configuration uses the
// document any more.
func (d *Document) Destruct() error {
	d.Loader.Stop()
	AllMetrics.release(d.Key.Name)
	return nil
}

// loaded tells of a new toolset. The loader calls its observer one at a time.
func (d *Document) loaded(toolset *ocp.Toolset, took time.Duration) {
	AllMetrics.loaded(d.Key.Name, toolset)
	logger := d.logger.Load().With(zap.String("toolset", d.Key.Name), zap.String("document", d.Loader.Location()))
	tokens := estimateTokens(toolset)
	logger.Info("loaded the tools of a document",
		zap.Int("tools", len(toolset.Tools())),
		zap.Int("operations", toolset.Operations),
		zap.Int("excluded", toolset.Excluded),
		zap.Int("warnings", len(toolset.Warnings)),
		zap.Int("estimated_tokens", tokens),
		zap.Duration("took", took))
	if budget := d.Key.TokenBudget; budget > 0 && tokens > budget {
		logger.Warn("the list of tools is larger than the token budget: every model that is given it pays for all of it; "+
			"choose tools with include and exclude, or raise token_budget",
			zap.Int("estimated_tokens", tokens), zap.Int("token_budget", budget))
	}
	d.logChanges(logger, toolset)
	d.logWarnings(logger, toolset.Warnings)
}

// maxLoggedNames is how many tools that appeared, and how many that went, one log line
// names.
const maxLoggedNames = 20

// logChanges logs which tools a reload of the document added and removed.
func (d *Document) logChanges(logger *zap.Logger, toolset *ocp.Toolset) {
	previous := d.latest
	d.latest = toolset
	if previous == nil {
		return
	}
	appeared, appearedCount := namesMissing(previous, toolset)
	gone, goneCount := namesMissing(toolset, previous)
	if appearedCount+goneCount == 0 {
		return
	}
	logger.Info("the document changed which tools there are",
		zap.Int("appeared_count", appearedCount), zap.Strings("appeared", appeared),
		zap.Int("gone_count", goneCount), zap.Strings("gone", gone))
}

// namesMissing returns how many tools of one toolset another does not have, and the
// first of their names.
func namesMissing(from, of *ocp.Toolset) (names []string, count int) {
	for _, tool := range of.Tools() {
		if _, has := from.Tool(tool.Name); has {
			continue
		}
		count++
		if count <= maxLoggedNames {
			names = append(names, tool.Name)
		}
	}
	return names, count
}

// MaxLoggedWarnings is how many warnings of one document are logged one by one.
const MaxLoggedWarnings = 20

// logWarnings logs what it has not logged of this document before: as a warning
// where an operation was lost, at debug where it was not.
func (d *Document) logWarnings(logger *zap.Logger, warnings []ocp.Warning) {
	logged, left := 0, 0
	told := make(map[string]struct{}, len(warnings))
	for _, w := range warnings {
		text := w.Operation + "\x00" + w.Reason
		told[text] = struct{}{}
		if _, known := d.told[text]; known {
			continue
		}
		if logged == MaxLoggedWarnings {
			left++
			continue
		}
		logged++
		log := logger.Debug
		if w.Lost || w.Operation == "" {
			log = logger.Warn
		}
		log("document warning", zap.String("operation", w.Operation), zap.String("reason", w.Reason), zap.Bool("lost", w.Lost))
	}
	d.told = told
	if left > 0 {
		logger.Warn("more document warnings; caddy tools prints all of them", zap.Int("more", left))
	}
}

// failed tells that the document could not be loaded.
func (d *Document) failed(err error) {
	AllMetrics.failed(d.Key.Name)
	message := "could not load the document; the tools it had stay"
	if d.Loader.Toolset() == nil {
		if d.Key.Kind == SourceFile {
			return // it is the configuration that fails, with this error
		}
		message = "could not load the document; its tools answer 503 until it loads"
	}
	d.logger.Load().Error(message, zap.String("toolset", d.Key.Name),
		zap.String("document", d.Loader.Location()), zap.Error(err))
}

// ExplainFile says what to do about a file that cannot be loaded.
func ExplainFile(key DocumentKey, err error) error {
	if unmatched, ok := errors.AsType[*ocp.UnmatchedError](err); ok {
		return fmt.Errorf("toolset %q: %w", key.Name, unmatched)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("toolset %q: %w: check the path; a relative one starts at Caddy's working directory", key.Name, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("toolset %q: %w: let Caddy's user read the file", key.Name, err)
	case errors.Is(err, openapi.ErrTooLarge):
		return fmt.Errorf("toolset %q: %w: raise max_document if the file is right", key.Name, err)
	}
	return fmt.Errorf("toolset %q: %w: see what is wrong with `caddy tools %s`", key.Name, err, key.Address)
}
