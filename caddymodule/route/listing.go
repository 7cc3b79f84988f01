package route

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

// listings decides what an endpoint lists, and caches the listing of its current toolset. An endpoint
// that searches lists built-in tools that find and call all others, and the pinned tools.
type listings struct {
	parts  *Parts
	logger *zap.Logger
	ruled  bool // a toolset has a rule that decides which tools a user may call

	// Hidden reports whether a tool is never listed; nil for none. ResponseSchemas says that the list has
	// response schemas. Both are set before SetSearch.
	Hidden          func(*tools.Tool) bool
	ResponseSchemas bool

	searchable bool           // the protocol has search tools
	mode       app.SearchMode // not "" if searchable
	pinned     []string

	mu     sync.Mutex
	latest atomic.Pointer[listing]
	users  userListings // if a toolset has a rule
}

// newListings returns listings of all tools of the parts.
func newListings(parts *Parts, logger *zap.Logger) *listings {
	return &listings{parts: parts, logger: logger, ruled: parts.haveRules()}
}

// listing is a toolset with the built-in tools of an endpoint. Toolsets with the same pointer have
// equal lists, by which adapters cache what they have encoded.
type listing struct {
	base     *tools.Toolset // without built-in tools
	whole    *tools.Toolset // lists all tools
	brief    *tools.Toolset // lists the tools that search, and the pinned ones; nil if the protocol has no search tools
	searches bool           // whether brief is the default
}

// searchTools returns the built-in tools of an endpoint that searches, in the order of its list. If no tool
// writes, there is none that calls those.
func searchTools(base *tools.Toolset) []tools.Builtin {
	kinds := []tools.Builtin{tools.SearchTools, tools.DescribeTools, tools.CallReadTool}
	if slices.ContainsFunc(base.Tools(), func(t *tools.Tool) bool { return !t.Hint(build.ReadOnlyHint) }) {
		kinds = append(kinds, tools.CallWriteTool)
	}
	return kinds
}

// SetSearch lets the endpoint search. Mode and pins are the options of the endpoint. If they are
// not set, the toolset's options apply.
func (l *listings) SetSearch(mode app.SearchMode, pins []string) error {
	options := l.parts.whole.Toolset
	l.searchable, l.mode, l.pinned = true, cmp.Or(mode, options.Search, app.SearchAuto), pins
	if len(pins) == 0 {
		l.pinned = options.Pins
	}
	if err := mode.Check(); err != nil {
		return err
	}
	if toolset := l.parts.Declared(); toolset != nil && l.parts.allLoaded() {
		return app.CheckPins(pins, toolset)
	}
	return nil
}

// pins returns the names of the pinned tools. The options of several toolsets pin tools by the names that
// these have in their own toolset.
func (l *listings) pins(base *tools.Toolset) []string {
	if len(l.pinned) > 0 || len(l.parts.All) == 1 {
		return l.pinned
	}
	var pins []string
	for i, part := range l.parts.All {
		for _, name := range part.Toolset.Pins {
			if served := base.NameIn(i, name); served != "" {
				pins = append(pins, served)
			} else if part.agent.name == "" && part.Toolset.Loader.Toolset() != nil {
				pins = append(pins, name) // CheckPins reports it
			}
		}
	}
	return pins
}

// build returns the listing of a toolset and caches it.
func (l *listings) build(base *tools.Toolset) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if latest := l.latest.Load(); latest != nil && latest.base == base {
		return latest
	}
	built := l.make(base)
	l.latest.Store(built)
	return built
}

// make returns the listing of a toolset.
func (l *listings) make(base *tools.Toolset) *listing {
	built := &listing{base: base, whole: base}
	var paging []tools.Builtin
	if l.parts.cuts(base) {
		paging = append(paging, tools.NextPage)
	}
	if uploads := uploadsOf(l.parts.app); uploads != nil && uploads.Lists(base) {
		paging = append(paging, tools.CreateUpload)
	}
	if paging != nil {
		built.whole = base.With(BuiltinTools(base, paging...)...)
	}
	if l.searchable {
		built.brief = base.With(BuiltinTools(base, slices.Concat(searchTools(base), paging)...)...).Listing(l.pins(base)...)
		built.searches = l.searches(base)
	}
	return built
}

// searches reports whether the endpoint searches unless a client chooses otherwise.
func (l *listings) searches(base *tools.Toolset) bool {
	_, narrowed := base.Whole() // a rule may hide a pinned tool from some users
	if l.parts.All[0].agent.name == "" && !narrowed {
		if err := app.CheckPins(l.pins(base), base); err != nil {
			l.logger.Warn("a pinned tool is not listed", zap.String("toolset", l.parts.Name()), zap.Error(err))
		}
		for _, name := range l.pins(base) {
			if t, ok := base.Tool(name); ok && l.Hidden != nil && l.Hidden(t) {
				l.logger.Warn("a pinned tool is not listed", zap.String("toolset", l.parts.Name()),
					zap.Error(fmt.Errorf("pin %s: the document says that it is no tool (x-mcp: {tool: false})", name)))
			}
		}
	}
	if l.mode != app.SearchAuto {
		return l.mode == app.SearchOn
	}
	tokens := app.EstimateTokens(base)
	if l.ResponseSchemas {
		tokens += app.ResponseTokens(base)
	}
	if tokens <= app.SearchThreshold {
		return false
	}
	if narrowed {
		return true
	}
	l.logger.Info("the list of tools is long, so clients get tools that search; set search off to list all tools",
		zap.String("toolset", l.parts.Name()), zap.Int("tools", len(base.Tools())), zap.Int("estimated_tokens", tokens))
	return true
}

// Values of the query parameter by which clients choose what an endpoint lists.
const (
	listParameter = "tools"
	chooseAll     = "all"
	chooseSearch  = "search"
)

// CheckListChoice returns an error for an unknown choice of what an endpoint lists.
func CheckListChoice(choice string) error {
	if choice == chooseAll || choice == chooseSearch {
		return nil
	}
	return fmt.Errorf("%q is unknown: use %s to list all tools, or %s for tools that search", text.Cut(choice, text.MaxQuoted), chooseAll, chooseSearch)
}

// ListQuery returns the query of an endpoint's URL with a choice of what it lists.
func ListQuery(choice string) string { return url.Values{listParameter: {choice}}.Encode() }

// CheckListQuery returns an error if the query of a request to an endpoint has an unknown choice of
// what to list.
func CheckListQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	_, err := listChoice(r.URL.RawQuery)
	return err
}

// listChoice returns the choice of a query, "" if there is none.
func listChoice(query string) (string, error) {
	if !strings.Contains(query, listParameter) {
		return "", nil
	}
	parameters, _ := url.ParseQuery(query) // what cannot be read is ignored, like other parameters
	choices := parameters[listParameter]
	switch {
	case len(choices) == 0:
		return "", nil
	case len(choices) > 1:
		return "", fmt.Errorf("%s is given %d times in the query of the endpoint; give it once", listParameter, len(choices))
	}
	if err := CheckListChoice(choices[0]); err != nil {
		return "", fmt.Errorf("%s in the query of the endpoint: %w", listParameter, err)
	}
	return choices[0], nil
}
