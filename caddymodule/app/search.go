package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools"
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

// EmbeddingsModule is the ID of the guest module of the option embeddings. It implements SemanticSearch.
const EmbeddingsModule = "agents.embeddings.openai"

// SemanticSearch finds tools by the meaning of requests.
type SemanticSearch interface {
	// Finder returns the Finder of tools. Previous is that of an earlier version of them, or nil. Warn reports why tools are found by
	// their words only.
	Finder(toolset []*tools.Tool, previous tools.Finder, warn func(error)) tools.Finder
}

// semanticSearch loads the module of the option embeddings. It returns nil if the option is not set.
func (c *ToolsetConfig) semanticSearch(ctx caddy.Context) (SemanticSearch, error) {
	if c.Embeddings == nil {
		return nil, nil
	}
	loaded, err := ctx.LoadModuleByID(EmbeddingsModule, c.Embeddings)
	if err != nil {
		return nil, fmt.Errorf("embeddings: %w", err)
	}
	return loaded.(SemanticSearch), nil
}

// readEmbeddings reads the options of the module.
func (c *ToolsetConfig) readEmbeddings(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	module, err := caddyfile.UnmarshalModule(b.Dispenser, EmbeddingsModule)
	if err == nil {
		c.Embeddings, err = json.Marshal(module)
	}
	return err
}

// finder returns the Finder of a new toolset of the document.
func (d *Document) finder(toolset, previous *tools.Toolset) tools.Finder {
	var before tools.Finder
	if previous != nil {
		before = previous.Finder
	}
	return d.semantic.Finder(toolset.Tools(), before, func(err error) {
		d.logger.Load().Warn("the embeddings server cannot be used; tools are found by their words",
			zap.String("toolset", d.Key.Name), zap.Error(err))
	})
}

// CheckPins returns an error if a name is not the name of a tool. It suggests the nearest one. A tool
// that a lock withholds is no error.
func CheckPins(pins []string, toolset *tools.Toolset) error {
	for _, name := range pins {
		if t, ok := toolset.Tool(name); ok && t.Builtin == "" || toolset.Withheld[name] {
			continue
		}
		if near := toolset.Nearest(name, func(*tools.Tool) bool { return true }); near != "" {
			return fmt.Errorf("pin %s: there is no such tool; did you mean %s?", name, near)
		}
		return fmt.Errorf("pin %s: there is no such tool; caddy tools prints the names", name)
	}
	return nil
}
