package oagent

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/identity"
)

func init() {
	httpcaddyfile.RegisterDirective("oagent", parseOAgent)
}

// parseOAgent sets up the handler and its route. As usual, a first argument that begins with a
// slash is a matcher. Exception: if it ends in .yaml, .yml or .json, it is a file.
func parseOAgent(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // consume directive name
	isFile := h.NextArg() && strings.HasPrefix(h.Val(), "/") && route.LooksLikeDocument(h.Val())
	h.Reset()
	var matchers caddy.ModuleMap
	if !isFile {
		h.Next()
		var err error
		if matchers, err = h.ExtractMatcherSet(); err != nil {
			return nil, h.WrapErr(err)
		}
	}
	o := newHandler()
	if err := o.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(matchers, o), nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	oagent [<matcher>] <files...> {
//		guard          <agent's name, of placeholders>
//		engagement     <id, of placeholders>
//		identity <name> {
//			header_up  <header> <value>
//			credential header | query <name> <value>
//			credential basic <user> <password>
//		}
//		identity <name> header_up <header> <value>
//		identity <name> credential header | query | basic <name> <value>
//		forward_headers <headers...>
//		undeclared     refuse | allow
//		toolset        <toolset>|<file, URL or path on the site>...
//		review_wait    <duration> | off
//		engagement_ttl <duration>
//		max_input      <size>
//		max_output     <size>
//		max_recorded   <size>
//		exposes        header | off
//		serve          <path>
//		engagements    <path>
//		reviews        <path>
//		auditors       <users...>
//		originals      [<users...>] {
//			secret     <secret> [<secret before>]
//		}
//		reviewer       <name> {
//			people     <users...> [after <duration>]
//			may_edit
//		}
//		reviewer       <agent> [<users...>] {
//			ask        <url>
//			header     <name> <value>
//			credential header | query <name> <value>
//			credential basic <user> <password>
//			timeout    <duration>
//		}
//		notify         webhook | slack | smtp ...
//		chat           [<paths...>] {
//			upstream    <url>
//			roles       system | developer | assistant | tool...
//			allow_media
//			max_input   <size>
//			max_output  <size>
//			keep_alive  <duration> | off
//		}
//		model          openai | openai_responses | anthropic | scripted [<agents...>] {
//			<options of the provider>
//		}
//		limits [<agents...>] {
//			turns       <number>
//			tokens      <number>
//			context     <number>
//			time        <duration>
//			ask_user    on | off
//			summarize   on | off
//		}
//		budget {
//			user        [<id>] <tokens> | cost <amount>
//			group       <name> <tokens> | cost <amount>
//			agent       [<name>] <tokens> | cost <amount>
//			total       <tokens> | cost <amount>
//		}
//		prices {
//			<model> <input> <output> [<cached>]
//		}
//		workers        <number>
//		accept         [<path>] {
//			by           <users...>
//			capabilities <references...>
//			identities   <names...>
//		}
//		remote_agents  <hosts...> {
//			header_up   <header> <value>
//			credential  header | query <name> <value>
//			credential  basic <user> <password>
//			forward_caller
//			allow_private_addresses
//			trusted_ca  <files...>
//			timeout     <duration>
//		}
//		log_inputs     <arguments...>
//		log_only       [<agent>[/<capability>|/guardrails]...]
//	}
//
// identity, forward_headers, toolset, auditors, reviewer, model, remote_agents, log_inputs and log_only
// may be repeated. header_up is credential header.
func (o *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	for _, file := range b.RemainingArgs() {
		switch {
		case file == "":
			return b.Err("file name is empty")
		case slices.Contains(o.Files, file):
			return b.Errf("%s is given twice", file)
		}
		o.Files = append(o.Files, file)
	}
	if len(o.Files) == 0 {
		return b.Err("oagent needs the file of an agent's document, as in: oagent agents/support.yaml")
	}
	return b.Read("oagent", directive.PartOptions(b, o.allParts()...))
}

// Options implements directive.Part.
func (own *ownOptions) Options(b *directive.Block) directive.Options {
	o := (*Handler)(own)
	return directive.Options{
		"guard":           directive.To(b.Text, &o.Guard),
		"engagement":      directive.To(b.Text, &o.Engagement),
		"identity":        func() error { return o.unmarshalIdentity(b) },
		"forward_headers": func() error { return b.Each(&o.ForwardHeaders, httpheader.CheckForwarded) },
		"undeclared":      func() error { return b.OneOf(&o.Undeclared, undeclaredRefuse, undeclaredAllow) },
		"toolset":         directive.To(b.List, &o.Toolsets),
		"review_wait":     directive.To(b.Duration, &o.ReviewWait),
		"engagement_ttl":  directive.To(b.Period, &o.EngagementTTL),
		"max_input":       directive.To(b.Size, &o.MaxInput),
		"max_output":      directive.To(b.Size, &o.MaxOutput),
		"max_recorded": func() error {
			if err := b.Size(&o.MaxRecorded); err != nil {
				return err
			}
			if err := checkMaxRecorded(o.MaxRecorded); err != nil {
				return b.Errf("max_recorded %s: %v", b.Val(), err)
			}
			return nil
		},
		"exposes":     func() error { return b.OneOf(&o.Exposes, exposesHeader, exposesOff) },
		"serve":       func() error { return unmarshalPath(o, b, &o.Serve) },
		"engagements": func() error { return unmarshalPath(o, b, &o.Engagements) },
		"reviews":     func() error { return unmarshalPath(o, b, &o.Reviews) },
		"auditors":    func() error { return b.Each(&o.Auditors, identity.CheckEntry) },
		"reviewer":    func() error { return o.unmarshalReviewer(b) },
		"originals":   func() error { return o.unmarshalOriginals(b) },
		"notify": func() error {
			notifier, err := b.Guest("oagent.notifiers", "notifier")
			o.NotifiersRaw = append(o.NotifiersRaw, notifier)
			return err
		},
		"log_inputs": directive.To(b.List, &o.LogInputs),
		"log_only":   directive.To(o.LogOnly.unmarshal, b),
	}
}

// unmarshalReviewer parses the configuration of a reviewing agent, or of people who review.
func (o *Handler) unmarshalReviewer(b *directive.Block) error {
	name, reviewer, err := reviewers.UnmarshalBlock(b, func(name string) bool { return o.Reviewers[name] != nil })
	if err != nil {
		return err
	}
	if o.Reviewers == nil {
		o.Reviewers = make(map[string]*reviewers.Agent)
	}
	o.Reviewers[name] = reviewer
	return nil
}

// unmarshalPath parses the path of one of the handler's endpoints.
func unmarshalPath(o *Handler, b *directive.Block, to *string) error {
	if err := readEndpointPath(b, to); err != nil {
		return err
	}
	if err := o.checkEndpointPaths(); err != nil {
		return b.WrapErr(err)
	}
	return nil
}

// readEndpointPath parses a path of the site that the handler serves itself.
func readEndpointPath(b *directive.Block, to *string) error {
	return b.Value(func(text string) error {
		*to = text
		if strings.Trim(text, "/") == "" {
			return errors.New("the path / is the whole site: use a path of its own")
		}
		return route.CheckPath(text)
	})
}

// unmarshalIdentity parses an identity. Its credentials are in a block. A single credential
// may be on the same line instead.
func (o *Handler) unmarshalIdentity(outer *directive.Block) error {
	if !outer.NextArg() || outer.Val() == "" {
		return outer.Err("identity needs the name that static_identity has in the agent's document")
	}
	name := outer.Val()
	if _, twice := o.Identities[name]; twice {
		return outer.Errf("identity %s is given twice", name)
	}
	static := new(StaticIdentity)
	if outer.NextArg() {
		if err := outer.ReadOption("identity", identityOptions(outer, &static.Credentials)); err != nil {
			return err
		}
	}
	onLine := len(static.Credentials) > 0
	b := directive.NewBlock(outer.Dispenser)
	if onLine && b.NextBlock(b.Nesting()) {
		return b.Errf("identity %s has a credential on its line and a block: put all of them into the block", name)
	}
	if err := b.Read("identity", identityOptions(b, &static.Credentials)); err != nil {
		return err
	}
	if len(static.Credentials) == 0 {
		return outer.Errf("identity %s has no credentials: add header_up or credential", name)
	}
	if o.Identities == nil {
		o.Identities = make(map[string]*StaticIdentity)
	}
	o.Identities[name] = static
	return nil
}

// identityOptions are the credentials of an identity.
func identityOptions(b *directive.Block, to *[]json.RawMessage) directive.Options {
	return directive.Options{
		"header_up":  func() error { return credential.ReadHeader(b, "header_up", to) },
		"credential": func() error { return credential.Read(b, to) },
	}
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
