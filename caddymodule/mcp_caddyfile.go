package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	httpcaddyfile.RegisterDirective("mcp", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return parseEndpoint(h, new(MCP))
	})
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	mcp [<matcher>] [<path>] [<toolset>|<file, URL or path on the site>] {
//		path         <path>
//		toolset      <toolset>|<file, URL or path on the site>
//		name         <name>
//		title        <text>
//		version      <text>
//		instructions <text>
//		origins      <origins...>
//		hosts        <hosts...>
//		page_size    <tools>
//		max_body     <size>
//
//		versions           <revisions...>
//		secret             <text>
//		session_ttl        <duration>
//		max_streams        <streams>
//		max_client_streams <streams>
//		keep_alive         <duration>
//		ask_timeout        <duration>
//		watch_interval     <duration>
//		watch_rate         <requests a second>
//		list_ttl           <duration> | off
//		public_lists
//		output_schema      off | loose | strict
//		tool_scopes        document | off
//		agent              <name>
//		allow_anonymous
//		discovery {
//			name <reverse DNS name>
//			url  <URL of the endpoint>
//		}
//
//		# what is offered beside the tools:
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
//		# of a document that is no toolset of the agents option:
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
//		credential   header <name> <value> | query <name> <value> | basic <user> <password>
//		non_inferrable <arguments...>
//	}
//
// The matcher is * or @name: a first argument that begins with a slash is the
// endpoint's path, unless it is the only one and ends in
// .json, .yaml or .yml: then it is the document. origins, hosts, versions, include and exclude may be repeated.
func (m *MCP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := newBlock(d)
	shared := reference{path: &m.Path, toolset: &m.Toolset, document: &m.Document, agent: &m.Agent,
		allowAnonymous: &m.AllowAnonymous}
	if err := shared.unmarshalArguments(b); err != nil {
		return err
	}
	for b.NextBlock(0) {
		known, err := shared.unmarshalOption(b)
		if !known {
			err = m.unmarshalOption(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *MCP) unmarshalOption(b *block) error {
	switch b.Val() {
	case "name":
		return b.text(&m.Name)
	case "title":
		return b.text(&m.Title)
	case "version":
		return b.text(&m.Version)
	case "instructions":
		return b.text(&m.Instructions)
	case "origins":
		return b.list(&m.Origins)
	case "hosts":
		return b.list(&m.Hosts)
	case "page_size":
		return b.count(&m.PageSize)
	case "max_body":
		return b.size(&m.MaxBody)
	case "versions":
		return b.each(&m.Versions, checkVersion)
	case "secret":
		return b.text(&m.Secret)
	case "session_ttl":
		return b.period(&m.SessionTTL)
	case "max_streams":
		return b.positive(&m.MaxStreams)
	case "max_client_streams":
		return b.positive(&m.MaxClientStreams)
	case "keep_alive":
		return b.period(&m.KeepAlive)
	case "ask_timeout":
		return b.period(&m.AskTimeout)
	case "watch_interval":
		return b.period(&m.WatchInterval)
	case "watch_rate":
		return b.positive(&m.WatchRate)
	case "list_ttl":
		return b.duration(&m.ListTTL)
	case "public_lists":
		return b.flag(&m.PublicLists)
	case "tool_scopes":
		return b.oneOf(&m.ToolScopes, toolScopes...)
	case "output_schema":
		return b.oneOf(&m.OutputSchema, outputSchemas...)
	case "discovery":
		return m.unmarshalDiscovery(b)
	}
	if known, err := m.unmarshalLibrary(b); known {
		return err
	}
	return b.unrecognized("mcp")
}

func (m *MCP) unmarshalDiscovery(outer *block) error {
	if err := outer.once(); err != nil {
		return err
	}
	if outer.NextArg() {
		return outer.ArgErr()
	}
	m.Discovery = new(MCPDiscovery)
	b := newBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		var err error
		switch b.Val() {
		case "name":
			err = b.value(func(text string) error {
				m.Discovery.Name = text
				return checkCardName(text)
			})
		case "url":
			err = b.value(func(text string) error {
				m.Discovery.URL = text
				return checkCardURL(text)
			})
		default:
			err = b.unrecognized("discovery")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*MCP)(nil)
