// Package catalog holds what an MCP server computes once for a toolset and then sends unchanged: the
// pages of tools/list, the server's identity, and what a call needs to know about each tool.
//
// A Cache has the catalog that all callers share, and those of callers whose access token or login
// changes what they may see. A catalog encodes nothing before it is needed.
package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// Options are the options of mcpadapter.Options that concern lists.
type Options struct {
	Name, Title, Version string
	Instructions         string
	PageSize             int // tools per page; 0 for as many as fit
	ListTTL              time.Duration
	PublicLists          bool
	OutputSchema         content.OutputMode
	Tasks                bool // whether calls can be tasks
	ToolMeta             func(*tools.Tool) (name string, value []byte)
}

// A Catalog holds everything that is encoded once for a Toolset and then sent unchanged.
type Catalog struct {
	Tools    *tools.Toolset
	Library  *library.Library
	Hints    bool          // whether calls carry hints of the client to the API
	Visible  []*tools.Tool // tools that are listed
	Complete []byte        // `"resultType":"complete","_meta":{…}` of 2026-07-28
	Fresh    []byte        // `"ttlMs":…,"cacheScope":…` of lists
	Stamp    [8]byte       // changes with the lists

	options *Options
	login   *Login // login that every caller needs; nil for none
	mixed   bool   // callers may log in, and need not
	size    int    // tools per page

	pages     [protocol.V20260728 + 1]func() [][]byte // encoded pages by revision
	index     func() *library.Index
	callables func() map[string]*Callable // all tools of the Toolset by name
	digests   func() session.Digests
}

// Pages returns the pages of tools/list in a revision, each from "tools" to the end of the response.
func (c *Catalog) Pages(v protocol.Revision) [][]byte { return c.pages[v]() }

// Index returns the resources and prompts.
func (c *Catalog) Index() *library.Index { return c.index() }

// Callable returns the tool with that name, or nil if it does not exist. Hidden tools exist too. A tool of an MCP server
// also has the server's own name.
func (c *Catalog) Callable(name string) *Callable {
	if found := c.callables()[name]; found != nil {
		return found
	}
	if t, ok := c.Tools.Tool(name); ok {
		return c.callables()[t.Name]
	}
	return nil
}

// CallableNamed is Callable for a JSON string. It also returns the name. For a known tool that is the
// tool's own string, which saves an allocation.
func (c *Catalog) CallableNamed(raw jsontext.Value) (*Callable, string) {
	if bytes.IndexByte(raw, '\\') < 0 {
		if t := c.callables()[string(raw[1:len(raw)-1])]; t != nil {
			return t, t.Tool.Name
		}
	}
	name := strictjson.Text(raw)
	t := c.Callable(name)
	if t != nil {
		name = t.Tool.Name
	}
	return t, name
}

// Digests returns the digests of the lists.
func (c *Catalog) Digests() session.Digests { return c.digests() }

// New returns a catalog of the tools that the access token allows. It encodes nothing yet:
// pages, digests and the index are computed on first use.
func New(o *Options, toolset *tools.Toolset, l *library.Library, access *tools.Access, login *Login) *Catalog {
	c := &Catalog{options: o, Tools: toolset, Library: l, login: login, mixed: login == nil && access != nil, size: o.PageSize}
	c.Hints = c.Library.HasHints()
	if c.size <= 0 {
		c.size = max(len(toolset.Listed()), 1)
	}
	for _, tool := range toolset.Listed() {
		if access.Missing(tool, toolset) == nil && !library.IsHidden(tool) {
			c.Visible = append(c.Visible, tool)
		}
	}
	if len(c.Visible) == 1 && c.Visible[0].Builtin == tools.NextPage {
		c.Visible = nil // no tool whose response could have a next page
	}
	c.Complete = append(c.Complete, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	c.Complete = append(c.AppendIdentity(c.Complete, protocol.V20260728), '}')
	_, narrowed := toolset.Whole()
	c.Fresh = c.appendFreshness(nil, o.PublicLists && access == nil && !narrowed) // with a token or a rule, the list depends on the caller

	sum := sha256.New()
	sum.Write([]byte(toolset.Hash + AccessKey(access)))
	sum.Write(c.Library.Hash[:])
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(c.size)))
	copy(c.Stamp[:], sum.Sum(nil))

	for v := range c.pages {
		c.pages[v] = sync.OnceValue(func() [][]byte { return c.encode(protocol.Revision(v)) })
	}
	c.callables = sync.OnceValue(func() map[string]*Callable { return newCallables(o, toolset) })
	c.digests = sync.OnceValue(c.digest)
	c.index = sync.OnceValue(func() *library.Index { return library.NewIndex(c.Library, toolset, access) })
	return c
}

// digest computes the digests of a catalog. That of the tools covers all tools of the document, even
// if the list leaves some out: it does not depend on the list that a client chooses, and a client that
// found a tool by searching learns that it has changed. Files in folders are left out, because they
// change without a new catalog.
func (c *Catalog) digest() (d session.Digests) {
	sum := sha256.New()
	var b []byte
	for _, tool := range c.Tools.Tools() {
		if library.IsHidden(tool) {
			continue
		}
		b = c.AppendTool(b[:0], tool, protocol.V20260728)
		sum.Write(b)
	}
	d[0] = binary.BigEndian.Uint32(sum.Sum(nil))
	for i, list := range [][]byte{c.index().AppendPrompts(nil), c.index().AppendResources(nil)} {
		sum := sha256.Sum256(list)
		d[i+1] = binary.BigEndian.Uint32(sum[:])
	}
	return d
}

// maxRestricted is the maximum number of cached catalogs of a Cache, besides the shared one. A further
// one replaces another.
const maxRestricted = 64

// A Cache holds the catalogs of the latest Toolset and Library. If the clients of an endpoint may choose
// between a list of all tools and one of some (tools.Toolset.Listing), it holds those of both.
type Cache struct {
	Options      Options
	whole, brief catalogs
}

// catalogs are the catalogs of one Toolset and Library. Those of authenticated callers differ in the
// tools that the token allows and in the securitySchemes that tools/list declares.
type catalogs struct {
	shared atomic.Pointer[Catalog]

	mu      sync.Mutex
	whole   *tools.Toolset // of the Toolsets in byKey, see tools.Toolset.Whole
	library *library.Library
	byKey   map[catalogKey]*Catalog
}

// catalogKey identifies a catalog among those of one whole Toolset.
type catalogKey struct {
	tools *tools.Toolset
	terms string // access token and login
}

// NewCache returns an empty Cache.
func NewCache(o Options) *Cache { return &Cache{Options: o} }

// of returns the cached catalogs for a Toolset with such a list.
func (l *Cache) of(toolset *tools.Toolset) *catalogs {
	if toolset.Brief() {
		return &l.brief
	}
	return &l.whole
}

// Shared returns the catalog that does not depend on an access token or a login.
func (l *Cache) Shared(toolset *tools.Toolset, lib *library.Library) *Catalog {
	if _, narrowed := toolset.Whole(); narrowed {
		return l.Restricted(toolset, lib, nil, nil)
	}
	cached := l.of(toolset)
	if c := cached.shared.Load(); c != nil && c.Tools == toolset && c.Library == lib {
		return c
	}
	c := New(&l.Options, toolset, lib, nil, nil)
	cached.shared.Store(c)
	return c
}

// Restricted returns the catalog for callers with this access token and login.
func (l *Cache) Restricted(toolset *tools.Toolset, lib *library.Library, access *tools.Access, login *Login) *Catalog {
	key := catalogKey{toolset, AccessKey(access) + login.key()}
	whole, _ := toolset.Whole()
	cached := l.of(toolset)
	cached.mu.Lock()
	defer cached.mu.Unlock()
	if cached.whole != whole || cached.library != lib {
		cached.whole, cached.library, cached.byKey = whole, lib, make(map[catalogKey]*Catalog)
	}
	c := cached.byKey[key]
	if c == nil {
		for other := range cached.byKey {
			if len(cached.byKey) < maxRestricted {
				break
			}
			delete(cached.byKey, other)
		}
		c = New(&l.Options, toolset, lib, access, login)
		cached.byKey[key] = c
	}
	return c
}
