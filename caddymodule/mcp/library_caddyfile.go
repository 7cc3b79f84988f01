package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools/build"
)

// subdirectives are those of the library. Syntax:
//
//	resource <uri> <file> {
//		name        <text>
//		title       <text>
//		description <text>
//		mime_type   <type>
//		scopes      <scopes...>
//	}
//	resources <folder> [<uri prefix>] {
//		scopes <scopes...>
//	}
//	resources get all
//	resources get tag | operation | path <values...>
//	prompts   <file>
//	skills <directory> {
//		scopes <scopes...>
//	}
//	app <ui://...> <file> {
//		tools       <names...>
//		name        <text>
//		title       <text>
//		description <text>
//		csp {
//			connect  <origins...>
//			resource <origins...>
//			frame    <origins...>
//		}
//		domain         <origin>
//		prefers_border [on | off]
//		invoking       <text>
//		invoked        <text>
//		widget_accessible
//		visibility     model | app ...
//	}
//	locales <tags...>
//	hint user_agent | location <header>
//	max_resource <size>
//
// prompts and max_resource may be given once. The others may be repeated.
func (l *Library) subdirectives(b *directive.Block) directive.Options {
	options := directive.Options{
		"resource":     func() error { return l.unmarshalResource(b) },
		"resources":    func() error { return l.unmarshalResources(b) },
		"prompts":      directive.To(b.Text, &l.Prompts),
		"skills":       func() error { return readSkills(b, &l.Skills) },
		"app":          func() error { return l.unmarshalApp(b) },
		"locales":      directive.To(b.List, &l.Locales),
		"hint":         func() error { return readHint(b, &l.Hints) },
		"max_resource": directive.To(b.Size, &l.MaxFile),
	}
	for name, read := range options {
		options[name] = func() error {
			start := *b.Dispenser // errors refer to the first line
			if err := read(); err != nil {
				return err
			}
			if err := l.check(); err != nil {
				return start.WrapErr(err)
			}
			return nil
		}
	}
	return options
}

// check returns the errors that can be found without reading files.
func (l *Library) check() error {
	without := *l
	without.Folders = nil
	_, err := library.NewLibrary(without.options())
	return err
}

// unmarshalResource reads the arguments and the block of resource.
func (l *Library) unmarshalResource(b *directive.Block) error {
	var r library.Resource
	if !b.AllArgs(&r.URI, &r.File) {
		return b.Err("resource needs a URI and a file, as in: resource docs:///fares fares.md")
	}
	inner := directive.NewBlock(b.Dispenser)
	err := inner.Read("resource", directive.Options{
		"name":        directive.To(inner.Text, &r.Name),
		"title":       directive.To(inner.Text, &r.Title),
		"description": directive.To(inner.Text, &r.Description),
		"mime_type":   directive.To(inner.Text, &r.MIMEType),
		"scopes":      directive.To(inner.List, &r.Scopes),
	})
	if err != nil {
		return err
	}
	l.Resources = append(l.Resources, r)
	return nil
}

// unmarshalResources reads a folder, or a selector of operations. A folder named get is written
// ./get.
func (l *Library) unmarshalResources(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) == 0 {
		return b.Err("resources needs a folder or a selector of operations, as in: resources get tag stations")
	}
	if arguments[0] == "get" {
		return l.unmarshalOperations(b, arguments[1:])
	}
	if len(arguments) > 2 {
		return b.Err("resources takes a folder and the prefix of the URIs of its files")
	}
	f := library.Folder{Path: arguments[0]}
	if len(arguments) == 2 {
		f.Prefix = arguments[1]
	}
	if slices.ContainsFunc(l.Folders, func(o library.Folder) bool { return o.Path == f.Path && o.Prefix == f.Prefix }) {
		return b.Errf("resources %s is given twice", f.Path)
	}
	inner := directive.NewBlock(b.Dispenser)
	if err := inner.Read("resources", directive.Options{"scopes": directive.To(inner.List, &f.Scopes)}); err != nil {
		return err
	}
	l.Folders = append(l.Folders, f)
	return nil
}

// unmarshalOperations reads the selector after `resources get`.
func (l *Library) unmarshalOperations(b *directive.Block, arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "all" {
		arguments = []string{"path", "**"}
	}
	if len(arguments) < 2 {
		return b.Err("resources get needs tag, operation or path, and one or more values, as in: resources get tag stations, or resources get all")
	}
	for _, value := range app.SelectorValues(arguments[0], arguments[1:]) {
		s := build.Selector{By: arguments[0], Value: value}
		if err := s.Check(); err != nil {
			return b.Errf("resources get: %v", err)
		}
		if slices.Contains(l.Operations, s) {
			return b.Errf("resources get %s is given twice", s)
		}
		l.Operations = append(l.Operations, s)
	}
	return nil
}

// unmarshalApp reads the arguments and the block of app.
func (l *Library) unmarshalApp(b *directive.Block) error {
	var a library.App
	if !b.AllArgs(&a.URI, &a.File) {
		return b.Err("app needs a URI and a file, as in: app ui://trips/board.html board.html")
	}
	inner := directive.NewBlock(b.Dispenser)
	if err := inner.Read("app", appOptions(inner, &a)); err != nil {
		return err
	}
	l.Apps = append(l.Apps, a)
	return nil
}

// appOptions are the subdirectives of app.
func appOptions(b *directive.Block, a *library.App) directive.Options {
	return directive.Options{
		"tools":       directive.To(b.List, &a.Tools),
		"name":        directive.To(b.Text, &a.Name),
		"title":       directive.To(b.Text, &a.Title),
		"description": directive.To(b.Text, &a.Description),
		"csp":         func() error { return readPolicy(b, a) },
		"domain":      directive.To(b.Text, &a.Domain),
		"prefers_border": func() error {
			a.PrefersBorder = new(bool)
			return b.Toggle(a.PrefersBorder)
		},
		"invoking":          directive.To(b.Text, &a.Invoking),
		"invoked":           directive.To(b.Text, &a.Invoked),
		"widget_accessible": directive.To(b.Flag, &a.WidgetAccessible),
		"visibility": func() error {
			return b.Each(&a.Visibility, func(who string) error {
				if who != "model" && who != "app" {
					return fmt.Errorf("%s is not valid; use model or app", who)
				}
				return nil
			})
		},
	}
}

// readPolicy reads the block of csp.
func readPolicy(b *directive.Block, a *library.App) error {
	if err := b.Once(); err != nil {
		return err
	}
	if b.NextArg() {
		return b.ArgErr()
	}
	return b.Read("csp", directive.Options{
		"connect":  directive.To(b.List, &a.ConnectDomains),
		"resource": directive.To(b.List, &a.ResourceDomains),
		"frame":    directive.To(b.List, &a.FrameDomains),
	})
}

var errHint = errors.New("hint needs user_agent or location, and the name of a header, as in: hint user_agent X-Client-Agent, or hint location X-Client-Location")

// readHint reads a hint and its header.
func readHint(b *directive.Block, hints *library.Hints) error {
	var hint, header string
	complete := b.AllArgs(&hint, &header)
	to := map[string]*string{"user_agent": &hints.UserAgent, "location": &hints.Location}[hint]
	switch {
	case !complete || to == nil:
		return b.WrapErr(errHint)
	case *to != "":
		return b.Errf("hint %s is given twice", hint)
	}
	*to = header
	return nil
}
