package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/respond"
)

const (
	cacheTime = time.Second // how long a result is served again
	checkTime = time.Second // the limit of a check
)

func init() {
	caddy.RegisterModule(new(Health))
	httpcaddyfile.RegisterDirective("agents_health", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Health))
	})
}

// Health serves to probes whether the process is alive and ready. It has two paths below its own:
//
//   - /live: 200 as long as the process serves requests
//   - /ready: 200 if all documents are loaded and, if nodes share the store, the store responds. Otherwise,
//     and while Caddy shuts down, 503.
//
// A response has only the state, as in `{"status":"ready"}`. Whether the process is ready is checked at
// most once a second. In the default order, the handler runs before authentication, so that probes
// need no credentials. Requests for other paths are passed on unchanged.
type Health struct {
	// The path that precedes /live and /ready. Default: /health.
	Path string `json:"path,omitempty"`

	ready  func(context.Context) error // App.Ready
	logger *zap.Logger

	checking sync.Mutex
	expires  atomic.Int64 // when the last result expires, in nanoseconds since 1970
	isReady  atomic.Bool  // the last result
}

// CaddyModule returns the Caddy module information.
func (*Health) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agents_health",
		New: func() caddy.Module { return new(Health) },
	}
}

// Provision sets the default path.
func (h *Health) Provision(ctx caddy.Context) error {
	h.Path = cmp.Or(h.Path, "/health")
	if h.Path = strings.TrimRight(h.Path, "/"); h.Path != "" && h.Path[0] != '/' {
		return fmt.Errorf("path %s must begin with a slash", h.Path)
	}
	agents, err := ctx.App("agents")
	if err != nil {
		return err
	}
	h.ready, h.logger = agents.(*App).Ready, ctx.Logger()
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	agents_health [<matcher>] [<path>]
//
// The matcher is * or @name. A first argument that begins with a slash is the path.
func (h *Health) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	d.Args(&h.Path)
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		return d.Errf("unrecognized agents_health subdirective '%s'", d.Val())
	}
	return nil
}

// ServeHTTP responds to probes and passes all other requests on.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	below, found := strings.CutPrefix(r.URL.Path, h.Path)
	if !found || below != "/live" && below != "/ready" {
		return next.ServeHTTP(w, r)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		respond.WriteProblem(w, http.StatusMethodNotAllowed, "Method not allowed", "Use GET or HEAD.")
		return nil
	}
	status, state := http.StatusOK, below[1:]
	if state == "ready" && (shutsDown(r) || !h.isServing(r.Context())) {
		status, state = http.StatusServiceUnavailable, "not ready"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err := fmt.Fprintf(w, `{"status":%q}`, state)
	return err
}

// isServing reports whether requests can be served. While another request checks it, it returns the last
// result.
func (h *Health) isServing(ctx context.Context) bool {
	if time.Now().UnixNano() < h.expires.Load() || !h.checking.TryLock() {
		return h.isReady.Load()
	}
	defer h.checking.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	err := h.ready(ctx)
	if was := h.isReady.Swap(err == nil); err != nil && (was || h.expires.Load() == 0) {
		h.logger.Warn("not ready", zap.Error(err))
	}
	h.expires.Store(time.Now().Add(cacheTime).UnixNano())
	return err == nil
}

// shutsDown reports whether Caddy waits for the end of shutdown_delay.
func shutsDown(r *http.Request) bool {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return false
	}
	down, _ := repl.Get("http.shutting_down")
	return down == true
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Health)(nil)
	_ caddyfile.Unmarshaler       = (*Health)(nil)
	_ caddyhttp.MiddlewareHandler = (*Health)(nil)
)
