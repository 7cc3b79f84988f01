package ocp

import (
	"errors"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("ocp", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	ocp [<matcher>] {
//		toolset      <toolset>|<file, URL or path on the site>
//		enhance      <property> <expression> [declared]
//		lists        each | leave | wrap [<property>]
//		enhance_errors
//		max_enhanced <size>
//		forward      headers | strip | json
//		reply        on | off
//		log          <fields...>
//		strict
//		require
//		discovery    <path>
//
//		# for a document that is not a toolset of the agents option:
//		openapi      <file, URL or path on the site>
//		refresh      <duration> | off
//		refs         <directory>
//		include      tag | operation | path | method <values...>
//		exclude      tag | operation | path | method <values...>
//		schemas      auto | inline | defs
//		base_path    <path>
//		max_document <size>
//	}
//
// enhance, log, include and exclude may be repeated. The other options may be given once.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if d.NextArg() {
		return d.Errf("ocp takes only a matcher; to set the toolset, write 'toolset %s' in its block", d.Val())
	}
	b := directive.NewBlock(d)
	for b.NextBlock(0) {
		if err := h.unmarshalOption(b); err != nil {
			return err
		}
	}
	return nil
}

// unmarshalOption reads one option of the directive.
func (h *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "enhance":
		return h.unmarshalEnhance(b)
	case "lists":
		return h.unmarshalLists(b)
	case "enhance_errors":
		return b.Flag(&h.Errors)
	case "max_enhanced":
		return b.Size(&h.MaxEnhanced)
	case "forward":
		return b.OneOf(&h.Forward, forwardHeaders, forwardStrip, forwardJSON)
	case "reply":
		reply := ""
		err := b.OneOf(&reply, "on", "off")
		h.NoReply = reply == "off"
		return err
	case "log":
		return h.unmarshalLog(b)
	case "strict":
		return b.Flag(&h.Strict)
	case "require":
		return b.Flag(&h.Require)
	case "discovery":
		return b.Value(func(text string) error {
			h.Discovery = text
			return checkDiscoveryPath(text)
		})
	case "path", "timeout", "max_response", "token_budget", "search", "pin", "embeddings": // options of tool endpoints
	default:
		options := route.EndpointOptions{Toolset: &h.Toolset, Document: &h.Document}
		if known, err := options.UnmarshalOption(b); known {
			return err
		}
	}
	return b.Unrecognized("ocp")
}

// unmarshalEnhance reads <property> <expression> [declared].
func (h *Handler) unmarshalEnhance(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) < 2 || len(arguments) > 3 {
		return b.Err("enhance needs a property and one quoted expression, as in: enhance next_actions \"['retry']\"")
	}
	e := enhance.Property{Name: arguments[0], Expression: arguments[1], Declared: len(arguments) == 3}
	if e.Declared && arguments[2] != "declared" {
		return b.Errf("enhance %s: '%s' after the expression is unknown; only 'declared' is allowed there; quote the whole expression", e.Name, arguments[2])
	}
	if slices.ContainsFunc(h.Enhance, func(known enhance.Property) bool { return known.Name == e.Name }) {
		return b.Errf("enhance %s is given twice", e.Name)
	}
	if _, err := enhance.Compile([]enhance.Property{{Name: e.Name, Expression: e.Expression}}, enhance.Options{}); err != nil {
		return b.Errf("enhance: %v", err)
	}
	h.Enhance = append(h.Enhance, e)
	return nil
}

// unmarshalLists reads each, leave or wrap [<property>].
func (h *Handler) unmarshalLists(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	arguments := b.RemainingArgs()
	maxArguments := 1
	if len(arguments) > 0 && arguments[0] == string(enhance.WrapList) {
		maxArguments = 2
	}
	if len(arguments) == 0 || len(arguments) > maxArguments {
		return b.ArgErr()
	}
	h.Lists = enhance.Lists(arguments[0])
	if len(arguments) == 2 {
		h.Wrap = arguments[1]
	}
	if _, err := enhance.Compile(nil, h.Options); err != nil {
		return b.Errf("%v", err)
	}
	return nil
}

// unmarshalLog reads the fields to log.
func (h *Handler) unmarshalLog(b *directive.Block) error {
	before := len(h.Log)
	if err := b.List(&h.Log); err != nil {
		return err
	}
	for _, name := range h.Log[before:] {
		if err := checkField(name); err != nil {
			return b.Errf("log %s: %v", name, err)
		}
	}
	return nil
}

// checkDiscoveryPath returns an error if the path cannot be that of a document.
func checkDiscoveryPath(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" || strings.ContainsAny(path, "*?#") {
		return errors.New("it must be a path of the site without wildcards, such as /openapi.json")
	}
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
