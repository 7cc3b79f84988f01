package toolcall

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall/builtin"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// listingOptions say what an endpoint lists. An endpoint that searches lists built-in tools that find
// and call all others, and the pinned tools.
type listingOptions struct {
	searchable bool              // the protocol has search tools
	mode       agents.SearchMode // not ""
	pins       []string
}

// listings caches the listing of the endpoint's current toolset.
type listings struct {
	mu      sync.Mutex
	current atomic.Pointer[listing]
}

// listing is a toolset with the built-in tools of an endpoint. Toolsets with the same pointer have
// equal lists, by which adapters cache what they have encoded.
type listing struct {
	base     *tool.Toolset // without built-in tools
	whole    *tool.Toolset // lists all tools
	brief    *tool.Toolset // lists the tools that search, and the pinned ones; nil if the protocol has no search tools
	searches bool          // whether brief is the default
}

// searchTools are the built-in tools of an endpoint that searches, in the order of its list.
var searchTools = []tool.Builtin{tool.SearchTools, tool.DescribeTools, tool.CallReadTool, tool.CallWriteTool}

// SetSearch lets the endpoint search. Mode and pins are the options of the endpoint. If they are
// not set, the toolset's options apply.
func (e *Endpoint) SetSearch(mode agents.SearchMode, pins []string) error {
	e.listing = listingOptions{searchable: true, mode: mode, pins: pins}
	if e.listing.mode == "" {
		e.listing.mode = e.Toolset.Search
	}
	if e.listing.mode == "" {
		e.listing.mode = agents.SearchAuto
	}
	if len(pins) == 0 {
		e.listing.pins = e.Toolset.Pins
	}
	if err := mode.Check(); err != nil {
		return err
	}
	if tools := e.Declared(); tools != nil && e.AllLoaded() {
		return agents.CheckPins(pins, tools)
	}
	return nil
}

// pins returns the names of the pinned tools. The options of several toolsets pin tools by the names that
// these have in their own toolset.
func (e *Endpoint) pins(base *tool.Toolset) []string {
	if len(e.listing.pins) > 0 || e.parts == nil {
		return e.listing.pins
	}
	var pins []string
	for i, part := range e.parts {
		for _, name := range part.Toolset.Pins {
			if served := base.NameIn(i, name); served != "" {
				pins = append(pins, served)
			} else if e.Agent == "" && part.Toolset.Loader.Toolset() != nil {
				pins = append(pins, name) // CheckPins reports it
			}
		}
	}
	return pins
}

// newListing returns the listing of a toolset and caches it.
func (e *Endpoint) newListing(base *tool.Toolset) *listing {
	e.lists.mu.Lock()
	defer e.lists.mu.Unlock()
	if l := e.lists.current.Load(); l != nil && l.base == base {
		return l
	}
	l := &listing{base: base, whole: base}
	var paging []tool.Builtin
	if e.cuts(base) {
		paging = []tool.Builtin{tool.NextPage}
		l.whole = base.With(builtin.Tools(base, paging...)...)
	}
	if e.listing.searchable {
		l.brief = base.With(builtin.Tools(base, slices.Concat(searchTools, paging)...)...).Listing(e.pins(base)...)
		l.searches = e.searches(base)
	}
	e.lists.current.Store(l)
	return l
}

// searches reports whether the endpoint searches unless a client chooses otherwise.
func (e *Endpoint) searches(base *tool.Toolset) bool {
	if e.Agent == "" {
		if err := agents.CheckPins(e.pins(base), base); err != nil {
			e.Logger.Warn("a pinned tool is not listed", zap.String("toolset", e.Toolset.Name), zap.Error(err))
		}
	}
	if e.listing.mode != agents.SearchAuto {
		return e.listing.mode == agents.SearchOn
	}
	tokens := agents.EstimateTokens(base)
	if tokens <= agents.SearchThreshold {
		return false
	}
	e.Logger.Info("the list of tools is long, so clients get tools that search; set search off to list all tools",
		zap.String("toolset", e.Toolset.Name), zap.Int("tools", len(base.Tools())), zap.Int("estimated_tokens", tokens))
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
