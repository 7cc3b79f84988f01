package app

import (
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
)

// Options implements site.Section. Syntax:
//
//	toolset <name> [<file, URL or path on the site>] {
//		openapi      <file, URL or path on the site>
//		...
//	}
//	caller_metrics {
//		groups                 <groups...>
//		high_cardinality_users <number>
//	}
//
// toolset may be repeated. See ToolsetConfig.Options for its options.
func (a *App) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"toolset": func() error { return a.unmarshalToolset(b) },
		"caller_metrics": func() error {
			err := b.Once()
			if err == nil && b.NextArg() {
				err = b.ArgErr()
			}
			if err == nil {
				a.CallerMetrics = new(metrics.Callers)
				inner := directive.NewBlock(b.Dispenser)
				err = inner.Read("caller_metrics", a.CallerMetrics.Options(inner))
			}
			return err
		},
	}
}

// unmarshalToolset reads the subdirective toolset of the global option agents.
func (a *App) unmarshalToolset(outer *directive.Block) error {
	config := new(ToolsetConfig)
	var name string
	switch arguments := outer.RemainingArgs(); len(arguments) {
	case 2:
		config.OpenAPI = arguments[1]
		fallthrough
	case 1:
		name = arguments[0]
	case 0:
		return outer.Err("toolset needs a name, as in: toolset trains trains.yaml")
	default:
		return outer.Errf("toolset %s takes one document, not %d: write a toolset for each, and mcp can serve several", arguments[0], len(arguments)-1)
	}
	if name == "" {
		return outer.Err("the toolset's name is empty")
	}
	if _, twice := a.Toolsets[name]; twice {
		return outer.Errf("toolset %s is given twice", name)
	}
	b := directive.NewBlock(outer.Dispenser)
	b.Seen["openapi"] = config.OpenAPI != ""
	if err := b.Read("toolset", config.Options(b)); err != nil {
		return err
	}
	switch {
	case config.MCPServer != nil:
	case config.OpenAPI == "" && IsAddress(name):
		return outer.Errf("toolset %[1]s has no name; give one before the document, as in: toolset trains %[1]s", name)
	case config.OpenAPI == "":
		return outer.Errf("toolset %s has no document: add openapi with a file, a URL or a path on the site, or mcp_server", name)
	}
	if a.Toolsets == nil {
		a.Toolsets = make(map[string]*ToolsetConfig)
	}
	a.Toolsets[name] = config
	return nil
}
