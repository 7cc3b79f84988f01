package mcpadapter

import (
	"io"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// newCatalog returns an unrestricted catalog that is not cached.
func (s *Server) newCatalog(toolset *tools.Toolset) *catalog.Catalog {
	return catalog.New(&s.catalogs.Options, toolset, s.library.Load(), nil, nil)
}

// SetLibrary replaces the Library; nil removes it. Call Notify afterwards to inform listening
// clients.
func (s *Server) SetLibrary(l *library.Library) {
	if l == nil {
		l = new(library.Library)
	}
	s.library.Store(l)
}

// LibraryScopes returns the scopes that the files and prompts of the Library need.
func (s *Server) LibraryScopes() []string { return s.library.Load().Scopes }

// Warnings returns warnings about parts of the document and of the Library that cannot be used as
// they are.
func (s *Server) Warnings(toolset *tools.Toolset) []tools.Warning {
	return library.NewIndex(s.library.Load(), toolset, nil).Warnings()
}

// Changes returns which lists differ between two Toolsets, and so which notifications clients need
// when after replaces before.
func (s *Server) Changes(before, after *tools.Toolset) (c Change) {
	if before == after {
		return 0
	}
	return s.newCatalog(before).Digests().Changes(s.newCatalog(after).Digests())
}

// successor returns the digests of the Server that replaces this one.
func (s *Server) successor() (d session.Digests, ok bool) {
	next := s.next.Load()
	if next == nil {
		return d, false
	}
	return next.current()
}

// current returns the digests of the Server's current tools. ok is false if they are not loaded yet.
func (s *Server) current() (d session.Digests, ok bool) {
	if s.options.Current == nil {
		return d, false
	}
	toolset := s.options.Current()
	if toolset == nil {
		return d, false
	}
	return s.catalogOf(toolset).Digests(), true
}

// WriteTools writes the result of tools/list as one page, {"tools":[…]}, in the newest enabled
// revision with initialize. Each tool is on a line of its own and is written before the next one is
// encoded.
func (s *Server) WriteTools(out io.Writer, toolset *tools.Toolset) error {
	c, v := s.newCatalog(toolset), s.enabled.NewestStateful()
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
