package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() {
	caddy.RegisterModule(new(adminReplay))
}

// maxRequest is the maximum size of a request to the admin endpoint, in bytes.
const maxRequest = 32 << 20

// adminReplay serves POST /agents/replay on Caddy's admin endpoint. The body is a Request, and the response a replay.Report.
type adminReplay struct{ section *Section }

// CaddyModule returns the Caddy module information.
func (*adminReplay) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.agents_replay",
		New: func() caddy.Module { return new(adminReplay) },
	}
}

// Provision gets the section. The endpoint also serves if the app could not be provisioned.
func (a *adminReplay) Provision(ctx caddy.Context) error {
	a.section, _ = site.SectionOf[*Section](ctx)
	return nil
}

// Routes returns the route of the admin endpoint.
func (a *adminReplay) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/agents/replay", Handler: caddy.AdminHandlerFunc(a.serve)}}
}

func (a *adminReplay) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use POST", r.Method)}
	}
	if a.section == nil || a.section.guards == nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New("the app agents is not configured")}
	}
	var q Request
	switch err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&q); {
	case errors.As(err, new(*http.MaxBytesError)):
		return caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the documents have more than %d bytes", maxRequest)}
	case err != nil:
		return invalid("the body must be a JSON object: %w", err)
	}
	report, err := a.section.Run(r.Context(), a.section.guards.Handlers, &q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(report)
}

// Interface guards
var (
	_ caddy.Provisioner = (*adminReplay)(nil)
	_ caddy.AdminRouter = (*adminReplay)(nil)
)
