package mcpadapter

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// A catalog is what is encoded once for a Toolset and then sent as it is.
type catalog struct {
	server   *Server
	tools    *ocp.Toolset
	library  *Library
	login    *Login      // that every caller needs; nil for none
	visible  []*ocp.Tool // those that are listed
	complete []byte      // "resultType":"complete","_meta":{…}, of 2026-07-28
	fresh    []byte      // "ttlMs":…,"cacheScope":…
	stamp    [8]byte
	size     int // tools on a page

	pages   [v20260728 + 1]func() [][]byte // by revision
	shelf   func() *shelf
	digests func() listDigests
}

// catalog returns the catalog of the exchange's Toolset, which is the one kept
// unless the document or the Library changed in between.
func (x *exchange) catalog() *catalog {
	if s := x.server; x.site.Access != nil || x.site.Login != nil {
		return s.lists.catalog(s, x.tools, x.site.Access, x.site.Login)
	}
	return x.wholeCatalog()
}

// wholeCatalog returns the catalog of whoever may see everything, for what is the
// same in all.
func (x *exchange) wholeCatalog() *catalog {
	return x.server.catalogOf(x.tools)
}

func (s *Server) catalogOf(tools *ocp.Toolset) *catalog {
	if c := s.latest.Load(); c != nil && c.tools == tools && c.library == s.library.Load() {
		return c
	}
	c := s.newCatalog(tools, nil)
	s.latest.Store(c)
	return c
}

// restricted are the catalogs of callers that need credentials: tokens that may not
// see everything, and what tools/list says of the credentials.
type restricted struct {
	mu      sync.Mutex
	tools   *ocp.Toolset
	library *Library
	byKey   map[string]*catalog
}

// maxRestricted is how many of them are kept; one is dropped for one more.
const maxRestricted = 64

func (l *restricted) catalog(s *Server, tools *ocp.Toolset, access *Access, login *Login) *catalog {
	key := access.key() + login.key()
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

func (s *Server) newCatalog(tools *ocp.Toolset, access *Access) *catalog {
	c := &catalog{server: s, tools: tools, library: s.library.Load(), size: s.options.PageSize}
	if c.size <= 0 {
		c.size = max(len(tools.Tools()), 1)
	}
	for _, tool := range tools.Tools() {
		if access.missing(tool, tools.SecuritySchemes) == nil && !isHidden(tool) {
			c.visible = append(c.visible, tool)
		}
	}
	c.complete = append(c.complete, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	c.complete = append(s.appendIdentity(c.complete, tools, v20260728), '}')
	if c.fresh = s.appendFreshness(nil); access != nil {
		c.fresh = s.appendPrivateFreshness(nil) // what is listed depends on the token
	}

	sum := sha256.New()
	sum.Write([]byte(tools.Hash + access.key()))
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

// listTools answers with one page: a head that is made now, and kept bytes.
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

// page returns the number of the page that the cursor asks for. No cursor of ours
// is empty, so an empty one is a client's way to send none.
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

func staleCursor() *fault {
	return badParams("params.cursor is not of this list, or the tools have changed since: " +
		"drop what you have and call tools/list again without a cursor")
}

// maxPageBytes is the size from which on a page of tools/list takes no further tool.
const maxPageBytes = 4 << 20

// encode returns the pages of the list, each from "tools" to the end of the
// answer. A page has at most c.size tools and, unless one tool alone takes more, at
// most maxPageBytes.
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

// appendTool appends a tool as tools/list shows it. Where tools have no title
// yet, their annotations do.
//
// The annotations say what HTTP promises of the method and no more. GET, HEAD
// and OPTIONS are read-only. Every other method may destroy something: a POST
// may well be a cancellation, and clients that are not told assume the worst as
// well. Whether an API reaches beyond itself is not known, so its world counts
// as open.
func (s *Server) appendTool(dst []byte, tool *ocp.Tool, v revision) []byte {
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

// cursor names a page of this list and of no other: the list's stamp and the
// page's number.
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
