package caddymodule

import "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

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
//	}
//
// The matcher is * or @name: a first argument that begins with a slash is the
// endpoint's path, unless it is the only one and ends in
// .json, .yaml or .yml: then it is the document. origins, hosts, include and exclude may be repeated.
func (m *MCP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := newBlock(d)
	shared := reference{path: &m.Path, toolset: &m.Toolset, document: &m.Document}
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
	}
	return b.Errf("unrecognized mcp subdirective '%s'", b.Val())
}

// Interface guard
var _ caddyfile.Unmarshaler = (*MCP)(nil)
