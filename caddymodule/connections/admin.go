package connections

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() {
	caddy.RegisterModule(new(admin))
}

// admin lists the connections of all users on Caddy's admin endpoint:
//
//	GET /agents/connections[?user=<id>]
//
// The response has one JSON object on a line for each account. It never has a token.
type admin struct {
	app    *app.App // nil if the app could not be provisioned
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.agents_connections", New: func() caddy.Module { return new(admin) }}
}

// Provision gets the agents app.
func (a *admin) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.app, _ = app.Of(ctx) // nil if the app cannot be provisioned
	return nil
}

// Routes returns the route of the admin endpoint.
func (a *admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/agents/connections", Handler: caddy.AdminHandlerFunc(a.serve)}}
}

func (a *admin) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use GET", r.Method)}
	}
	var h *Handler
	if a.app != nil {
		h, _ = a.app.AccountsAt(site.Site{}).(*Handler)
	}
	if h == nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New("no site has the directive agent_connections")}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	user, encoder := r.URL.Query().Get("user"), json.NewEncoder(w)
	err := h.vault.all(r.Context(), func(found *record) bool {
		if user != "" && user != found.User {
			return true
		}
		for _, c := range found.connections() {
			if encoder.Encode(c) != nil {
				return false // the client has disconnected
			}
		}
		return true
	})
	if err != nil {
		a.logger.Error("the connections of users cannot be listed", zap.Error(err))
		panic(http.ErrAbortHandler) // the response may have begun; a complete one would pass for the whole list
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner = (*admin)(nil)
	_ caddy.AdminRouter = (*admin)(nil)
)
