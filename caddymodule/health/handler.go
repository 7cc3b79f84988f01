// Package health is the directive `agents_health`, which serves liveness and readiness to probes.
package health

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
	"github.com/fairwayhq/fairway/caddymodule/site"
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
// A response has the state, as in `{"status":"ready"}`, and with 503 the reason: `starting`, `documents`, `store`
// or `shutting down`. Whether the process is ready is checked at most once a second. In the default order, the
// handler runs before authentication, so that probes need no credentials. Requests for other paths are passed
// on unchanged.
type Health struct {
	// The path that precedes /live and /ready. Default: /health.
	Path string `json:"path,omitempty"`

	ready  func(context.Context) (string, error) // site.App.Site.Ready
	logger *zap.Logger

	checking sync.Mutex
	expires  atomic.Int64           // when the last result expires, in nanoseconds since 1970
	reason   atomic.Pointer[string] // the last result: why the process is not ready, or ""; nil before the first check
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
	agents, err := site.Of(ctx)
	if err != nil {
		return err
	}
	h.ready, h.logger = agents.Ready, ctx.Logger()
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
	status, body := http.StatusOK, fmt.Sprintf(`{"status":%q}`, below[1:])
	if below == "/ready" {
		reason := site.ReasonEnding
		if !isShuttingDown(r) {
			reason = h.check(r.Context())
		}
		if reason != "" {
			status, body = http.StatusServiceUnavailable, fmt.Sprintf(`{"status":"not ready","reason":%q}`, reason)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err := io.WriteString(w, body)
	return err
}

// check returns why the process is not ready, or "". While another request checks it, it returns the last result.
func (h *Health) check(ctx context.Context) string {
	last := h.reason.Load()
	if time.Now().UnixNano() < h.expires.Load() || !h.checking.TryLock() {
		if last == nil {
			return site.ReasonStarting // the first check is in progress
		}
		return *last
	}
	defer h.checking.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	reason, err := h.ready(ctx)
	if err != nil && (last == nil || *last == "") {
		h.logger.Warn("not ready", zap.String("reason", reason), zap.Error(err))
	}
	h.reason.Store(&reason)
	h.expires.Store(time.Now().Add(cacheTime).UnixNano())
	return reason
}

// isShuttingDown reports whether the process ends, or Caddy closes the listeners of the site after shutdown_delay.
// The process ends from the signal on, while Caddy may still stop other apps before the delay.
func isShuttingDown(r *http.Request) bool {
	if caddy.Exiting() {
		return true
	}
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
