package route

import (
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// EndpointOptions points to the configuration that the endpoints of all protocols have.
type EndpointOptions struct {
	Path     *string
	Toolset  *string
	Toolsets *[]string // further toolsets; nil if the handler has one only
	Document **app.ToolsetConfig
	Agent    *string // nil if the protocol does not support the option agent

	ExposeAgents **[]string // nil if the protocol does not support the option expose_agents

	AllowAnonymous *bool
	MaxTokens      *int // nil for a directive that returns no responses to models

	Search *app.SearchMode // nil if the protocol has no search tools
	Pins   *[]string       // nil if the protocol has no search tools
}

// UnmarshalArguments reads [<path>] [<toolset or document>...]. A single argument with the extension of a
// document is a document, even if it begins with a slash.
func (to EndpointOptions) UnmarshalArguments(b *directive.Block) error {
	name := b.Val()
	arguments := b.RemainingArgs()
	onlyDocument := len(arguments) == 1 && LooksLikeDocument(arguments[0])
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "/") && !onlyDocument {
		if err := CheckPath(arguments[0]); err != nil {
			return b.Errf("%s %s: %v", name, arguments[0], err)
		}
		*to.Path, arguments = arguments[0], arguments[1:]
		b.Seen["path"] = true
	}
	if len(arguments) == 0 {
		return nil
	}
	b.Seen["toolset"] = true
	return to.addToolsets(b, name, arguments)
}

// addToolsets sets the first toolset as the main one and appends the others to the further
// ones.
func (to EndpointOptions) addToolsets(b *directive.Block, name string, toolsets []string) error {
	for _, toolset := range toolsets {
		switch {
		case toolset == "":
			return b.Errf("%s: the name of the toolset is empty", name)
		case strings.HasPrefix(toolset, "/") && !LooksLikeDocument(toolset):
			return b.Errf("%s %s: the endpoint's path must be the first argument", name, toolset)
		case toolset == *to.Toolset || slices.Contains(*to.Toolsets, toolset):
			return b.Errf("%s: toolset %s is given twice", name, toolset)
		case *to.Toolset == "":
			*to.Toolset = toolset
		default:
			*to.Toolsets = append(*to.Toolsets, toolset)
		}
	}
	return nil
}

// UnmarshalOption reads the subdirective at the position of b if all protocols have it: path,
// toolset, agent, expose_agents, allow_anonymous, max_tokens, search, pin, and the options of a toolset.
func (to EndpointOptions) UnmarshalOption(b *directive.Block) (known bool, err error) {
	switch b.Val() {
	case "path":
		return true, b.Value(func(text string) error {
			*to.Path = text
			return CheckPath(text)
		})
	case "toolset":
		if to.Toolsets != nil {
			return true, to.unmarshalToolsets(b)
		}
		if err = b.Text(to.Toolset); err == nil && *to.Document != nil {
			err = to.checkSingleDocument(b, *to.Document)
		}
		return true, err
	case "allow_anonymous":
		return true, b.Flag(to.AllowAnonymous)
	case "max_tokens":
		if to.MaxTokens != nil {
			return true, app.ReadMaxTokens(b, to.MaxTokens)
		}
	case "agent":
		if to.Agent != nil {
			return true, b.Text(to.Agent)
		}
	case "expose_agents":
		if to.ExposeAgents != nil {
			return true, unmarshalExposedAgents(b, to.ExposeAgents)
		}
	case "search":
		if to.Search == nil {
			return true, b.Err("search is for mcp endpoints: otc lists tools by page, and clients search with ?query=")
		}
		return true, app.ReadSearch(b, to.Search)
	case "pin":
		if to.Pins == nil {
			return true, b.Err("pin is for mcp endpoints, which can list tools that search")
		}
		return true, b.List(to.Pins)
	}
	config := *to.Document
	if config == nil {
		config = new(app.ToolsetConfig)
	}
	known, err = config.UnmarshalOption(b)
	if known {
		*to.Document = config
	}
	if known && err == nil {
		err = to.checkSingleDocument(b, config)
	}
	return known, err
}

// unmarshalExposedAgents reads the names of the agents that are served as tools.
func unmarshalExposedAgents(b *directive.Block, to **[]string) error {
	if err := b.Once(); err != nil {
		return err
	}
	names := b.RemainingArgs()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return b.Errf("expose_agents: the agent %s is given twice", name)
		}
	}
	if names == nil {
		names = []string{}
	}
	*to = &names
	return nil
}

// unmarshalToolsets reads the option toolset of a handler that can have several.
func (to EndpointOptions) unmarshalToolsets(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	toolsets := b.RemainingArgs()
	if len(toolsets) == 0 {
		return b.ArgErr()
	}
	if err := to.addToolsets(b, "toolset", toolsets); err != nil || *to.Document == nil {
		return err
	}
	return to.checkSingleDocument(b, *to.Document)
}

// Check returns an error if the options of a document are given for several toolsets.
func (to EndpointOptions) Check(b *directive.Block) error {
	if len(*to.Toolsets) > 0 && *to.Document != nil {
		return b.Err("the options of a document cannot be given here for several toolsets; define the toolsets in the agents option")
	}
	return nil
}

// checkSingleDocument returns an error if both a toolset and a document are configured.
func (to EndpointOptions) checkSingleDocument(b *directive.Block, config *app.ToolsetConfig) error {
	if config.OpenAPI == "" || *to.Toolset == "" {
		return nil
	}
	return b.Errf("two documents are given, %s and %s; remove one", app.RedactURL(*to.Toolset), app.RedactURL(config.OpenAPI))
}

// CheckPath returns an error if the path cannot be the path of an endpoint.
func CheckPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return ErrNoSlash
	case strings.ContainsAny(path, "*?#"):
		return errNotPlain
	case LooksLikeDocument(path):
		return errIsDocument
	}
	return nil
}

// LooksLikeDocument reports whether an address has the extension of a document.
func LooksLikeDocument(address string) bool {
	return strings.HasSuffix(address, ".json") || strings.HasSuffix(address, ".yaml") || strings.HasSuffix(address, ".yml")
}
