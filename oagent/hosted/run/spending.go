package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
)

// Runs that agents start spend the limits of the root: the run that a user has started. What they spend is in a record of
// the root, and what budgets have spent is in a record of each day. Both are read before each request to the model, and
// changed after it, before the response is recorded. So requests that are in progress at the same time may exceed a limit. If a
// node dies in between, the request is repeated and counts twice, as at the API of the model.

// Budget limits what all runs of a user, a group or an agent can use on one day (UTC).
type Budget struct {
	Of     string // "user", "group", "agent" or "total"
	Name   string // "" with "total"
	Tokens int64  // 0 for no limit
	Cost   int64  // as model.Usage.Cost; 0 for no limit
}

// reached returns what the budget allows, if it is used; otherwise "".
func (b *Budget) reached(used model.Usage) string {
	switch {
	case b.Tokens > 0 && used.Total() >= b.Tokens:
		return fmt.Sprintf("%d tokens of the model", b.Tokens)
	case b.Cost > 0 && used.Cost >= b.Cost:
		return strconv.FormatFloat(model.Money(b.Cost), 'f', -1, 64) + " (cost of the model)"
	}
	return ""
}

// String returns whose budget it is.
func (b *Budget) String() string {
	if b.Name == "" {
		return b.Of
	}
	return b.Of + " " + b.Name
}

// spent is the record of a root or of a budget.
type spent struct {
	Usage model.Usage `json:"usage"`
	Turns int         `json:"turns"` // of all runs that agents have started, in the round
	Round int         `json:"round,omitzero"`
}

const (
	spentKey  = "run-spent/"   // followed by the id of the root
	budgetKey = "run-budget/"  // followed by the day, and a digest of the owner
	budgetTTL = 48 * time.Hour // longer than any day
)

// spending has the records of what was spent.
type spending struct{ *storage }

// read returns a record, or an empty one if there is none.
func (s spending) read(ctx context.Context, key string) (all spent, err error) {
	r, err := s.store.Get(ctx, s.realm+key)
	if isNotFound(err) {
		return all, nil
	}
	if err == nil {
		err = stored.Decode("usage", key, r.Value, &all)
	}
	return all, err
}

// add changes a record.
func (s spending) add(ctx context.Context, key string, ttl time.Duration, add func(*spent)) error {
	return accumulate(ctx, s.store, s.realm+key, store.Change{TTL: ttl}, add)
}

// accumulate changes a record of what was used. If there is none, add gets an empty one.
func accumulate[T any](ctx context.Context, st store.Store, key string, c store.Change, add func(*T)) error {
	return st.Update(ctx, key, func(old store.Record) (_ store.Change, err error) {
		var all T
		if old.Value != nil {
			err = stored.Decode("usage", key, old.Value, &all)
		}
		if err == nil {
			add(&all)
			c.Value, err = json.Marshal(&all)
		}
		return c, err
	})
}

// keyOf returns the key of the record of a budget today.
func (s spending) keyOf(b *Budget) string {
	return budgetKey + s.now().UTC().Format(time.DateOnly) + "/" + engagement.Digest(b.Of, b.Name)
}

// root returns the state of the root of a run, which may be the run itself. If it does not exist any more, it is the run.
func (s spending) root(ctx context.Context, st *State) (*State, error) {
	if st.Root == "" {
		return st, nil
	}
	root, err := s.get(ctx, st.Root)
	if isNotFound(err) {
		return st, nil
	}
	return root, err
}

// checkSpending returns why the run must not make a request to its model; nil if it may.
func (e *execution) checkSpending(ctx context.Context) (*Ending, error) {
	r := e.runner
	for _, b := range r.options.Budgets(&e.state.Assignment) {
		used, err := spending{r.storage}.read(ctx, spending{r.storage}.keyOf(&b))
		if err != nil {
			return nil, err
		}
		limit := b.reached(used.Usage)
		r.options.BudgetChecked(&b, used.Usage, limit != "")
		if limit != "" {
			return &Ending{Kind: EndBudget, Rule: b.String(), Message: fmt.Sprintf(
				"the budget of %s is %s on one day (UTC), and it is used; go on tomorrow", ownerOf(&b), limit)}, nil
		}
	}
	if e.state.Root == "" && !e.state.Called {
		return nil, nil // the state has all that was spent, and the planner has checked it
	}
	root, err := spending{r.storage}.root(ctx, e.state)
	if err != nil {
		return nil, err
	}
	limits := r.options.limitsOf(root.Agent)
	called, err := spending{r.storage}.read(ctx, spentKey+root.ID)
	if err != nil {
		return nil, err
	}
	if called.Round != root.Round {
		called.Turns = 0
	}
	switch {
	case root.Usage.Total()+called.Usage.Total() >= int64(limits.Tokens):
		return &Ending{Kind: EndLimit, Rule: limitTokens, Message: fmt.Sprintf(
			"the Engagement and the agents that it called have used the limit of %d tokens of the model", limits.Tokens)}, nil
	case root.Turns-root.Before.Turns+called.Turns > limits.Turns || e.state.Root != "" && root.Turns-root.Before.Turns+called.Turns >= limits.Turns:
		return &Ending{Kind: EndLimit, Rule: "turns", Message: fmt.Sprintf(
			"the Engagement and the agents that it called have reached the limit of %d turns of the model for one input", limits.Turns)}, nil
	}
	return nil, nil
}

// ownerOf returns whose budget it is, for the user.
func ownerOf(b *Budget) string {
	if b.Of == "total" {
		return "all users together"
	}
	return "the " + b.Of + " " + b.Name
}

// charge adds a response of the model to what the root and the budgets have spent. turns is 0 for a summary, which is no turn.
func (e *execution) charge(ctx context.Context, usage model.Usage, turns int) error {
	r := e.runner
	add := func(key string, ttl time.Duration, change func(*spent)) error {
		return e.terms.Repeat(ctx, func() error { return spending{r.storage}.add(ctx, key, ttl, change) })
	}
	errs := []error{e.terms.Repeat(ctx, func() error {
		return ledger{r.storage}.add(ctx, &e.state.Assignment, r.options.Groups(&e.state.Assignment), usage)
	})}
	for _, b := range r.options.Budgets(&e.state.Assignment) {
		errs = append(errs, add(spending{r.storage}.keyOf(&b), budgetTTL, func(s *spent) { s.Usage = s.Usage.Add(usage) }))
	}
	if e.state.Root != "" {
		root, err := spending{r.storage}.root(ctx, e.state)
		if err != nil {
			return err
		}
		errs = append(errs, add(spentKey+root.ID, r.storage.ttl, func(s *spent) {
			if s.Round != root.Round {
				s.Round, s.Turns = root.Round, 0
			}
			s.Usage = s.Usage.Add(usage)
			s.Turns += turns
		}))
	}
	return errors.Join(errs...)
}

// callsAgents reports whether one of the calls is of an agent of this server or of another one.
func (b *toolbox) callsAgents(calls []call) bool {
	for i := range calls {
		if t := b.byName[calls[i].Name]; t != nil && t.Agent {
			return true
		}
	}
	return false
}

// addCalled adds what the agents that a root has called have spent.
func (s spending) addCalled(ctx context.Context, st *State, u *usageView) error {
	if !st.Called || st.Root != "" {
		return nil
	}
	called, err := s.read(ctx, spentKey+st.ID)
	if err != nil {
		return err
	}
	u.CalledAgents = called.Usage.Total()
	u.InputTokens += called.Usage.InputTokens
	u.OutputTokens += called.Usage.OutputTokens
	u.CachedTokens += called.Usage.CachedTokens
	u.Estimated = u.Estimated || called.Usage.Estimated
	u.Cost += model.Money(called.Usage.Cost)
	return nil
}

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
	return accumulate(ctx, l.store, key, store.Change{TTL: UsageDays * 24 * time.Hour, Owner: of.owner()}, func(all *DayUsage) {
		all.Day, all.User, all.Agent, all.Groups = day, of.User.ID, of.Agent, groups[:min(len(groups), maxLedgerGroups)]
		all.Requests++
		all.Usage = all.Usage.Add(usage)
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
