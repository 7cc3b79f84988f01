package commands

import (
	"cmp"
	"context"
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
	"github.com/fairwayhq/fairway/caddymodule/calls"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() {
	caddy.RegisterModule(new(adminCalls))
}

const (
	interval     = 500 * time.Millisecond // between two looks at the log
	lookBack     = 5 * time.Second        // age up to which calls of other nodes, which arrive later, are shown
	keepAlive    = 15 * time.Second       // after which an empty line is sent, so that clients notice a dead connection
	maxFollowers = 32                     // concurrent requests
	maxPerLook   = 20_000                 // calls of all nodes
)

// adminCalls serves tool calls on Caddy's admin endpoint:
//
//	GET /agents/calls       calls while they end, one JSON object on a line. The response ends when the client
//	                        disconnects or the configuration is replaced
//	GET /agents/calls/find  a page of the calls that have ended, newest first: {"calls": […], "next": "…"}
//	GET /agents/calls/stats statistics (calllog.Stats) of the last range=1h, 24h, 7d or 28d; with report=true
//	                        also for each tool why its calls failed. Default: 1h
//
// The first two have the parameters that calllog.ParseQuery reads.
type adminCalls struct {
	admin
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

// Provision implements caddy.Provisioner.
func (a *adminCalls) Provision(ctx caddy.Context) error {
	a.ended = ctx.Done()
	return a.admin.Provision(ctx)
}

// Routes returns the routes of the admin endpoint.
func (a *adminCalls) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/agents/calls", Handler: caddy.AdminHandlerFunc(a.follow)},
		{Pattern: "/agents/calls/find", Handler: caddy.AdminHandlerFunc(a.find)},
		{Pattern: "/agents/calls/stats", Handler: caddy.AdminHandlerFunc(a.stats)},
	}
}

// admin is what all routes of the admin endpoint need.
type admin struct {
	app   *app.App // nil if the app could not be provisioned
	calls *calls.Section
}

// Provision gets the agents app.
func (a *admin) Provision(ctx caddy.Context) error {
	a.app, _ = app.Of(ctx)
	if a.app != nil {
		a.calls, _ = site.Get[*calls.Section](a.app.Site)
	}
	return nil
}

// check refuses requests with another method, or that there is no app for.
func (a *admin) check(r *http.Request, method string) error {
	if r.Method != method {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use %s", r.Method, method)}
	}
	if a.app == nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New("the app agents is not configured")}
	}
	return nil
}

// find serves a page of calls.
func (a *adminCalls) find(w http.ResponseWriter, r *http.Request) error {
	if err := a.check(r, http.MethodGet); err != nil {
		return err
	}
	query, err := calllog.ParseQuery(r.URL.Query(), time.Now())
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	found, err := a.calls.Find(r.Context(), query)
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("reading the calls failed: %w", err)}
	}
	return respond(w, found)
}

// stats serves statistics.
func (a *adminCalls) stats(w http.ResponseWriter, r *http.Request) error {
	if err := a.check(r, http.MethodGet); err != nil {
		return err
	}
	span, known := statsRanges[cmp.Or(r.URL.Query().Get("range"), "1h")]
	if !known {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("range must be 1h, 24h, 7d or 28d")}
	}
	stats, err := a.calls.Stats(r.Context(), calllog.StatsQuery{Range: span, Report: r.URL.Query().Get("report") == "true"})
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("reading the calls failed: %w", err)}
	}
	return respond(w, stats)
}

// statsRanges are the time ranges that statistics are computed for.
var statsRanges = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "28d": 28 * 24 * time.Hour}

// respond sends JSON.
func respond(w http.ResponseWriter, content any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(content)
}

// follow serves calls while they end.
func (a *adminCalls) follow(w http.ResponseWriter, r *http.Request) error {
	if err := a.check(r, http.MethodGet); err != nil {
		return err
	}
	query, err := calllog.ParseQuery(r.URL.Query(), time.Now())
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	defer a.followers.Add(-1)
	if a.followers.Add(1) > maxFollowers {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("more than %d clients follow the calls: end one of them", maxFollowers)}
	}
	f := &follower{log: a.calls.Log, query: query, began: time.Now(), latest: make(map[string]int64)}
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
		ended := f.calls(r.Context())
		if len(ended) == 0 && time.Since(sent) < keepAlive {
			continue
		}
		if err := write(w, ended); err != nil {
			return nil // the client has disconnected
		}
		if err := control.Flush(); err != nil {
			return nil // the client has disconnected
		}
		sent = time.Now()
	}
}

// write writes calls, or an empty line if there are none.
func write(w http.ResponseWriter, ended []calllog.Call) error {
	if len(ended) == 0 {
		_, err := w.Write([]byte("\n"))
		return err
	}
	encoder := json.NewEncoder(w)
	for i := range ended {
		if err := encoder.Encode(&ended[i]); err != nil {
			return err
		}
	}
	return nil
}

// follower finds the calls that have ended since the last look.
type follower struct {
	log    *calllog.Log
	query  calllog.Query
	began  time.Time
	latest map[string]int64 // by node: number of the latest call that was seen
}

// calls returns the calls that have ended since the last look, the oldest first.
func (f *follower) calls(ctx context.Context) (ended []calllog.Call) {
	seen := make(map[string]int64)
	query := f.query
	query.Limit, query.From = calllog.MaxFound, time.Now().Add(-lookBack)
	if query.From.Before(f.began) {
		query.From = f.began
	}
	for len(ended) < maxPerLook {
		found, err := f.log.Find(ctx, query) // with an error, these are the ended that the store does not have yet
		for _, call := range found.Calls {
			if call.Number > f.latest[call.Node] {
				seen[call.Node] = max(seen[call.Node], call.Number)
				ended = append(ended, call)
			}
		}
		if err != nil || found.Next == "" {
			break
		}
		query.Cursor = found.Next
	}
	maps.Copy(f.latest, seen)
	slices.Reverse(ended)
	return ended
}

// Interface guards
var (
	_ caddy.Provisioner = (*adminCalls)(nil)
	_ caddy.AdminRouter = (*adminCalls)(nil)
)
