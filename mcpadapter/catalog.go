package mcpadapter

import (
	"fmt"
	"io"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// catalogOf returns the unrestricted catalog of a Toolset.
func (s *Server) catalogOf(tools *tool.Toolset) *catalog.Catalog {
	return s.catalogs.Shared(tools, s.library.Load())
}

// newCatalog returns an unrestricted catalog that is not cached.
func (s *Server) newCatalog(tools *tool.Toolset) *catalog.Catalog {
	return catalog.New(&s.catalogs.Options, tools, s.library.Load(), nil, nil)
}

// SetLibrary replaces the Library; nil removes it. Call Notify afterwards to inform listening
// clients.
func (s *Server) SetLibrary(l *library.Library) {
	if l == nil {
		l = new(library.Library)
	}
	s.library.Store(l)
}

// Warnings returns warnings about parts of the document and of the Library that cannot be used as
// they are.
func (s *Server) Warnings(tools *tool.Toolset) []tool.Warning {
	return library.NewIndex(s.library.Load(), tools, nil).Warnings()
}

// Changes returns which lists differ between two Toolsets, and so which notifications clients need
// when after replaces before.
func (s *Server) Changes(before, after *tool.Toolset) (c Change) {
	if before == after {
		return 0
	}
	was, is := s.newCatalog(before), s.newCatalog(after)
	for _, list := range []struct {
		change Change
		text   func(*catalog.Catalog) string
	}{
		{ToolsChanged, func(c *catalog.Catalog) string { return fmt.Sprintf("%s", c.Pages(revision.V20260728)) }},
		{PromptsChanged, func(c *catalog.Catalog) string { return string(c.Index().AppendPrompts(nil)) }},
		{ResourcesChanged, func(c *catalog.Catalog) string { return string(c.Index().AppendResources(nil)) }},
	} {
		if list.text(was) != list.text(is) {
			c |= list.change
		}
	}
	return c
}

// successor returns the digests of the Server that replaces this one.
func (s *Server) successor() (d subscription.Digests, ok bool) {
	next := s.next.Load()
	if next == nil {
		return d, false
	}
	return next.current()
}

// current returns the digests of the Server's current tools. ok is false if they are not loaded yet.
func (s *Server) current() (d subscription.Digests, ok bool) {
	if s.options.Current == nil {
		return d, false
	}
	tools := s.options.Current()
	if tools == nil {
		return d, false
	}
	return s.catalogOf(tools).Digests(), true
}

// WriteTools writes the result of tools/list as one page, {"tools":[…]}, in the newest enabled
// revision with initialize. Each tool is on a line of its own and is written before the next one is
// encoded.
func (s *Server) WriteTools(out io.Writer, tools *tool.Toolset) error {
	c, v := s.newCatalog(tools), s.enabled.NewestStateful()
	b := []byte(`{"tools":[`)
	for i, tool := range c.Visible {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.AppendTool(append(b, '\n'), tool, v)
		if _, err := out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := out.Write(append(b, "\n]}\n"...))
	return err
}
