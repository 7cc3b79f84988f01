package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// endpointHandler is a handler that the directive of a tool protocol sets up.
type endpointHandler interface {
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}

// parseEndpoint sets up a handler and its route. Unlike other handler directives
// these take a first argument with a slash for the handler's own path, as the
// handler knows by itself which requests are its own; * and named matchers stand
// where they stand elsewhere.
func parseEndpoint(h httpcaddyfile.Helper, handler endpointHandler) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // consume directive name
	isPath := h.NextArg() && strings.HasPrefix(h.Val(), "/")
	h.Reset()
	var matchers caddy.ModuleMap
	if !isPath {
		h.Next()
		var err error
		if matchers, err = h.ExtractMatcherSet(); err != nil {
			return nil, h.WrapErr(err)
		}
	}
	if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(matchers, handler), nil
}

// reference is the part of an endpoint's configuration that all protocols share.
type reference struct {
	path     *string
	toolset  *string
	toolsets *[]string // further toolsets; nil if the protocol takes one only
	document **ToolsetConfig
	agent    *string // nil if the protocol does not narrow its lists

	allowAnonymous *bool
}

// unmarshalArguments reads [<path>] [<toolset or document>], where the protocol
// takes several with more of these. An only argument that ends like a document's
// name is one, though it begins with a slash.
func (to reference) unmarshalArguments(b *block) error {
	name := b.Val()
	arguments := b.RemainingArgs()
	if to.toolsets != nil {
		return to.unmarshalSeveral(b, name, arguments)
	}
	if len(arguments) > 2 {
		return b.Errf("%s takes a path and a toolset or document, not %d arguments", name, len(arguments))
	}
	onlyDocument := len(arguments) == 1 && looksLikeDocument(arguments[0])
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "/") && !onlyDocument {
		if err := checkPath(arguments[0]); err != nil {
			return b.Errf("%s %s: %v", name, arguments[0], err)
		}
		*to.path, arguments = arguments[0], arguments[1:]
		b.seen["path"] = true
	}
	switch len(arguments) {
	case 2:
		return b.Errf("%s %s: the first of two arguments is the endpoint's path and begins with a slash", name, arguments[0])
	case 1:
		if arguments[0] == "" {
			return b.Errf("%s: the toolset is empty", name)
		}
		*to.toolset = arguments[0]
		b.seen["toolset"] = true
	}
	return nil
}

// unmarshalSeveral reads the arguments of a protocol that takes several toolsets.
func (to reference) unmarshalSeveral(b *block, name string, arguments []string) error {
	onlyDocument := len(arguments) == 1 && looksLikeDocument(arguments[0])
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "/") && !onlyDocument {
		if err := checkPath(arguments[0]); err != nil {
			return b.Errf("%s %s: %v", name, arguments[0], err)
		}
		*to.path, arguments = arguments[0], arguments[1:]
		b.seen["path"] = true
	}
	if len(arguments) == 0 {
		return nil
	}
	b.seen["toolset"] = true
	return to.addToolsets(b, name, arguments)
}

// addToolsets takes the first of the toolsets for the one that every protocol
// has, and the others for those beside it.
func (to reference) addToolsets(b *block, name string, toolsets []string) error {
	for _, toolset := range toolsets {
		switch {
		case toolset == "":
			return b.Errf("%s: the toolset is empty", name)
		case strings.HasPrefix(toolset, "/") && !looksLikeDocument(toolset):
			return b.Errf("%s %s: the endpoint's path begins with a slash and is the first argument", name, toolset)
		case toolset == *to.toolset || slices.Contains(*to.toolsets, toolset):
			return b.Errf("%s: toolset %s is given twice", name, toolset)
		case *to.toolset == "":
			*to.toolset = toolset
		default:
			*to.toolsets = append(*to.toolsets, toolset)
		}
	}
	return nil
}

// unmarshalOption reads the subdirective at which b stands if all protocols have
// it: path, toolset and those of a toolset.
func (to reference) unmarshalOption(b *block) (known bool, err error) {
	switch b.Val() {
	case "path":
		return true, b.value(func(text string) error {
			*to.path = text
			return checkPath(text)
		})
	case "toolset":
		if to.toolsets != nil {
			return true, to.unmarshalToolsets(b)
		}
		if err = b.text(to.toolset); err == nil && *to.document != nil {
			err = to.checkOne(b, *to.document)
		}
		return true, err
	case "allow_anonymous":
		return true, b.flag(to.allowAnonymous)
	case "agent":
		if to.agent != nil {
			return true, b.text(to.agent)
		}
	}
	config := *to.document
	if config == nil {
		config = new(ToolsetConfig)
	}
	known, err = config.unmarshalOption(b)
	if known {
		*to.document = config
	}
	if known && err == nil {
		err = to.checkOne(b, config)
	}
	return known, err
}

// unmarshalToolsets reads toolset of a protocol that takes several.
func (to reference) unmarshalToolsets(b *block) error {
	if err := b.once(); err != nil {
		return err
	}
	toolsets := b.RemainingArgs()
	if len(toolsets) == 0 {
		return b.ArgErr()
	}
	if err := to.addToolsets(b, "toolset", toolsets); err != nil || *to.document == nil {
		return err
	}
	return to.checkOne(b, *to.document)
}

// checkOne refuses a toolset and a document of its own beside it.
func (to reference) checkOne(b *block, config *ToolsetConfig) error {
	if config.OpenAPI == "" || *to.toolset == "" {
		return nil
	}
	return b.Errf("two documents, %s and %s: give one", withoutSecrets(*to.toolset), withoutSecrets(config.OpenAPI))
}

// checkPath refuses what is no path of an endpoint.
func checkPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return errNoSlash
	case strings.ContainsAny(path, "*?#"):
		return errNotPlain
	case looksLikeDocument(path):
		return errIsDocument
	}
	return nil
}

// looksLikeDocument reports whether an address ends as those of documents do.
func looksLikeDocument(address string) bool {
	return strings.HasSuffix(address, ".json") || strings.HasSuffix(address, ".yaml") || strings.HasSuffix(address, ".yml")
}
