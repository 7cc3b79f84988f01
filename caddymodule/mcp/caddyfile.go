package mcp

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
)

func init() {
	httpcaddyfile.RegisterDirective("mcp", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	mcp [<matcher>] [<path>] [<toolset>|<file, URL or path on the site>...] {
//		path         <path>
//		toolset      <toolset>|<file, URL or path on the site>...
//		name         <name>
//		title        <text>
//		version      <text>
//		instructions <text>
//		origins      <origins...>
//		hosts        <hosts...>
//		page_size    <tools>
//		search       auto | on | off
//		pin          <tools...>
//		max_body     <size>
//
//		versions           <revisions...>
//		secret             <text> [<previous>]
//		session_ttl        <duration>
//		max_streams        <streams>
//		keep_alive         <duration>
//		ask_timeout        <duration>
//		task_after         <duration>
//		task_ttl           <duration>
//		watch_interval     <duration>
//		watch_rate         <requests a second>
//		list_ttl           <duration> | off
//		public_lists
//		output_schema      off | loose | strict
//		tool_scopes        document | off
//		agent              <name>
//		expose_agents      [<agents...>]
//		allow_anonymous
//		max_tokens         <tokens> | off
//		discovery {
//			name <reverse DNS name>
//			url  <URL of the endpoint>
//		}
//
//		# resources, prompts and apps:
//		resource  <uri> <file> {
//			name | title | description | mime_type <text>
//		}
//		resources <folder> [<uri prefix>]
//		resources get all | tag <values...> | operation <values...> | path <values...>
//		prompts   <file>
//		app <ui://...> <file> {
//			tools <names...>
//			name | title | description | domain | invoking | invoked <text>
//			csp {
//				connect | resource | frame <origins...>
//			}
//			prefers_border [on | off]
//			widget_accessible
//			visibility model | app
//		}
//		locales <tags...>
//		hint user_agent | location <header>
//		max_resource <size>
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
//		timeout      <duration> | off
//		max_response <size>
//		token_budget <tokens> | off
//		fields       on | off
//		credential   header <name> <value> | query <name> <value> | basic <user> <password>
//		forward_headers <headers...>
//		non_inferrable <arguments...>
//	}
//
// The matcher is * or @name. A first argument that begins with a slash is the endpoint's path.
// Exception: if it is the only argument and ends in .json, .yaml or .yml, it is the document.
// origins, hosts, versions, include and exclude may be repeated.
func (m *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := directive.NewBlock(d)
	shared := route.EndpointOptions{
		Path: &m.Path, Toolset: &m.Toolset, Toolsets: &m.Toolsets, Document: &m.Document, Agent: &m.Agent, ExposeAgents: &m.ExposeAgents,
		AllowAnonymous: &m.AllowAnonymous, MaxTokens: &m.MaxTokens, Search: &m.Search, Pins: &m.Pins,
	}
	if err := shared.UnmarshalArguments(b); err != nil {
		return err
	}
	for b.NextBlock(0) {
		known, err := shared.UnmarshalOption(b)
		if !known {
			err = m.unmarshalOption(b)
		}
		if err != nil {
			return err
		}
	}
	return shared.Check(b)
}

// unmarshalOption reads one option of the directive.
func (m *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "name":
		return b.Text(&m.Name)
	case "title":
		return b.Text(&m.Title)
	case "version":
		return b.Text(&m.Version)
	case "instructions":
		return b.Text(&m.Instructions)
	case "origins":
		return b.List(&m.AllowedOrigins)
	case "hosts":
		return b.List(&m.AllowedHosts)
	case "page_size":
		return b.Count(&m.PageSize)
	case "max_body":
		return b.Size(&m.MaxBody)
	case "versions":
		return b.Each(&m.Versions, checkVersion)
	case "secret":
		return m.unmarshalSecret(b)
	case "session_ttl":
		return b.Period(&m.SessionTTL)
	case "max_streams":
		return b.Positive(&m.MaxStreams)
	case "keep_alive":
		return b.Period(&m.KeepAlive)
	case "ask_timeout":
		return b.Period(&m.AskTimeout)
	case "task_after":
		return b.Period(&m.TaskAfter)
	case "task_ttl":
		return b.Period(&m.TaskTTL)
	case "watch_interval":
		return b.Period(&m.WatchInterval)
	case "watch_rate":
		return b.Positive(&m.WatchRate)
	case "list_ttl":
		return b.Duration(&m.ListTTL)
	case "public_lists":
		return b.Flag(&m.PublicLists)
	case "tool_scopes":
		return b.OneOf(&m.ToolScopes, toolScopes...)
	case "output_schema":
		return b.OneOf((*string)(&m.OutputSchema), outputSchemas...)
	case "discovery":
		return m.unmarshalDiscovery(b)
	}
	if known, err := m.unmarshalLibrary(b); known {
		return err
	}
	return b.Unrecognized("mcp")
}

// unmarshalDiscovery reads the block of discovery.
func (m *Handler) unmarshalDiscovery(outer *directive.Block) error {
	if err := outer.Once(); err != nil {
		return err
	}
	if outer.NextArg() {
		return outer.ArgErr()
	}
	m.Discovery = new(Discovery)
	b := directive.NewBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		var err error
		switch b.Val() {
		case "name":
			err = b.Value(func(text string) error {
				m.Discovery.Name = text
				return checkCardName(text)
			})
		case "url":
			err = b.Value(func(text string) error {
				m.Discovery.URL = text
				return checkCardURL(text)
			})
		default:
			err = b.Unrecognized("discovery")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
