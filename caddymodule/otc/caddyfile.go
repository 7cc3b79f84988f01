package otc

import (
	"errors"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/otcadapter"
)

func init() {
	httpcaddyfile.RegisterDirective("otc", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	otc [<matcher>] [<path>] [<toolset>|<file, URL or path on the site>...] {
//		path               <path>
//		toolset            <toolset>|<file, URL or path on the site>...
//		toolkit            <name>
//		version            <x.y.z>
//		max_body           <size>
//		idempotency        off
//		idempotency {
//			ttl      <duration>
//			max_size <size>
//			lease    <duration>
//			secret   <text>
//		}
//		requirements       off
//		developer_messages
//		health_upstream    <path>
//		poll               <duration>
//		authorization_url  <security scheme> <URL>
//		agent              <name>
//		expose_agents      [<agents...>]
//		allow_anonymous
//		max_tokens         <tokens> | off
//
//		# for a document that is not a toolset of the agents option, see ToolsetConfig:
//		openapi            <file, URL or path on the site>
//		…
//	}
//
// The matcher is * or @name. A first argument that begins with a slash is the path of the
// endpoints. Exception: if it is the only argument and ends in .json, .yaml or .yml, it is the
// document. authorization_url may be repeated.
func (o *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	shared := route.EndpointOptions{
		Path: &o.Path, Toolset: &o.Toolset, Toolsets: &o.Toolsets, Document: &o.Document, Agent: &o.Agent, ExposeAgents: &o.ExposeAgents,
		AllowAnonymous: &o.AllowAnonymous, MaxTokens: &o.MaxTokens,
	}
	if err := shared.UnmarshalArguments(b); err != nil {
		return err
	}
	for b.NextBlock(0) {
		known, err := shared.UnmarshalOption(b)
		if !known {
			err = o.unmarshalOption(b)
		}
		if err != nil {
			return err
		}
	}
	return shared.Check(b)
}

// unmarshalOption reads one option of the directive.
func (o *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "toolkit":
		return b.Text(&o.Toolkit)
	case "version":
		if err := b.Text(&o.Version); err != nil {
			return err
		}
		if err := otcadapter.CheckVersion(o.Version); err != nil {
			return b.WrapErr(err)
		}
		return nil
	case "max_body":
		return b.Size(&o.MaxBody)
	case "idempotency":
		return o.unmarshalIdempotency(b)
	case "requirements":
		return b.Value(func(text string) error {
			if o.NoRequirements = text == "off"; !o.NoRequirements {
				return errors.New("the only value is off; without the option, the document's requirements apply")
			}
			return nil
		})
	case "developer_messages":
		if err := b.Once(); err != nil {
			return err
		}
		o.DeveloperMessages = true
		if b.NextArg() {
			return b.ArgErr()
		}
		return nil
	case "poll":
		return b.Period(&o.Poll)
	case "health_upstream":
		return b.Text(&o.HealthUpstream)
	case "authorization_url":
		return o.unmarshalAuthorizationURL(b)
	}
	return b.Unrecognized("otc")
}

// unmarshalAuthorizationURL reads the id of a requirement and its URL.
func (o *Handler) unmarshalAuthorizationURL(b *directive.Block) error {
	var id, url string
	if !b.AllArgs(&id, &url) {
		return b.Err("authorization_url needs the name of a security scheme and a URL")
	}
	if _, twice := o.AuthorizationURLs[id]; twice {
		return b.Errf("authorization_url of %s is given twice", id)
	}
	if o.AuthorizationURLs == nil {
		o.AuthorizationURLs = make(map[string]string)
	}
	o.AuthorizationURLs[id] = url
	return nil
}

// unmarshalIdempotency reads `idempotency off` or the block of idempotency.
func (o *Handler) unmarshalIdempotency(outer *directive.Block) error {
	if err := outer.Once(); err != nil {
		return err
	}
	config := new(Idempotency)
	o.Idempotency = config
	switch arguments := outer.RemainingArgs(); {
	case len(arguments) == 1 && arguments[0] == "off":
		config.Off = true
	case len(arguments) > 0:
		return outer.Err("idempotency takes off or a block of options")
	}
	b := directive.NewBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		var err error
		switch b.Val() {
		case "ttl":
			err = b.Duration(&config.TTL)
		case "max_size":
			err = b.Size(&config.MaxSize)
		case "lease":
			err = b.Duration(&config.Lease)
		case "secret":
			err = b.Text(&config.Secret)
		default:
			err = b.Unrecognized("idempotency")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
