package mcp

import (
	"maps"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/idempotency"
	"github.com/fairwayhq/fairway/caddymodule/route"
)

func init() {
	httpcaddyfile.RegisterDirective("mcp", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, newHandler())
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
//		keep_alive         <duration>|off
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
//		events [{
//			errors sketch | sep-3415
//			allow_private_receivers
//		}]
//		idempotency        off | argument
//		idempotency {
//			ttl      <duration>
//			max_size <size>
//			lease    <duration>
//			secret   <text>
//		}
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
//		skills <directory> {
//			scopes <scopes...>
//		}
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
		Idempotency: func(b *directive.Block) error { return idempotency.Read(b, &m.Idempotency) },
	}
	if err := shared.UnmarshalArguments(b); err != nil {
		return err
	}
	options := shared.Options(b)
	maps.Copy(options, m.subdirectives(b))
	maps.Copy(options, directive.Options{
		"name":           directive.To(b.Text, &m.Name),
		"title":          directive.To(b.Text, &m.Title),
		"version":        directive.To(b.Text, &m.Version),
		"instructions":   directive.To(b.Text, &m.Instructions),
		"origins":        directive.To(b.List, &m.AllowedOrigins),
		"hosts":          directive.To(b.List, &m.AllowedHosts),
		"page_size":      directive.To(b.Count, &m.PageSize),
		"max_body":       directive.To(b.Size, &m.MaxBody),
		"versions":       func() error { return b.Each(&m.Versions, checkVersion) },
		"secret":         func() error { return b.ReadSecrets(&m.Secret, &m.PreviousSecret) },
		"session_ttl":    directive.To(b.Period, &m.SessionTTL),
		"max_streams":    directive.To(b.Positive, &m.MaxStreams),
		"keep_alive":     directive.To(b.Duration, &m.KeepAlive),
		"ask_timeout":    directive.To(b.Period, &m.AskTimeout),
		"task_after":     directive.To(b.Period, &m.TaskAfter),
		"task_ttl":       directive.To(b.Period, &m.TaskTTL),
		"watch_interval": directive.To(b.Period, &m.WatchInterval),
		"watch_rate":     directive.To(b.Positive, &m.WatchRate),
		"list_ttl":       directive.To(b.Duration, &m.ListTTL),
		"public_lists":   directive.To(b.Flag, &m.PublicLists),
		"tool_scopes":    func() error { return b.OneOf(&m.ToolScopes, toolScopes...) },
		"output_schema":  func() error { return b.OneOf((*string)(&m.OutputSchema), outputSchemas...) },
	})
	maps.Copy(options, directive.PartOptions(b, m.parts...))
	if err := b.Read("mcp", options); err != nil {
		return err
	}
	return shared.Check(b)
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
