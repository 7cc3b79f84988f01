package mcpadapter

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A catalog holds everything that is encoded once for a Toolset and then sent unchanged.
type catalog struct {
	server   *Server
	tools    *tool.Toolset
	library  *Library
	login    *Login       // login that every caller needs; nil for none
	visible  []*tool.Tool // tools that are listed
	complete []byte       // `"resultType":"complete","_meta":{…}` of 2026-07-28
	fresh    []byte       // `"ttlMs":…,"cacheScope":…`
	stamp    [8]byte
	size     int // tools per page

	pages   [v20260728 + 1]func() [][]byte // encoded pages by revision
	shelf   func() *shelf
	digests func() listDigests
}

// catalog returns the catalog for the caller and the exchange's Toolset. It is cached until the
// document or the Library changes.
func (x *exchange) catalog() *catalog {
	if s := x.server; x.site.Access != nil || x.site.Login != nil {
		return s.lists.catalog(s, x.tools, x.site.Access, x.site.Login)
	}
	return x.wholeCatalog()
}

// wholeCatalog returns the unrestricted catalog, for everything that does not depend on the caller.
func (x *exchange) wholeCatalog() *catalog {
	return x.server.catalogOf(x.tools)
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
	library *Library
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
	if c.size <= 0 {
		c.size = max(len(tools.Tools()), 1)
	}
	for _, tool := range tools.Tools() {
		if access.Missing(tool, tools.SecuritySchemes) == nil && !isHidden(tool) {
			c.visible = append(c.visible, tool)
		}
	}
	c.complete = append(c.complete, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	c.complete = append(s.appendIdentity(c.complete, tools, v20260728), '}')
	if c.fresh = s.appendFreshness(nil); access != nil {
		c.fresh = s.appendPrivateFreshness(nil) // the list depends on the token
	}

	sum := sha256.New()
	sum.Write([]byte(tools.Hash + accessKey(access)))
	sum.Write(c.library.hash[:])
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(c.size)))
	copy(c.stamp[:], sum.Sum(nil))

	for v := range c.pages {
		c.pages[v] = sync.OnceValue(func() [][]byte { return c.encode(revision(v)) })
	}
	c.digests = sync.OnceValue(c.digest)
	c.shelf = sync.OnceValue(func() *shelf { return newShelf(c.library, tools, access) })
	return c
}

// listTools serves tools/list: it writes the head of the response, followed by the encoded page.
func (x *exchange) listTools() *fault {
	c := x.catalog()
	pages := c.pages[x.version]
	page, f := x.page(c)
	if f != nil {
		return f
	}
	if page >= len(pages()) {
		return staleCursor()
	}
	b := x.begin()
	if x.version.selfDescribing() {
		b = append(append(b, c.complete...), ',')
		b = append(append(b, c.fresh...), ',')
	}
	x.out.B = b
	x.kept = pages()[page]
	return nil
}

// page returns the number of the page for the request's cursor. Some clients send an empty cursor
// for the first page; cursors of this server are never empty.
func (x *exchange) page(c *catalog) (int, *fault) {
	switch x.params.cursor.Kind() {
	case 0, 'n':
		return 0, nil
	case '"':
	default:
		return 0, badParams("params.cursor must be a string, not %s", wire.KindName(x.params.cursor.Kind()))
	}
	cursor := text(x.params.cursor)
	if cursor == "" {
		return 0, nil
	}
	page, ok := c.page(cursor)
	if !ok {
		return 0, staleCursor()
	}
	return page, nil
}

// staleCursor returns the fault for a cursor of another or a changed list.
func staleCursor() *fault {
	return badParams("params.cursor is not of this list, or the tools have changed since: " +
		"drop what you have and call tools/list again without a cursor")
}

// maxPageBytes is the size, in bytes, at which a page of tools/list ends.
const maxPageBytes = 4 << 20

// encode returns the pages of tools/list, each from "tools" to the end of the response. A page has
// at most c.size tools and at most maxPageBytes, unless a single tool is larger.
func (c *catalog) encode(v revision) [][]byte {
	var pages [][]byte
	var tool []byte
	page, count := []byte(`"tools":[`), 0
	for _, t := range c.visible {
		tool = c.decorate(c.server.appendTool(tool[:0], t, v), t, v)
		if count == c.size || count > 0 && len(page)+len(tool) > maxPageBytes {
			page = wire.AppendString(append(page, `],"nextCursor":`...), c.cursor(len(pages)+1))
			pages = append(pages, bytes.Clone(append(page, "}}"...)))
			page, count = append(page[:0], `"tools":[`...), 0
		}
		if count > 0 {
			page = append(page, ',')
		}
		page = append(page, tool...)
		count++
	}
	return append(pages, bytes.Clone(append(page, "]}}"...)))
}

// appendTool appends a tool as tools/list returns it. In revisions where tools have no title, the
// annotations contain it.
//
// The annotations state only what HTTP guarantees for the method (MCP, Tools, ToolAnnotations):
//
//   - GET, HEAD and OPTIONS are read-only.
//   - All other methods may be destructive: a POST can be a cancellation. Clients assume the same by default.
//   - openWorldHint is always true, because it is unknown whether the API uses other systems.
func (s *Server) appendTool(dst []byte, tool *tool.Tool, v revision) []byte {
	dst = wire.AppendString(append(dst, `{"name":`...), tool.Name)
	if v.titles() && tool.Title != "" {
		dst = wire.AppendString(append(dst, `,"title":`...), tool.Title)
	}
	dst = wire.AppendString(append(dst, `,"description":`...), tool.Description)
	dst = appendVisibleSchema(append(dst, `,"inputSchema":`...), tool)
	dst = s.appendOutputSchema(dst, tool, v)
	if !v.annotates() {
		return append(dst, '}')
	}
	dst = append(dst, `,"annotations":{`...)
	if !v.titles() && tool.Title != "" {
		dst = append(wire.AppendString(append(dst, `"title":`...), tool.Title), ',')
	}
	dst = appendHint(dst, `"readOnlyHint":`, tool.ReadOnly())
	dst = appendHint(dst, `,"destructiveHint":`, !tool.ReadOnly())
	dst = appendHint(dst, `,"idempotentHint":`, tool.Idempotent())
	dst = appendHint(dst, `,"openWorldHint":`, true)
	return append(dst, "}}"...)
}

func appendHint(dst []byte, name string, hint bool) []byte {
	dst = append(dst, name...)
	if hint {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// cursor returns the cursor for a page: the catalog's stamp and the page number. The stamp makes it
// invalid for other catalogs.
func (c *catalog) cursor(page int) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(c.stamp[:], uint32(page)))
}

// page is the inverse of cursor.
func (c *catalog) page(cursor string) (int, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(c.stamp)+4 || string(raw[:len(c.stamp)]) != string(c.stamp[:]) {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(raw[len(c.stamp):])), true
}
