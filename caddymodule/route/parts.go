package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/search"
)

// maxToolsets is the number of toolsets that one endpoint can serve.
const maxToolsets = 32

// Part is one toolset of an endpoint. A call has the limits and credentials of its toolset, and is
// counted and logged under its name.
type Part struct {
	Toolset   *app.Toolset
	metrics   metrics.Calls
	callers   *metrics.Callers // nil unless metrics say who calls
	maxTokens int              // limits the responses of tools without a limit of their own, in tokens; less than 0 means no limit
	agent     *agentTools
	signed    bool         // a handler after the endpoint signs requests
	listings  *listings    // of this toolset alone
	polled    match.Latest // the operations that polls may call
	scopes    atomic.Pointer[neededScopes]
	agentWait time.Duration // how long a call that its client can repeat waits for an agent; 0 unless the tools are agents
}

// neededScopes are the scopes that the tools of a Toolset need.
type neededScopes struct {
	of     *tools.Toolset
	scopes []string
}

// IsAgents reports whether the tools of the part are hosted agents.
func (p *Part) IsAgents() bool { return p.agentWait > 0 }

// Parts are the toolsets of an endpoint: one (newPart), or several, which have one toolset of all tools (Endpoint.serve).
type Parts struct {
	All   []*Part // in the order of the configuration; at least one
	whole *Part   // the only part; if there are several, a part with their names and search mode, without limits and credentials

	app    *app.App
	logger *zap.Logger // nil if there is only one
	path   string      // of the endpoint

	merger   *tools.Merger // of the tools that the endpoint serves; nil if there is only one toolset
	declared *tools.Merger // of all tools of the documents; nil if there is only one toolset
	routed   bool          // no warning if toolsets have requests with the same method and path
}

// Name returns the names of the toolsets, for logs and metrics.
func (p *Parts) Name() string { return p.whole.Toolset.Name }

// names returns the names of the toolsets, as of returns them.
func (p *Parts) names(of func(*app.Toolset) string) (names []string) {
	for _, part := range p.All {
		names = append(names, of(part.Toolset))
	}
	return names
}

// namesOfDocuments is like names, without toolsets of agents.
func (p *Parts) namesOfDocuments(of func(*app.Toolset) string) (names []string) {
	for _, part := range p.All {
		if !part.IsAgents() {
			names = append(names, of(part.Toolset))
		}
	}
	return names
}

// ShownName returns the names of the toolsets of documents as clients see them.
func (p *Parts) ShownName() string {
	return strings.Join(p.namesOfDocuments(func(t *app.Toolset) string { return t.Key.ShownName() }), ",")
}

// ServerName returns the name of the server that the operator has chosen by the names of the
// toolsets. It is "" if one of them has no name in the configuration.
func (p *Parts) ServerName() string {
	names := p.namesOfDocuments(func(t *app.Toolset) string { return t.Name })
	for _, name := range names {
		if _, named := p.app.ToolsetsByName[name]; !named {
			return ""
		}
	}
	return strings.Join(names, "-")
}

// UseCredentials reports whether the calls of any toolset carry credentials of the gateway.
func (p *Parts) UseCredentials() bool { return slices.ContainsFunc(p.All, (*Part).UsesCredentials) }

// UsesCredentials reports whether the calls of the toolset carry credentials of the gateway.
func (p *Part) UsesCredentials() bool { return usesCredentials(p.Toolset, p.signed) }

// commonSearch returns the search mode of several toolsets: on if one of them is on, off if all are
// off.
func (p *Parts) commonSearch() app.SearchMode {
	modes := p.namesOfDocuments(func(t *app.Toolset) string { return string(t.Search) })
	switch {
	case slices.Contains(modes, string(app.SearchOn)):
		return app.SearchOn
	case !slices.ContainsFunc(modes, func(mode string) bool { return mode != string(app.SearchOff) }):
		return app.SearchOff
	}
	return ""
}

// SetMaxTokens sets the option max_tokens of the endpoint. If it is 0, that of each toolset applies.
func (p *Parts) SetMaxTokens(tokens int) error {
	for _, part := range p.All {
		part.maxTokens = tokens
		if tokens == 0 {
			part.maxTokens = part.Toolset.MaxTokens
		}
	}
	return app.CheckMaxTokens(tokens)
}

// cuts reports whether the responses of any of the tools are limited.
func (p *Parts) cuts(toolset *tools.Toolset) bool {
	return slices.ContainsFunc(toolset.Tools(), func(t *tools.Tool) bool {
		part := p.whole
		if i, own := toolset.Original(t); i >= 0 {
			part, t = p.All[i], own
		}
		return part.maxBytes(t) > 0
	})
}

// loadedTools returns the tools of a toolset if its document is loaded.
func loadedTools(t *app.Toolset) *tools.Toolset { return t.Filled(t.Loader.Toolset()) }

// Loaded returns the tools that the endpoint serves now, without built-in ones. It does not
// load documents of the site. It returns nil if no document is loaded.
func (p *Parts) Loaded() *tools.Toolset { return p.served(loadedTools) }

// Declared returns the tools of all loaded documents, regardless of the agent of the endpoint. It returns
// nil if none is loaded.
func (p *Parts) Declared() *tools.Toolset {
	if p.merger == nil {
		return loadedTools(p.whole.Toolset)
	}
	parts := make([]*tools.Toolset, len(p.All))
	for i, part := range p.All {
		parts[i] = loadedTools(part.Toolset)
	}
	return p.declared.Merge(parts...)
}

// allLoaded reports whether all documents are loaded.
func (p *Parts) allLoaded() bool { return len(p.missing()) == 0 }

// missing returns the parts whose documents are not loaded.
func (p *Parts) missing() []*Part {
	return slices.DeleteFunc(slices.Clone(p.All), func(part *Part) bool { return part.Toolset.Loader.Toolset() != nil })
}

// OnChange calls changed when one of the documents has changed, until cancel is called.
func (p *Parts) OnChange(changed func()) (cancel func()) {
	cancels := make([]func(), 0, len(p.All))
	for _, part := range p.All {
		cancels = append(cancels, part.Toolset.Loader.OnChange(changed))
	}
	return func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// load loads the documents that are not loaded. It returns an error for each that cannot be loaded.
func (p *Parts) load(ctx context.Context) error {
	var all []error
	for _, part := range p.missing() {
		loader := part.Toolset.Loader
		if part.Toolset.FromSite {
			all = append(all, fmt.Errorf("the document %s of the site could not be loaded: %w", loader.Location(), loader.Err()))
		} else if err := loader.Load(ctx); err != nil {
			all = append(all, fmt.Errorf("the document could not be loaded: %w", err))
		}
	}
	return errors.Join(all...)
}

// RetryAfter returns how long a client should wait before it tries again to get the tools.
func (p *Parts) RetryAfter() (wait time.Duration) {
	for _, part := range p.All {
		wait = max(wait, part.Toolset.Loader.RetryAfter())
	}
	return wait
}

// WriteUnavailable responds with 503, because no document is loaded yet.
func (p *Parts) WriteUnavailable(w http.ResponseWriter) error {
	return WriteUnavailable(w, p.ShownName(), p.RetryAfter())
}

// merge makes one toolset of several. Its names are those of MCP. OTC has a toolkit for each toolset, so there the names
// are only those of the console.
func (p *Parts) merge(protocol string) (err error) {
	var options tools.MergeOptions
	for i, prefix := range p.names(prefixOf) {
		if prefix == "" || slices.Contains(options.Prefixes, prefix) {
			prefix = fmt.Sprintf("toolset_%d", i+1) // CheckNames returns an error
		}
		options.Prefixes = append(options.Prefixes, prefix)
	}
	if p.declared, err = tools.NewMerger(options); err != nil {
		return err
	}
	if protocol == "mcp" {
		for _, part := range p.All {
			options.Yields = append(options.Yields, part.Toolset.WithholdsShadowing())
		}
		options.Changed, options.Yielded, options.Moved = p.logMerged, p.logShadowing, p.reportMoved
	}
	options.Finder = func(set *tools.Toolset) tools.Finder { return search.NewJoinedFinder(set) }
	p.merger, err = tools.NewMerger(options)
	return err
}

// CheckNames returns an error if the names of the toolsets cannot be prefixes of names of tools.
func (p *Parts) CheckNames() error {
	if len(p.All) == 1 {
		return nil
	}
	prefixes := p.names(prefixOf)
	for i, prefix := range prefixes {
		name := p.All[i].Toolset.Name
		if prefix == "" {
			return fmt.Errorf("toolset %s: its name cannot be the prefix of names of tools, because it has no letter or digit; give the toolset another name", name)
		}
		if other := slices.Index(prefixes, prefix); other < i {
			return fmt.Errorf("the toolsets %s and %s would both have the prefix %s_ for names of their tools; define them in the agents option with other names",
				p.All[other].Toolset.Name, name, prefix)
		}
	}
	if p.All[0].agent.name == "" && p.allLoaded() {
		p.Loaded() // logs the names at start
	}
	return nil
}

// prefixOf returns the prefix for names of a toolset's tools that another toolset has, too.
func prefixOf(t *app.Toolset) string { return tools.MergePrefix(t.Key.ShownName()) }

// logShadowing logs which tools of MCP servers are withheld because of their names.
func (p *Parts) logShadowing(names []string) {
	p.logger.Warn("tools of an MCP server are withheld, because another toolset of the endpoint has tools with their names; to serve them, approve them with the option lock, or rename them",
		zap.Int("count", len(names)), zap.Strings("names", names[:min(len(names), maxLoggedNames)]))
}

// reportMoved reports plain names that mean no tool now, because they would mean that of another toolset than before.
func (p *Parts) reportMoved(names []string) {
	p.logger.Warn("names of tools would now be those of another toolset, so calls of them fail until the configuration is reloaded; use the names with the prefix of the toolset",
		zap.Int("count", len(names)), zap.Strings("names", names[:min(len(names), maxLoggedNames)]))
	// The names would mean tools of another toolset now.
	p.app.Site.Emit("toolset_names_withdrawn", map[string]any{"path": p.path, "toolsets": p.Name(), "names": names})
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
			prefixed = append(prefixed, t.Name)
			if own.Foreign != nil {
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
		p.logger.Warn("an MCP server has tools with the names of tools of another toolset; they are served with the name of their toolset as prefix",
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
