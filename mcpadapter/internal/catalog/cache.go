package catalog

import (
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxRestricted is the maximum number of cached catalogs of a Cache, besides the shared one. A further
// one replaces another.
const maxRestricted = 64

// A Cache holds the catalogs of the latest Toolset and Library. If the clients of an endpoint may choose
// between a list of all tools and one of some (tool.Toolset.Listing), it holds those of both.
type Cache struct {
	Options      Options
	whole, brief catalogs
}

// catalogs are the catalogs of one Toolset and Library. Those of authenticated callers differ in the
// tools that the token allows and in the securitySchemes that tools/list declares.
type catalogs struct {
	shared atomic.Pointer[Catalog]

	mu      sync.Mutex
	tools   *tool.Toolset
	library *library.Library
	byKey   map[string]*Catalog
}

// NewCache returns an empty Cache.
func NewCache(o Options) *Cache { return &Cache{Options: o} }

// of returns the cached catalogs for a Toolset with such a list.
func (l *Cache) of(tools *tool.Toolset) *catalogs {
	if tools.Brief() {
		return &l.brief
	}
	return &l.whole
}

// Shared returns the catalog that does not depend on the caller.
func (l *Cache) Shared(tools *tool.Toolset, library *library.Library) *Catalog {
	cached := l.of(tools)
	if c := cached.shared.Load(); c != nil && c.Tools == tools && c.Library == library {
		return c
	}
	c := New(&l.Options, tools, library, nil, nil)
	cached.shared.Store(c)
	return c
}

// Restricted returns the catalog for callers with this access token and login.
func (l *Cache) Restricted(tools *tool.Toolset, library *library.Library, access *tool.Access, login *Login) *Catalog {
	key := AccessKey(access) + login.key()
	cached := l.of(tools)
	cached.mu.Lock()
	defer cached.mu.Unlock()
	if cached.tools != tools || cached.library != library {
		cached.tools, cached.library, cached.byKey = tools, library, make(map[string]*Catalog)
	}
	c := cached.byKey[key]
	if c == nil {
		for other := range cached.byKey {
			if len(cached.byKey) < maxRestricted {
				break
			}
			delete(cached.byKey, other)
		}
		c = New(&l.Options, tools, library, access, login)
		cached.byKey[key] = c
	}
	return c
}
