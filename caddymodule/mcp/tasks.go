package mcp

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
)

// maxPolling is how long a call of a client without tasks waits for the work that a 202 announced.
const maxPolling = 10 * time.Minute

// maxTaskTTL is the longest time that a task can be kept.
const maxTaskTTL = 30 * 24 * time.Hour

// taskOptions returns the adapter's options for tasks. It returns nil if calls do not become tasks.
func (m *Handler) taskOptions() *mcpadapter.TaskOptions {
	if m.TaskAfter <= 0 {
		return nil
	}
	m.Endpoint.Polling = maxPolling
	return &mcpadapter.TaskOptions{
		After:    time.Duration(m.TaskAfter),
		TTL:      time.Duration(m.TaskTTL),
		Open:     m.Endpoint.App.OpenStore,
		Endpoint: m.Endpoint.Parts.ShownName() + "\n" + m.Endpoint.Path,
		Failed:   m.Endpoint.App.StoreErrors(m.Endpoint.Logger.With(zap.String("path", m.Endpoint.Path)), "recording a task failed"),
	}
}

// taskOwner returns what identifies the owner of the tasks of a request: the authenticated user, or
// else the credentials that the caller sends for the API. Both are for one host name of the site. Known
// is false if the caller sends neither.
func taskOwner(r *http.Request, toolset *tools.Toolset) (owner []string, known bool) {
	host := httpheader.HostName(r.Host)
	if user := route.AuthenticatedUser(r); user != "" {
		return []string{host, "user", user}, true
	}
	owner = []string{host, "credentials"}
	for _, name := range append(toolset.KeyHeaders(), "Authorization") {
		if value := r.Header.Get(name); value != "" {
			owner, known = append(owner, name, value), true
		}
	}
	return owner, known
}

// detachedCaller returns a caller with the credentials of a request, for calls that go on when the
// request has its response. Other handlers may change the request and its variables then, so the caller
// has copies.
func (m *Handler) detachedCaller(r *http.Request, next caddyhttp.Handler, toolset *tools.Toolset, calls *route.RequestCalls) tools.Caller {
	ctx := context.WithoutCancel(r.Context())
	if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, maps.Clone(vars))
	}
	detached := r.WithContext(ctx)
	detached.Header = r.Header.Clone()
	return m.Endpoint.StreamCaller(detached, next, toolset, calls)
}
