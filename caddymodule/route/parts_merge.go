package route

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/search"
)

// Merge makes the endpoint serve the tools of its parts as one toolset. Names holds the names that
// the tools have had. It does nothing if there is only one toolset.
func (p *Parts) Merge(names *tools.MergedNames) (err error) {
	if len(p.All) == 1 {
		return nil
	}
	options := tools.MergeOptions{Prefixes: p.names(prefixOf)}
	for _, part := range p.All {
		options.Yields = append(options.Yields, part.Toolset.WithholdsShadowing())
	}
	for i, prefix := range options.Prefixes {
		name := p.All[i].Toolset.Name
		if prefix == "" {
			return fmt.Errorf("toolset %s: its name cannot be the prefix of names of tools, because it has no letter or digit; give the toolset another name", name)
		}
		if other := slices.Index(options.Prefixes, prefix); other < i {
			return fmt.Errorf("the toolsets %s and %s would both have the prefix %s_ for names of their tools; define them in the agents option with other names",
				p.All[other].Toolset.Name, name, prefix)
		}
	}
	if p.declared, err = tools.NewMerger(options); err != nil {
		return err
	}
	options.Names, options.Changed, options.Yielded = names, p.logMerged, p.logShadowing
	options.Finder = func(set *tools.Toolset) tools.Finder { return search.NewJoinedFinder(set) }
	if p.merger, err = tools.NewMerger(options); err == nil && p.All[0].agent.name == "" && p.allLoaded() {
		p.Loaded() // logs the names at start
	}
	return err
}

// prefixOf returns the prefix for names of a toolset's tools that another toolset has, too.
func prefixOf(t *app.Toolset) string {
	name := t.Key.ShownName()
	if LooksLikeDocument(name) {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	return tools.MergePrefix(name)
}

// logShadowing logs which tools of MCP servers are withheld because of their names.
func (p *Parts) logShadowing(names []string) {
	p.logger.Warn("tools of an MCP server are withheld, because another toolset of the endpoint has tools with their names; to serve them, approve them with the option lock, or rename them",
		zap.Int("count", len(names)), zap.Strings("names", names[:min(len(names), maxLoggedNames)]))
}

// maxLoggedNames limits how many names of tools one log line has.
const maxLoggedNames = 20

// logMerged logs which toolsets are not loaded, and which tools have the names of their toolsets as
// prefixes.
func (p *Parts) logMerged(previous, current *tools.Toolset) {
	if missing := p.missing(); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, part := range missing {
			names[i] = part.Toolset.Name
		}
		p.logger.Warn("the endpoint serves the tools of its other toolsets only, until these are loaded", zap.Strings("missing", names))
	}
	var prefixed, shadowing, renamed []string
	for _, t := range current.Tools() {
		part, own := current.Original(t)
		before := ""
		if previous != nil && (own.Name != t.Name || !has(previous, t.Name)) {
			before = previous.NameIn(part, own.Name)
		}
		switch {
		case before != "" && before != t.Name:
			renamed = append(renamed, before+" is now "+t.Name)
		case before == "" && own.Name != t.Name:
			if prefixed = append(prefixed, t.Name); own.Foreign != nil {
				shadowing = append(shadowing, t.Name)
			}
		}
	}
	p.warnIfSameRequests(current)
	if len(prefixed) > 0 {
		p.logger.Info("tools whose names another toolset has or had, too, are served with the name of their toolset as prefix",
			zap.Int("count", len(prefixed)), zap.Strings("names", prefixed[:min(len(prefixed), maxLoggedNames)]))
	}
	if len(shadowing) > 0 {
		p.logger.Warn("an MCP server has tools with the names of tools of another toolset; calls of the plain names fail, so none gets the calls of another",
			zap.Int("count", len(shadowing)), zap.Strings("names", shadowing[:min(len(shadowing), maxLoggedNames)]))
	}
	if len(renamed) > 0 {
		p.logger.Warn("names of tools have changed, because two toolsets now have tools with the same names; calls of the old names fail",
			zap.Int("count", len(renamed)), zap.Strings("names", renamed[:min(len(renamed), maxLoggedNames)]))
	}
}

// warnIfSameRequests logs a warning if tools of two toolsets become requests with the same method and
// path, and no handler or matcher after the endpoint can distinguish them. It logs once.
func (p *Parts) warnIfSameRequests(toolset *tools.Toolset) {
	if p.routed {
		return
	}
	parts := make(map[string]int)
	var same []string
	for _, t := range toolset.Tools() {
		part, _ := toolset.Original(t)
		request := t.Plan.Method + " " + t.Plan.Base + t.Plan.Template
		if first, taken := parts[request]; taken && first != part {
			same = append(same, request)
		} else if !taken {
			parts[request] = part
		}
	}
	if len(same) > 0 {
		p.routed = true
		p.logger.Warn("operations of two toolsets have the same method and path, so their calls reach the same API; route them by {http.tool.toolset}, or set base_path",
			zap.Int("count", len(same)), zap.Strings("operations", same[:min(len(same), maxLoggedNames)]))
	}
}

// has reports whether the toolset has a tool with the name.
func has(toolset *tools.Toolset, name string) bool {
	_, ok := toolset.Tool(name)
	return ok
}
