package hosted

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

func init() { adminapi.Register("agents_usage", adminapi.Get("/agents/usage", usage)) }

// usageRow is what a user, group or agent has used, or what was used on a day.
type usageRow struct {
	Name         string  `json:"name"`
	Requests     int64   `json:"requests"` // to models
	InputTokens  int64   `json:"input_tokens"`
	CachedTokens int64   `json:"cached_tokens"` // part of the input tokens
	OutputTokens int64   `json:"output_tokens"`
	Estimated    bool    `json:"estimated,omitempty"`
	Cost         float64 `json:"cost,omitempty"` // in the currency of the prices
}

// usageKeys returns the names under which a record counts.
var usageKeys = map[string]func(*run.DayUsage) []string{
	"user":  func(d *run.DayUsage) []string { return []string{d.User} },
	"agent": func(d *run.DayUsage) []string { return []string{d.Agent} },
	"group": func(d *run.DayUsage) []string { return d.Groups },
	"day":   func(d *run.DayUsage) []string { return []string{d.Day} },
}

// usage serves what the hosted agents of all sites have used: GET /agents/usage?by=user&days=7. Users in several groups count
// in each. It returns the rows in the order of their names.
func usage(r *http.Request) (any, error) {
	query := r.URL.Query()
	names, days := usageKeys[query.Get("by")], 1
	var err error
	if text := query.Get("days"); text != "" {
		days, err = strconv.Atoi(text)
	}
	if names == nil || err != nil || days < 1 || days > run.UsageDays {
		return nil, adminapi.Error(http.StatusBadRequest, "by must be user, group, agent or day, and days a number from 1 to %d", run.UsageDays)
	}
	sums := make(map[string]model.Usage)
	requests := make(map[string]int64)
	guards := guard.RunningGuards()
	if guards == nil {
		return []usageRow{}, nil
	}
	for _, h := range guards.Handlers {
		host, ok := h.Host.(guardHost)
		if !ok {
			continue
		}
		runner, err := host.host.Runner(r.Context())
		if err == nil {
			err = runner.Usage(r.Context(), time.Now().AddDate(0, 0, 1-days), func(d *run.DayUsage) {
				for _, name := range names(d) {
					sums[name] = sums[name].Add(d.Usage)
					requests[name] += d.Requests
				}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("reading the usage failed: %w", err)
		}
	}
	rows := []usageRow{}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		u := sums[name]
		rows = append(rows, usageRow{name, requests[name], u.InputTokens, u.CachedTokens, u.OutputTokens, u.Estimated, model.Money(u.Cost)})
	}
	return rows, nil
}
