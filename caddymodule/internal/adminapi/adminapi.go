// Package adminapi adds routes to Caddy's admin endpoint. They serve the running configuration: Caddy makes the admin endpoint of
// a configuration before its apps, and keeps it if one of them fails.
package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

// Register adds routes as the module admin.api.<name>. It is for init.
func Register(name string, routes ...caddy.AdminRoute) { caddy.RegisterModule(module{name, routes}) }

// module is a caddy.AdminRouter.
type module struct {
	name   string
	routes []caddy.AdminRoute
}

// CaddyModule returns the Caddy module information.
func (m module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID("admin.api." + m.name), New: func() caddy.Module { return m }}
}

// Routes returns the routes of the admin endpoint.
func (m module) Routes() []caddy.AdminRoute { return m.routes }

// Get returns a route that responds to GET with the JSON of what read returns.
func Get(pattern string, read func(r *http.Request) (any, error)) caddy.AdminRoute {
	return Stream(http.MethodGet, pattern, func(w http.ResponseWriter, r *http.Request) error {
		content, err := read(r)
		return write(w, content, err)
	})
}

// Post returns a route that responds to POST with the JSON of what change returns. It reads at most limit bytes of the body.
func Post(pattern string, limit int64, change func(r *http.Request) (any, error)) caddy.AdminRoute {
	return Stream(http.MethodPost, pattern, func(w http.ResponseWriter, r *http.Request) error {
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		content, err := change(r)
		return write(w, content, err)
	})
}

// Stream returns a route that responds to a method itself. An error that is no caddy.APIError gets the status 503.
func Stream(method, pattern string, serve caddy.AdminHandlerFunc) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
			return Error(http.StatusMethodNotAllowed, "method %s is not allowed: use %s", r.Method, method)
		}
		err := serve(w, r)
		if _, hasStatus := errors.AsType[caddy.APIError](err); err != nil && !hasStatus {
			err = caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
		}
		return err
	})}
}

func write(w http.ResponseWriter, content any, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(content)
}

// Error returns an error with a status.
func Error(status int, format string, values ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, values...)}
}

// Running returns a section of the running configuration. The error is for clients.
func Running[S site.Section]() (running S, err error) {
	loaded, err := caddy.ActiveContext().AppIfConfigured("agents")
	if agents, ok := loaded.(*site.App); err == nil && ok && agents.Started() {
		return site.Get[S](agents)
	}
	return running, errors.New("the app agents is not configured")
}

// Interface guard
var _ caddy.AdminRouter = module{}
