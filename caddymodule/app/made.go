package app

import (
	"context"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/source"
)

// NewToolset returns a toolset that is not configured: its document comes from a source in this process, such as the hosted agents.
// Finish changes the tools that were built from it. The caller loads the document, and calls Close once.
func NewToolset(name string, from source.Source, finish func(*tools.Toolset), logger *zap.Logger) *Toolset {
	d := &Document{Key: DocumentKey{Name: name, BuildOptions: tools.BuildOptions{ResponseSchemas: true}}, loggedWarnings: make(map[string]struct{}), inputs: newInputFiles(nil)}
	d.logger.Store(logger)
	d.responseSchemas.Store(true)
	build := func(ctx context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
		toolset, files, err := d.build(ctx, data, location, previous)
		if err == nil {
			finish(toolset)
		}
		return toolset, files, err
	}
	d.Loader = loader.New(loader.Options{Source: from, Build: build, Refresh: -1, Observer: loader.Observer{Loaded: d.loaded, Failed: d.failed}})
	metrics.All.Acquire(name)
	d.hideFailing = metrics.All.ExportFailing(name, d.Loader.Err)
	return &Toolset{Name: name, Document: d, MaxTokens: -1, Limits: Limits{MaxResponse: DefaultMaxResponse}}
}

// Close ends the export of the metrics of a toolset of NewToolset. Calls in progress may still use its tools.
func (t *Toolset) Close() {
	t.hideFailing()
	metrics.All.Release(t.Name)
}
