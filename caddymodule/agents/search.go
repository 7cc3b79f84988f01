package agents

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// SearchMode says whether an endpoint lists tools that search, instead of all tools.
type SearchMode string

// The modes. "" means that the option is not set.
const (
	SearchAuto SearchMode = "auto" // above SearchThreshold
	SearchOn   SearchMode = "on"
	SearchOff  SearchMode = "off"
)

// SearchThreshold is the estimated size of the list of tools, in tokens, above which an endpoint with
// SearchAuto searches.
const SearchThreshold = 25_000

// searchModes are the modes that can be configured.
var searchModes = []string{string(SearchAuto), string(SearchOn), string(SearchOff)}

// Check returns an error if the mode is unknown.
func (m SearchMode) Check() error {
	if m == "" || slices.Contains(searchModes, string(m)) {
		return nil
	}
	return fmt.Errorf("search %q is unknown; use %s", m, strings.Join(searchModes, " or "))
}

// ReadSearch reads the value of the option search.
func ReadSearch(b *directive.Block, to *SearchMode) error {
	return b.OneOf((*string)(to), searchModes...)
}

// CheckPins returns an error if a name is not the name of a tool. It suggests the nearest one. A tool
// that a lock withholds is no error.
func CheckPins(pins []string, tools *tool.Toolset) error {
	for _, name := range pins {
		if t, ok := tools.Tool(name); ok && t.Builtin == "" || tools.Withheld[name] {
			continue
		}
		near := nearest.Name(name, func(yield func(string) bool) {
			for _, t := range tools.Tools() {
				if !yield(t.Name) {
					return
				}
			}
		})
		if near != "" {
			return fmt.Errorf("pin %s: there is no such tool; did you mean %s?", name, near)
		}
		return fmt.Errorf("pin %s: there is no such tool; caddy tools prints the names", name)
	}
	return nil
}
