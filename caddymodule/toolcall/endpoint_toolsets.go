package toolcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/toolsearch"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// MaxToolsets is the number of toolsets that one endpoint can serve.
const MaxToolsets = 32

// AddToolsets adds further toolsets that are served at the same path. Each toolset becomes an endpoint
// of its own (see Parts), so that a call has the limits and credentials of its toolset and is counted
// and logged under its name. The endpoint itself has none of these.
func (e *Endpoint) AddToolsets(ctx caddy.Context, references []string, config *agents.ToolsetConfig) error {
	if len(references) == 0 {
		return nil
	}
	if len(references) >= MaxToolsets {
		return fmt.Errorf("%s %s has %d toolsets; an endpoint can have %d at most", e.Protocol, e.Path, len(references)+1, MaxToolsets)
	}
	first := *e
	parts := []*Endpoint{&first}
	for _, reference := range references {
		part := *e
		var err error
		if part.Toolset, err = ResolveToolset(ctx, e.App, reference, config); err != nil {
			return err
		}
		if slices.ContainsFunc(parts, func(other *Endpoint) bool { return other.Toolset.Document == part.Toolset.Document }) {
			return fmt.Errorf("toolset %s is given twice", part.Toolset.Name)
		}
		part.lists = new(listings)
		part.metrics = agents.AllMetrics.Of(part.Toolset.Name, e.Protocol)
		e.App.AddServed(e.Site, part.Toolset)
		parts = append(parts, &part)
	}
	e.parts, e.routed = parts, usesToolsetAfter(ctx)
	e.Toolset = &agents.Toolset{Name: strings.Join(e.names(func(t *agents.Toolset) string { return t.Name }), ","), Search: e.commonSearch()}
	e.lists = new(listings)
	e.metrics = agents.AllMetrics.Of(e.Toolset.Name, e.Protocol)
	return nil
}

// Parts returns one endpoint for each toolset, in the order of the configuration. An endpoint of one
// toolset is its own only part.
func (e *Endpoint) Parts() []*Endpoint {
	if e.parts == nil {
		return []*Endpoint{e}
	}
	return e.parts
}

// names returns a name of each toolset.
func (e *Endpoint) names(of func(*agents.Toolset) string) (names []string) {
	for _, part := range e.Parts() {
		names = append(names, of(part.Toolset))
	}
	return names
}

// ShownName returns the names of the toolsets as clients see them.
func (e *Endpoint) ShownName() string {
	return strings.Join(e.names(func(t *agents.Toolset) string { return t.Key.ShownName() }), ",")
}

// ServerName returns the name of the server that the operator has chosen by the names of the
// toolsets. It is "" if one of them has no name in the configuration.
func (e *Endpoint) ServerName() string {
	names := e.names(func(t *agents.Toolset) string { return t.Name })
	for _, name := range names {
		if _, named := e.App.ToolsetsByName[name]; !named {
			return ""
		}
	}
	return strings.Join(names, "-")
}

// Injects reports whether the gateway adds credentials to the calls of any toolset.
func (e *Endpoint) Injects() bool {
	return slices.ContainsFunc(e.Parts(), func(part *Endpoint) bool { return len(part.Toolset.Credentials) > 0 })
}

// commonSearch returns the search mode of several toolsets: on if one of them is on, off if all are
// off.
func (e *Endpoint) commonSearch() agents.SearchMode {
	modes := e.names(func(t *agents.Toolset) string { return string(t.Search) })
	switch {
	case slices.Contains(modes, string(agents.SearchOn)):
		return agents.SearchOn
	case !slices.ContainsFunc(modes, func(mode string) bool { return mode != string(agents.SearchOff) }):
		return agents.SearchOff
	}
	return ""
}

// Merge makes the endpoint serve the tools of its parts as one toolset. Names holds the names that
// the tools have had. It does nothing if there is only one toolset.
func (e *Endpoint) Merge(names *tool.MergedNames) (err error) {
	if e.parts == nil {
		return nil
	}
	options := tool.MergerOptions{Prefixes: e.names(prefixOf)}
	for i, prefix := range options.Prefixes {
		name := e.parts[i].Toolset.Name
		if prefix == "" {
			return fmt.Errorf("toolset %s: its name cannot be the prefix of names of tools, as it has no letter or digit; give the toolset another name", name)
		}
		if other := slices.Index(options.Prefixes, prefix); other < i {
			return fmt.Errorf("the toolsets %s and %s would both have the prefix %s_ for names of their tools; define them in the agents option with other names",
				e.parts[other].Toolset.Name, name, prefix)
		}
	}
	if e.declared, err = tool.NewMerger(options); err != nil {
		return err
	}
	options.Names, options.Changed = names, e.logMerged
	options.Finder = func(tools []*tool.Tool) tool.Finder { return toolsearch.NewFinder(tools) }
	if e.merger, err = tool.NewMerger(options); err == nil && e.Agent == "" && e.AllLoaded() {
		e.Loaded() // logs the names at start
	}
	return err
}

// prefixOf returns the prefix for names of a toolset's tools that another toolset has, too.
func prefixOf(t *agents.Toolset) string {
	name := t.Key.ShownName()
	if LooksLikeDocument(name) {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	return tool.MergePrefix(name)
}

// loadedTools returns the tools of a toolset if its document is loaded.
func loadedTools(t *agents.Toolset) *tool.Toolset { return t.Filled(t.Loader.Toolset()) }

// Loaded returns the tools that the endpoint serves now, without built-in ones. Unlike Current it does
// not load documents of the site. It returns nil if no document is loaded.
func (e *Endpoint) Loaded() *tool.Toolset { return e.served(loadedTools) }

// Declared returns the tools of all documents that are loaded, whatever an agent may use. It returns nil
// if none is loaded.
func (e *Endpoint) Declared() *tool.Toolset {
	if e.merger == nil {
		return loadedTools(e.Toolset)
	}
	parts := make([]*tool.Toolset, len(e.parts))
	for i, part := range e.parts {
		parts[i] = loadedTools(part.Toolset)
	}
	return e.declared.Merge(parts...)
}

// AllLoaded reports whether all documents are loaded.
func (e *Endpoint) AllLoaded() bool { return len(e.missing()) == 0 }

// missing returns the parts whose documents are not loaded.
func (e *Endpoint) missing() []*Endpoint {
	return slices.DeleteFunc(slices.Clone(e.Parts()), func(part *Endpoint) bool { return part.Toolset.Loader.Toolset() != nil })
}

// OnChange calls changed when one of the documents has changed, until cancel is called.
func (e *Endpoint) OnChange(changed func()) (cancel func()) {
	parts := e.Parts()
	cancels := make([]func(), 0, len(parts))
	for _, part := range parts {
		cancels = append(cancels, part.Toolset.Loader.OnChange(changed))
	}
	return func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// Await returns the endpoint's tools like Tools. It first waits until the documents are loaded, but
// not longer than limit. It returns an error if no document can be loaded.
func (e *Endpoint) Await(r *http.Request, next caddyhttp.Handler, limit time.Duration) (*tool.Toolset, error) {
	tools := e.Tools(r, next)
	if tools != nil && e.AllLoaded() {
		return tools, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	var all []error
	for _, part := range e.missing() {
		loader := part.Toolset.Loader
		if part.Toolset.FromSite {
			all = append(all, fmt.Errorf("the document %s of the site could not be loaded: %w", loader.Location(), loader.Err()))
		} else if err := loader.Load(ctx); err != nil {
			all = append(all, fmt.Errorf("the document could not be loaded: %w", err))
		}
	}
	if tools = e.Current(r, next); tools != nil {
		return tools, nil
	}
	return nil, errors.Join(append(all, errors.New("the document has no tools"))[:max(len(all), 1)]...)
}

// maxLoggedNames limits how many names of tools one log line has.
const maxLoggedNames = 20

// logMerged logs which toolsets are not loaded, and which tools have the names of their toolsets as
// prefixes.
func (e *Endpoint) logMerged(previous, current *tool.Toolset) {
	logger := e.Logger.With(zap.String("path", e.Path), zap.String("toolsets", e.Toolset.Name))
	if missing := e.missing(); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, part := range missing {
			names[i] = part.Toolset.Name
		}
		logger.Warn("the endpoint serves the tools of its other toolsets only, until these are loaded", zap.Strings("missing", names))
	}
	var prefixed, renamed []string
	for _, t := range current.Tools() {
		part, own := current.Own(t)
		before := ""
		if previous != nil && (own.Name != t.Name || !has(previous, t.Name)) {
			before = previous.NameIn(part, own.Name)
		}
		switch {
		case before != "" && before != t.Name:
			renamed = append(renamed, before+" is now "+t.Name)
		case before == "" && own.Name != t.Name:
			prefixed = append(prefixed, t.Name)
		}
	}
	e.warnIfSameRequests(current, logger)
	if len(prefixed) > 0 {
		logger.Info("tools whose names another toolset has or had, too, are served with the name of their toolset as prefix",
			zap.Int("count", len(prefixed)), zap.Strings("names", prefixed[:min(len(prefixed), maxLoggedNames)]))
	}
	if len(renamed) > 0 {
		logger.Warn("names of tools have changed, because two toolsets now have tools with the same names; calls of the old names fail",
			zap.Int("count", len(renamed)), zap.Strings("names", renamed[:min(len(renamed), maxLoggedNames)]))
	}
}

// warnIfSameRequests logs a warning if tools of two toolsets become requests with the same method and
// path, and no handler or matcher after the endpoint can distinguish them. It logs once.
func (e *Endpoint) warnIfSameRequests(tools *tool.Toolset, logger *zap.Logger) {
	if e.routed {
		return
	}
	parts := make(map[string]int)
	var same []string
	for _, t := range tools.Tools() {
		part, _ := tools.Own(t)
		request := t.Method + " " + t.BasePath() + t.Template()
		if first, taken := parts[request]; taken && first != part {
			same = append(same, request)
		} else if !taken {
			parts[request] = part
		}
	}
	if len(same) > 0 {
		e.routed = true
		logger.Warn("operations of two toolsets have the same method and path, so their calls reach the same API; route them by {http.tool.toolset}, or set base_path",
			zap.Int("count", len(same)), zap.Strings("operations", same[:min(len(same), maxLoggedNames)]))
	}
}

// usesToolsetAfter reports whether a matcher or a handler that runs after the endpoint being
// provisioned uses the placeholder {http.tool.toolset}.
func usesToolsetAfter(ctx caddy.Context) bool {
	uses := func(config []byte) bool { return bytes.Contains(config, []byte("http.tool.toolset")) }
	for _, p := range routePositions(ctx) {
		for _, route := range p.routes[p.index:] {
			if slices.ContainsFunc(route.HandlersRaw, func(raw json.RawMessage) bool { return uses(raw) }) {
				return true
			}
			for _, matcher := range slices.Concat(route.MatcherSets...) {
				if config, err := json.Marshal(matcher); err == nil && uses(config) {
					return true
				}
			}
		}
	}
	return false
}

// has reports whether the toolset has a tool with the name.
func has(tools *tool.Toolset, name string) bool {
	_, ok := tools.Tool(name)
	return ok
}
