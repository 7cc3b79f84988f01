package run

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
)

// UsageDays is how many days DayUsage is kept.
const UsageDays = 35

const (
	ledgerKey       = "run-usage/" // followed by the day, and a digest of the user and the agent
	maxLedgerGroups = 20
)

// DayUsage is what the runs of a user with an agent have used on one day (UTC).
type DayUsage struct {
	Day      string      `json:"day"` // as 2006-01-02
	User     string      `json:"user,omitzero"`
	Agent    string      `json:"agent"`
	Groups   []string    `json:"groups,omitempty"` // of the user, at the latest request
	Requests int64       `json:"requests"`         // to the model, with a response
	Usage    model.Usage `json:"usage"`
}

// ledger has a record for each day, user and agent. Unlike budgets, it exists without any configuration.
type ledger struct{ *storage }

// add adds a response of the model.
func (l ledger) add(ctx context.Context, of *Assignment, groups []string, usage model.Usage) error {
	day := l.now().UTC().Format(time.DateOnly)
	key := l.realm + ledgerKey + day + "/" + engagement.Digest(of.User.ID, of.Agent)
	return l.store.Update(ctx, key, func(old store.Record) (c store.Change, err error) {
		all := DayUsage{Day: day, User: of.User.ID, Agent: of.Agent}
		if old.Value != nil {
			err = stored.Decode("usage", key, old.Value, &all)
		}
		if err != nil {
			return c, err
		}
		all.Groups = groups[:min(len(groups), maxLedgerGroups)]
		all.Requests++
		all.Usage = all.Usage.Add(usage)
		c.TTL, c.Owner = UsageDays*24*time.Hour, of.owner()
		c.Value, err = json.Marshal(all)
		return c, err
	})
}

// Usage calls visit with what was used on each day since the given one, in the order of the days.
func (r *Runner) Usage(ctx context.Context, since time.Time, visit func(*DayUsage)) error {
	first, common := since.UTC().Format(time.DateOnly), r.storage.now().UTC().Format(time.DateOnly)
	for !strings.HasPrefix(first, common) { // the days have no index in Redis, so the prefix keeps the number of reads small
		common = common[:len(common)-1]
	}
	return store.Scan(ctx, r.options.Store, r.storage.realm+ledgerKey+common, func(key string, record store.Record) error {
		if day, ok := isLedger(key, record.Value); ok && day.Day >= first {
			visit(day)
		}
		return nil
	})
}

// isLedger returns the DayUsage of a record. ok is false if it is another record.
func isLedger(key string, value []byte) (day *DayUsage, ok bool) {
	if !strings.Contains(key, ledgerKey) {
		return nil, false
	}
	day = new(DayUsage)
	return day, stored.Decode("usage", key, value, day) == nil
}
