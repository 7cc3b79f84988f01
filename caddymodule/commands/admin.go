package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/calls"
	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

// Tool calls on Caddy's admin endpoint:
//
//	GET /agents/calls       calls while they end, one JSON object on a line. The response ends when the client
//	                        disconnects or the configuration is replaced
//	GET /agents/calls/find  a page of the calls that have ended, newest first: {"calls": […], "next": "…"}
//	GET /agents/calls/stats statistics (calllog.Stats) of the last range=1h, 24h, 7d or 28d; with report=true
//	                        also for each tool why its calls failed. Default: 1h
//
// The first two have the parameters that calllog.ParseQuery reads.
func init() {
	adminapi.Register("agents_calls", adminapi.Stream(http.MethodGet, callsPath, followCalls), adminapi.Get(findPath, findCalls), adminapi.Get(statsPath, callStats))
}

// Paths of the admin endpoint.
const (
	callsPath = "/agents/calls"
	findPath  = "/agents/calls/find"
	statsPath = "/agents/calls/stats"
)

const (
	interval     = 500 * time.Millisecond // between two looks at the log
	lookBack     = 5 * time.Second        // age up to which calls of other nodes, which arrive later, are shown
	keepAlive    = 15 * time.Second       // after which an empty line is sent, so that clients notice a dead connection
	maxFollowers = 32                     // concurrent requests
	maxPerLook   = 20_000                 // calls of all nodes
)

// followers counts the concurrent requests of all configurations.
var followers atomic.Int32

// findCalls returns a page of calls.
func findCalls(r *http.Request) (any, error) {
	kept, err := adminapi.Running[*calls.Section]()
	if err != nil {
		return nil, err
	}
	query, err := calllog.ParseQuery(r.URL.Query(), time.Now())
	if err != nil {
		return nil, adminapi.Error(http.StatusBadRequest, "%w", err)
	}
	found, err := kept.Find(r.Context(), query)
	if err != nil {
		err = fmt.Errorf("reading the calls failed: %w", err)
	}
	return found, err
}

// callStats returns statistics.
func callStats(r *http.Request) (any, error) {
	kept, err := adminapi.Running[*calls.Section]()
	if err != nil {
		return nil, err
	}
	span, known := statsRanges[cmp.Or(r.URL.Query().Get("range"), "1h")]
	if !known {
		return nil, adminapi.Error(http.StatusBadRequest, "range must be 1h, 24h, 7d or 28d")
	}
	stats, err := kept.Stats(r.Context(), calllog.StatsQuery{Range: span, Report: r.URL.Query().Get("report") == "true"})
	if err != nil {
		err = fmt.Errorf("reading the calls failed: %w", err)
	}
	return stats, err
}

// statsRanges are the time ranges that statistics are computed for.
var statsRanges = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "28d": 28 * 24 * time.Hour}

// followCalls serves calls while they end.
func followCalls(w http.ResponseWriter, r *http.Request) error {
	agents, err := adminapi.Running[*app.App]()
	if err != nil {
		return err
	}
	kept, err := site.Get[*calls.Section](agents.Site)
	if err != nil {
		return err
	}
	query, err := calllog.ParseQuery(r.URL.Query(), time.Now())
	if err != nil {
		return adminapi.Error(http.StatusBadRequest, "%w", err)
	}
	defer followers.Add(-1)
	if followers.Add(1) > maxFollowers {
		return fmt.Errorf("more than %d clients follow the calls: end one of them", maxFollowers)
	}
	f := &follower{log: kept.Log, query: query, began: time.Now(), latest: make(map[string]int64)}
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
		case <-agents.Site.Ended():
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
