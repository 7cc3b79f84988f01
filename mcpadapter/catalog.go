package mcpadapter

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A catalog holds everything that is encoded once for a Toolset and then sent unchanged.
type catalog struct {
	server   *Server
	tools    *tool.Toolset
	library  *library.Library
	hints    bool         // whether calls carry hints of the client to the API
	login    *Login       // login that every caller needs; nil for none
	visible  []*tool.Tool // tools that are listed
	complete []byte       // `"resultType":"complete","_meta":{…}` of 2026-07-28
	fresh    []byte       // `"ttlMs":…,"cacheScope":…`
	stamp    [8]byte
	size     int // tools per page

	pages     [revision.V20260728 + 1]func() [][]byte // encoded pages by revision
	index     func() *library.Index
	callables func() map[string]*callable // all tools of the Toolset by name
	digests   func() subscription.Digests
}

// catalog returns the catalog for the caller and the message's Toolset. It is cached until the
// document or the Library changes.
func (m *message) catalog() *catalog {
	if s := m.server; m.site.Access != nil || m.site.Login != nil {
		return s.lists.catalog(s, m.tools, m.site.Access, m.site.Login)
	}
	return m.wholeCatalog()
}

// wholeCatalog returns the unrestricted catalog, for everything that does not depend on the caller.
func (m *message) wholeCatalog() *catalog {
	return m.server.catalogOf(m.tools)
}

// catalogOf returns the unrestricted catalog of a Toolset. It caches one catalog, the latest.
func (s *Server) catalogOf(tools *tool.Toolset) *catalog {
	if c := s.latest.Load(); c != nil && c.tools == tools && c.library == s.library.Load() {
		return c
	}
	c := s.newCatalog(tools, nil)
	s.latest.Store(c)
	return c
}

// restricted caches the catalogs of authenticated callers. They differ in the tools that the token
// allows and in the securitySchemes that tools/list declares.
type restricted struct {
	mu      sync.Mutex
	tools   *tool.Toolset
	library *library.Library
	byKey   map[string]*catalog
}

// maxRestricted is the maximum number of cached catalogs. A further one replaces another.
const maxRestricted = 64

// catalog returns the cached catalog for the credentials, or a new one.
func (l *restricted) catalog(s *Server, tools *tool.Toolset, access *Access, login *Login) *catalog {
	key := accessKey(access) + login.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	if library := s.library.Load(); l.tools != tools || l.library != library {
		l.tools, l.library, l.byKey = tools, library, make(map[string]*catalog)
	}
	c := l.byKey[key]
	if c == nil {
		for other := range l.byKey {
			if len(l.byKey) < maxRestricted {
				break
			}
			delete(l.byKey, other)
		}
		c = s.newCatalog(tools, access)
		c.login = login
		l.byKey[key] = c
	}
	return c
}

// newCatalog returns a catalog of the tools that the access token allows. It encodes nothing yet:
// pages, digests and the shelf are computed on first use.
func (s *Server) newCatalog(tools *tool.Toolset, access *Access) *catalog {
	c := &catalog{server: s, tools: tools, library: s.library.Load(), size: s.options.PageSize}
	c.hints = c.library.HasHints()
	if c.size <= 0 {
		c.size = max(len(tools.Tools()), 1)
	}
	for _, tool := range tools.Tools() {
		if access.Missing(tool, tools.SecuritySchemes) == nil && !library.IsHidden(tool) {
			c.visible = append(c.visible, tool)
		}
	}
	c.complete = append(c.complete, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	c.complete = append(s.appendIdentity(c.complete, tools, revision.V20260728), '}')
	if c.fresh = s.appendFreshness(nil); access != nil {
		c.fresh = s.appendPrivateFreshness(nil) // the list depends on the token
	}

	sum := sha256.New()
	sum.Write([]byte(tools.Hash + accessKey(access)))
	sum.Write(c.library.Hash[:])
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(c.size)))
	copy(c.stamp[:], sum.Sum(nil))

	for v := range c.pages {
		c.pages[v] = sync.OnceValue(func() [][]byte { return c.encode(revision.Revision(v)) })
	}
	c.callables = sync.OnceValue(func() map[string]*callable { return s.callables(tools) })
	c.digests = sync.OnceValue(c.digest)
	c.index = sync.OnceValue(func() *library.Index { return library.NewIndex(c.library, tools, access) })
	return c
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
	was, is := s.newCatalog(before, nil), s.newCatalog(after, nil)
	for _, list := range []struct {
		change Change
		text   func(*catalog) string
	}{
		{ToolsChanged, func(c *catalog) string { return fmt.Sprintf("%s", c.encode(revision.V20260728)) }},
		{PromptsChanged, func(c *catalog) string { return string(c.index().AppendPrompts(nil)) }},
		{ResourcesChanged, func(c *catalog) string { return string(c.index().AppendResources(nil)) }},
	} {
		if list.text(was) != list.text(is) {
			c |= list.change
		}
	}
	return c
}
