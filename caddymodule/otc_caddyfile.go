package caddymodule

import "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	otc [<matcher>] [<path>] [<toolset>|<file, URL or path on the site>] {
//		path         <path>
//		toolset      <toolset>|<file, URL or path on the site>
//		toolkit      <name>
//		version      <text>
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
// The matcher is * or @name: a first argument that begins with a slash is the path
// below which the endpoints are, unless it is the only one and ends in .json, .yaml
// or .yml: then it is the document. include and exclude may be repeated.
func (o *OTC) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	b := newBlock(d)
	shared := reference{path: &o.Path, toolset: &o.Toolset, document: &o.Document}
	if err := shared.unmarshalArguments(b); err != nil {
		return err
	}
	for b.NextBlock(0) {
		known, err := shared.unmarshalOption(b)
		if !known {
			err = o.unmarshalOption(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *OTC) unmarshalOption(b *block) error {
	switch b.Val() {
	case "toolkit":
		return b.text(&o.Toolkit)
	case "version":
		return b.text(&o.Version)
	case "max_body":
		return b.size(&o.MaxBody)
	}
	return b.Errf("unrecognized otc subdirective '%s'", b.Val())
}

// Interface guard
var _ caddyfile.Unmarshaler = (*OTC)(nil)
