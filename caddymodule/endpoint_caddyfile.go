package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterDirective("mcp", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return parseEndpoint(h, new(MCP))
	})
	httpcaddyfile.RegisterDirective("otc", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return parseEndpoint(h, new(OTC))
	})
}

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
	document **ToolsetConfig
}

// unmarshalArguments reads [<path>] [<toolset or document>]. An only argument
// that ends like a document's name is one, though it begins with a slash.
func (to reference) unmarshalArguments(b *block) error {
	directive := b.Val()
	arguments := b.RemainingArgs()
	if len(arguments) > 2 {
		return b.Errf("%s takes a path and a toolset or document, not %d arguments", directive, len(arguments))
	}
	onlyDocument := len(arguments) == 1 && looksLikeDocument(arguments[0])
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "/") && !onlyDocument {
		if err := checkPath(arguments[0]); err != nil {
			return b.Errf("%s %s: %v", directive, arguments[0], err)
		}
		*to.path, arguments = arguments[0], arguments[1:]
		b.seen["path"] = true
	}
	switch len(arguments) {
	case 2:
		return b.Errf("%s %s: the first of two arguments is the endpoint's path and begins with a slash", directive, arguments[0])
	case 1:
		if arguments[0] == "" {
			return b.Errf("%s: the toolset is empty", directive)
		}
		*to.toolset = arguments[0]
		b.seen["toolset"] = true
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
		if err = b.text(to.toolset); err == nil && *to.document != nil {
			err = to.checkOne(b, *to.document)
		}
		return true, err
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
