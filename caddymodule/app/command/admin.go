package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
)

func init() {
	caddy.RegisterModule(new(adminCalls))
}

const (
	interval     = 250 * time.Millisecond // between two looks at the log
	keepAlive    = 15 * time.Second       // after which an empty line is sent, so that clients notice a dead connection
	maxFollowers = 32                     // concurrent requests
	maxPerLook   = 10 * calllog.MaxCalls  // calls of all nodes
)

// adminCalls serves tool calls while they end, on Caddy's admin endpoint:
//
//	GET /agents/calls[?tool=<name>][&user=<id>]
//
// The response has one JSON object on a line for each call, and ends when the client disconnects or
// the configuration is replaced. Values of arguments are those that a console of the site allows (log_inputs).
type adminCalls struct {
	app       *app.App // nil if the app could not be provisioned
	ended     <-chan struct{}
	followers atomic.Int32
}

// CaddyModule returns the Caddy module information.
func (*adminCalls) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.agents_calls",
		New: func() caddy.Module { return new(adminCalls) },
	}
}

// Provision gets the agents app.
func (a *adminCalls) Provision(ctx caddy.Context) error {
	a.ended = ctx.Done()
	if agents, err := ctx.App("agents"); err == nil {
		a.app, _ = agents.(*app.App)
	}
	return nil
}

// Routes returns the route of the admin endpoint.
func (a *adminCalls) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/agents/calls", Handler: caddy.AdminHandlerFunc(a.serve)}}
}

func (a *adminCalls) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use GET", r.Method)}
	}
	if a.app == nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New("the app agents is not configured")}
	}
	defer a.followers.Add(-1)
	if a.followers.Add(1) > maxFollowers {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("more than %d clients follow the calls: end one of them", maxFollowers)}
	}
	log := a.app.Calls()
	defer log.Open(calllog.Options{})()
	f := &follower{log: log, tool: r.URL.Query().Get("tool"), user: r.URL.Query().Get("user"), latest: make(map[string]int64)}
	log.Look()
	f.calls(r, maxPerLook) // those that ended before
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if err := control.Flush(); err != nil {
		return nil // the client has disconnected
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	sent := time.Now()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-a.ended:
			return nil
		case <-ticker.C:
		}
		log.Look()
		calls := f.calls(r, maxPerLook)
		if len(calls) == 0 && time.Since(sent) < keepAlive {
			continue
		}
		if err := write(w, calls); err != nil {
			return nil // the client has disconnected
		}
		if err := control.Flush(); err != nil {
			return nil // the client has disconnected
		}
		sent = time.Now()
	}
}

// write writes calls, or an empty line if there are none.
func write(w http.ResponseWriter, calls []calllog.Call) error {
	if len(calls) == 0 {
		_, err := w.Write([]byte("\n"))
		return err
	}
	encoder := json.NewEncoder(w)
	for i := range calls {
		if err := encoder.Encode(&calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// follower finds the calls that have ended since the last look.
type follower struct {
	log        *calllog.Log
	tool, user string           // of the wanted calls; "" for all
	latest     map[string]int64 // by node: number of the latest call that was seen
}

// calls returns the calls that have ended since the last look, the oldest first.
func (f *follower) calls(r *http.Request, limit int) []calllog.Call {
	seen := make(map[string]int64)
	found := f.log.Recent(r.Context(), limit, func(c *calllog.Call) bool {
		if c.Number <= f.latest[c.Node] {
			return false
		}
		seen[c.Node] = max(seen[c.Node], c.Number)
		return (f.tool == "" || c.Tool == f.tool) && (f.user == "" || c.User == f.user)
	})
	maps.Copy(f.latest, seen)
	slices.Reverse(found)
	for i := range found {
		found[i].Arguments = calllog.Choose(found[i].Arguments, f.log.Allowed(found[i].Site))
	}
	return found
}

// Interface guards
var (
	_ caddy.Provisioner = (*adminCalls)(nil)
	_ caddy.AdminRouter = (*adminCalls)(nil)
)
