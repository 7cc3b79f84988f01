package ocp

import (
	"errors"
	"maps"
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
	options := route.EndpointOptions{Toolset: &h.Toolset, Document: &h.Document}.Options(b)
	for name := range strings.FieldsSeq("path timeout max_response token_budget search pin embeddings allow_anonymous allow allow_log_only credential forward_headers inspect max_tokens fields mcp_server send_mismatches") {
		delete(options, name) // of tool endpoints
	}
	maps.Copy(options, directive.Options{
		"enhance":        func() error { return h.unmarshalEnhance(b) },
		"lists":          func() error { return h.unmarshalLists(b) },
		"enhance_errors": directive.To(b.Flag, &h.Errors),
		"max_enhanced":   directive.To(b.Size, &h.MaxEnhanced),
		"forward":        func() error { return b.OneOf(&h.Forward, forwardHeaders, forwardStrip, forwardJSON) },
		"reply": func() error {
			reply := ""
			err := b.OneOf(&reply, "on", "off")
			h.NoReply = reply == "off"
			return err
		},
		"log":     func() error { return h.unmarshalLog(b) },
		"strict":  directive.To(b.Flag, &h.Strict),
		"require": directive.To(b.Flag, &h.Require),
		"discovery": func() error {
			return b.Value(func(text string) error {
				h.Discovery = text
				return checkDiscoveryPath(text)
			})
		},
	})
	return b.Read("ocp", options)
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
