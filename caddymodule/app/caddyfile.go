package app

import (
	"cmp"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/archive"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("agents", parseAgents)
}

// parseAgents reads the global option agents.
func parseAgents(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option agents is given twice; merge the blocks")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "agents", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from the global option. Syntax:
//
//	agents {
//		toolset <name> [<file, URL or path on the site>] {
//			openapi      <file, URL or path on the site>
//			mcp_server   <URL> | command <program> <arguments...> { … }
//			overlay      <files...>
//			lock         <file>
//			refresh      <duration> | off
//			refs         <directory>
//			include      tag | operation | path | method <values...>
//			exclude      tag | operation | path | method <values...>
//			readonly
//			tool         <name> | <operationId> | "<method> <path>" | * { … }
//			description_tokens <tokens> | off
//			schemas      auto | inline | defs
//			base_path    <path>
//			max_document <size>
//			timeout      <duration> | off
//			max_response <size>
//			token_budget <tokens> | off
//			forward_headers <headers...>
//			non_inferrable <arguments...>
//			credential   header|query <name> <value> | basic <user> <password> | <module> ...
//		}
//		store        <module> ...
//		calls        off | { … }
//		audit {
//			sink       file <path> { … } | webhook <url> { … }
//			queue      <entries>
//			full       refuse | drop
//			pseudonyms <key>
//		}
//		evict_refused_engagements
//		max_bodies   <size>
//		caller_metrics {
//			groups                 <groups...>
//			high_cardinality_users <number>
//		}
//	}
//
// toolset, overlay, include, exclude, tool and credential may be repeated. See ToolsetConfig, package stores and archive.Config
// for the meaning of the options and their defaults.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume option name
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("agents", directive.Options{
		"toolset": func() error { return a.unmarshalToolset(b) },
		"calls": func() error {
			a.KeptCalls = cmp.Or(a.KeptCalls, new(calllog.Config))
			return a.KeptCalls.Unmarshal(b)
		},
		"store": func() error {
			err := b.Once()
			if err == nil {
				a.StoreRaw, err = b.Guest(storesNamespace, storesInlineKey)
			}
			return err
		},
		"audit": func() error {
			err := b.Once()
			if err == nil {
				a.Audit = new(archive.Config)
				err = a.Audit.UnmarshalCaddyfile(b.Dispenser)
			}
			return err
		},
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
		"evict_refused_engagements": directive.To(b.Flag, &a.EvictRefusedEngagements),
		"max_bodies":                directive.To(b.Size, &a.MaxBodies),
	})
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

// Interface guard
var _ caddyfile.Unmarshaler = (*App)(nil)
