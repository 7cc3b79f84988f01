package hosted

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// A realm separates the stored data of a handler from that of other handlers: the runs of its agents and
// the accepted documents. Its name consists of settings that rarely change: the hosts of the site and the
// paths of endpoints. Realms with the same name, such as those of two sites that differ only in the port,
// are numbered.
type realm struct {
	name   string
	listen string // addresses of the server
}

// realms has the realms of a configuration by name. Those of one server are in the order of its routes.
// Caddy provisions the servers in a random order.
type realms struct {
	mu     sync.Mutex
	byName map[string][]*realm
}

type realmsKey struct{}

// realmOf returns the function that returns the unique name of the realm of a handler. The name is known
// when all handlers are provisioned, and is the same after a restart and on other nodes.
func realmOf(ctx caddy.Context, a *app.App, paths ...string) func() string {
	parts := make([]string, 1, 1+len(paths))
	if chain := siteroutes.CallChainOf(ctx); chain != nil {
		parts[0] = fmt.Sprintf("%q", chain.Hosts())
	}
	for _, path := range paths {
		parts = append(parts, strings.TrimRight(path, "/"))
	}
	r := &realm{name: engagement.Digest(parts...)}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		r.listen = strings.Join(server.Listen, " ")
	}
	all := site.Share(a.Site, realmsKey{}, func() *realms { return &realms{byName: make(map[string][]*realm)} })
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byName[r.name] = append(all.byName[r.name], r)
	return func() string { return all.unique(r) }
}

// unique returns the name of a realm with its number among the realms of that name, ordered by the
// addresses of their servers. The first one has no number.
func (all *realms) unique(r *realm) string {
	all.mu.Lock()
	defer all.mu.Unlock()
	same := slices.Clone(all.byName[r.name])
	slices.SortStableFunc(same, func(a, b *realm) int { return cmp.Compare(a.listen, b.listen) })
	if i := slices.Index(same, r); i > 0 {
		return r.name + "-" + strconv.Itoa(i+1)
	}
	return r.name
}
