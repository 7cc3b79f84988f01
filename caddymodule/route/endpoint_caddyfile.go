package route

import (
	"errors"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/text"
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

	Idempotency func(*directive.Block) error // reads the option idempotency; nil if calls are not recorded

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

// Options are the subdirectives that all protocols have: path, toolset, agent, expose_agents, allow_anonymous,
// max_tokens, search, pin, and the options of a toolset.
func (to EndpointOptions) Options(b *directive.Block) directive.Options {
	config := *to.Document
	if config == nil {
		config = new(app.ToolsetConfig)
	}
	options := config.Options(b)
	for name, read := range options {
		options[name] = func() error {
			*to.Document = config
			if err := read(); err != nil {
				return err
			}
			return to.checkSingleDocument(b)
		}
	}
	options["path"] = func() error {
		return b.Value(func(path string) error {
			*to.Path = path
			return CheckPath(path)
		})
	}
	options["toolset"] = func() error { return to.unmarshalToolsets(b) }
	options["allow_anonymous"] = directive.To(b.Flag, to.AllowAnonymous)
	if to.MaxTokens != nil {
		options["max_tokens"] = func() error { return app.ReadMaxTokens(b, to.MaxTokens) }
	}
	if to.Agent != nil {
		options["agent"] = directive.To(b.Text, to.Agent)
	}
	if argument := options["idempotency"]; to.Idempotency != nil {
		options["idempotency"] = func() error {
			if b.NextArg() {
				isArgument := b.Val() == "argument" // an option of the toolset
				if b.Prev(); isArgument {
					return argument()
				}
			}
			return to.Idempotency(b)
		}
	}
	if to.ExposeAgents != nil {
		options["expose_agents"] = func() error { return unmarshalExposedAgents(b, to.ExposeAgents) }
	}
	options["search"] = func() error {
		if to.Search == nil {
			return b.Err("search is for mcp endpoints: otc lists tools by page, and clients search with ?query=")
		}
		return app.ReadSearch(b, to.Search)
	}
	options["pin"] = func() error {
		if to.Pins == nil {
			return b.Err("pin is for mcp endpoints, which can list tools that search")
		}
		return b.List(to.Pins)
	}
	return options
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

// unmarshalToolsets reads the option toolset.
func (to EndpointOptions) unmarshalToolsets(b *directive.Block) error {
	if to.Toolsets == nil {
		if err := b.Text(to.Toolset); err != nil {
			return err
		}
		return to.checkSingleDocument(b)
	}
	if err := b.Once(); err != nil {
		return err
	}
	toolsets := b.RemainingArgs()
	if len(toolsets) == 0 {
		return b.ArgErr()
	}
	if err := to.addToolsets(b, "toolset", toolsets); err != nil {
		return err
	}
	return to.checkSingleDocument(b)
}

// Check returns an error if the options of a document are given for several toolsets.
func (to EndpointOptions) Check(b *directive.Block) error {
	if len(*to.Toolsets) > 0 && *to.Document != nil {
		return b.Err("the options of a document cannot be given here for several toolsets; define the toolsets in the agents option")
	}
	return nil
}

// checkSingleDocument returns an error if both a toolset and a document are configured.
func (to EndpointOptions) checkSingleDocument(b *directive.Block) error {
	config := *to.Document
	if config == nil || config.OpenAPI == "" || *to.Toolset == "" {
		return nil
	}
	return b.Errf("two documents are given, %s and %s; remove one", text.RedactURL(*to.Toolset), text.RedactURL(config.OpenAPI))
}

// CheckPath returns an error if the path cannot be the path of an endpoint.
func CheckPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return ErrNoSlash
	case strings.ContainsAny(path, "*?#"):
		return errors.New("the path of an endpoint must not contain *, ? or #; the paths below it are included anyway")
	case LooksLikeDocument(path):
		return errors.New("the endpoint's path must be given before the document, as in: mcp /mcp /openapi.json")
	}
	return nil
}

// LooksLikeDocument reports whether an address has the extension of a document.
func LooksLikeDocument(address string) bool {
	return strings.HasSuffix(address, ".json") || strings.HasSuffix(address, ".yaml") || strings.HasSuffix(address, ".yml")
}
