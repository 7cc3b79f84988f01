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

// A Cache holds the catalogs of the latest Toolset and Library. Those of authenticated callers differ in
// the tools that the token allows and in the securitySchemes that tools/list declares.
type Cache struct {
	Options Options

	shared atomic.Pointer[Catalog]

	mu      sync.Mutex
	tools   *tool.Toolset
	library *library.Library
	byKey   map[string]*Catalog
}

// NewCache returns an empty Cache.
func NewCache(o Options) *Cache { return &Cache{Options: o} }

// Shared returns the catalog that does not depend on the caller.
func (l *Cache) Shared(tools *tool.Toolset, library *library.Library) *Catalog {
	if c := l.shared.Load(); c != nil && c.Tools == tools && c.Library == library {
		return c
	}
	c := New(&l.Options, tools, library, nil, nil)
	l.shared.Store(c)
	return c
}

// Restricted returns the catalog for callers with this access token and login.
func (l *Cache) Restricted(tools *tool.Toolset, library *library.Library, access *tool.Access, login *Login) *Catalog {
	key := AccessKey(access) + login.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tools != tools || l.library != library {
		l.tools, l.library, l.byKey = tools, library, make(map[string]*Catalog)
	}
	c := l.byKey[key]
	if c == nil {
		for other := range l.byKey {
			if len(l.byKey) < maxRestricted {
				break
			}
			delete(l.byKey, other)
		}
		c = New(&l.Options, tools, library, access, login)
		l.byKey[key] = c
	}
	return c
}
