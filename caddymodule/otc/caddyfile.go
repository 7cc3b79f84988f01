package otc

import (
	"errors"
	"maps"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/idempotency"
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
		AllowAnonymous: &o.AllowAnonymous, MaxTokens: &o.MaxTokens, Idempotency: func(b *directive.Block) error { return idempotency.Read(b, &o.Idempotency) },
	}
	if err := shared.UnmarshalArguments(b); err != nil {
		return err
	}
	options := shared.Options(b)
	maps.Copy(options, directive.Options{
		"toolkit": directive.To(b.Text, &o.Toolkit),
		"version": func() error {
			return b.Value(func(text string) error {
				o.Version = text
				return otcadapter.CheckVersion(text)
			})
		},
		"max_body": directive.To(b.Size, &o.MaxBody),
		"requirements": func() error {
			return b.Value(func(text string) error {
				if o.NoRequirements = text == "off"; !o.NoRequirements {
					return errors.New("the only value is off; without the option, the document's requirements apply")
				}
				return nil
			})
		},
		"developer_messages": directive.To(b.Flag, &o.DeveloperMessages),
		"poll":               directive.To(b.Period, &o.Poll),
		"health_upstream":    directive.To(b.Text, &o.HealthUpstream),
		"authorization_url":  func() error { return o.unmarshalAuthorizationURL(b) },
	})
	if err := b.Read("otc", options); err != nil {
		return err
	}
	return shared.Check(b)
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

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
