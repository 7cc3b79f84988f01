package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	inspectors "github.com/fairwayhq/fairway/caddymodule/inspect"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// Model is a model that agents use.
type Model struct {
	// The names of the agents that use the model. Default: all agents that no other model names.
	Agents []string `json:"agents,omitempty"`

	// The model. Required.
	ProviderRaw json.RawMessage `json:"provider,omitempty" caddy:"namespace=oagent.models inline_key=name"`

	// Inspectors of what the model gets, and of what it generates. They are applied in this order, also if a fallback of the model
	// is used. Default: none.
	Inspectors []json.RawMessage `json:"inspectors,omitempty" caddy:"namespace=agents.inspectors inline_key=inspector"`
}

// Limits are limits on the run of an agent. Those of a single agent have the other ones as defaults.
type Limits struct {
	// The maximum number of messages that the model generates for one input of the user. Default: 50.
	Turns int `json:"turns,omitempty"`

	// The maximum number of tokens, of all requests to the model and its responses together.
	// Default: 200000.
	Tokens int `json:"tokens,omitempty"`

	// The approximate maximum number of tokens of one request to the model. If the conversation is longer, the model gets old
	// results of tools shortened, and then no longer the oldest messages. Default: 100000.
	Context int `json:"context,omitempty"`

	// The maximum time that the server works on one input of the user, or waits for a model that is unavailable. The time in
	// which the run waits for a reviewer or for its user does not count. Default: 10m.
	Time caddy.Duration `json:"time,omitempty"`

	// Whether the model can ask the user questions, with the tool ask-user: on or off. Default: on.
	AskUser run.Questions `json:"ask_user,omitempty"`

	// Whether the model summarizes the oldest messages before it no longer gets them: on or off. Each summary is a further request
	// to the model. Default: off.
	Summarize run.Summaries `json:"summarize,omitempty"`
}

// Budget is how many tokens of models hosted agents can use on one day (UTC), or what they can cost. An agent that reaches a budget ends. Nodes that
// share a store share the budget.
type Budget struct {
	// Whose budget it is: user, group, agent or total. Required.
	Of string `json:"of,omitempty"`

	// The id of the user, or the name of the group or of the agent. A group must be named, and total has no name. Default: each
	// user or agent that has no budget of its own.
	Name string `json:"name,omitempty"`

	// The number of tokens, of requests and responses together. Required, unless there is a cost.
	Tokens int64 `json:"tokens,omitempty"`

	// What the tokens can cost, in the currency of the prices. Default: no limit.
	Cost float64 `json:"cost,omitempty"`
}

// Price is the price of the tokens of a model, each for a million, in any currency.
type Price struct {
	// The name of the model, as in the configuration of the model. Required.
	Model string `json:"model,omitempty"`

	// The price of the tokens of requests. Default: 0.
	Input float64 `json:"input,omitempty"`

	// The price of the tokens of responses. Default: 0.
	Output float64 `json:"output,omitempty"`

	// The price of those tokens of requests that the API read from its cache. Default: that of input.
	Cached *float64 `json:"cached,omitempty"`
}

// priceTable returns the prices by model.
func priceTable(all []Price) (map[string]model.Price, error) {
	table := make(map[string]model.Price, len(all))
	for _, p := range all {
		if p.Cached == nil {
			p.Cached = &p.Input
		}
		if _, twice := table[p.Model]; twice || p.Model == "" {
			return nil, fmt.Errorf("prices: the model %q is missing a name, or is given twice", p.Model)
		}
		for _, amount := range []float64{p.Input, p.Output, *p.Cached} {
			if !(amount >= 0 && amount <= model.MaxPrice) {
				return nil, fmt.Errorf("prices: the price %v of the model %s is not between 0 and %v", amount, p.Model, model.MaxPrice)
			}
		}
		table[p.Model] = model.Price{Input: p.Input, Output: p.Output, Cached: *p.Cached}
	}
	return table, nil
}

// pricedModel is a model whose responses have a cost.
type pricedModel struct {
	model.Model
	prices map[string]model.Price
	warned *sync.Map // models without a price
	logger *zap.Logger
}

// Generate implements model.Model.
func (m *pricedModel) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	response, err := m.Model.Generate(ctx, request, onText)
	if err != nil {
		return nil, err
	}
	price, known := m.prices[response.Model]
	if _, warned := m.warned.LoadOrStore(response.Model, true); !known && !warned {
		m.logger.Warn("a model has no price, so its tokens cost nothing: add it to prices", zap.String("model", response.Model))
	}
	response.Usage.Cost = price.Of(response.Usage)
	return response, nil
}

const (
	ofUser  = "user"
	ofGroup = "group"
	ofAgent = "agent"
	ofTotal = "total"
)

// check returns an error for an invalid budget.
func (b *Budget) check() error {
	switch {
	case b.Of != ofUser && b.Of != ofGroup && b.Of != ofAgent && b.Of != ofTotal:
		return fmt.Errorf("budget %q: must be of user, group, agent or total", b.Of)
	case b.Of == ofGroup && b.Name == "":
		return errors.New("budget group: the name of the group is missing")
	case b.Of == ofTotal && b.Name != "":
		return errors.New("budget total: has no name")
	case b.Tokens < 0 || !(b.Cost >= 0 && b.Cost <= model.MaxPrice) || (b.Tokens > 0) == (b.Cost > 0):
		return fmt.Errorf("budget %s: the number of tokens must be more than 0, or there must be a cost of at most %v instead", b.Of, model.MaxPrice)
	}
	return nil
}

// CheckBudgets returns an error for invalid budgets or prices, or for two of the same.
func CheckBudgets(all []Budget, prices []Price) error {
	seen := make(map[Budget]bool)
	for _, b := range all {
		if err := b.check(); err != nil {
			return err
		}
		if b.Cost > 0 && len(prices) == 0 {
			return fmt.Errorf("budget %s: a cost needs the prices of the models: add prices", b.Of)
		}
		kind := Budget{Of: b.Of, Name: b.Name, Tokens: min(b.Tokens, 1)}
		if seen[kind] {
			return fmt.Errorf("budget %s %s is given twice", b.Of, b.Name)
		}
		seen[kind] = true
	}
	_, err := priceTable(prices)
	return err
}

// budgetsOf returns the budgets that apply to a run.
func budgetsOf(all []Budget, st *run.State) (apply []run.Budget) {
	if len(all) == 0 {
		return nil
	}
	names := map[string][]string{ofUser: {st.User.ID}, ofAgent: {st.Agent}, ofGroup: groupsOf(st), ofTotal: {""}}
	for _, b := range all {
		for _, name := range names[b.Of] {
			own := func(other Budget) bool {
				return other.Of == b.Of && other.Name == name && (other.Cost > 0) == (b.Cost > 0)
			}
			if b.Name != name && (b.Name != "" || slices.ContainsFunc(all, own)) {
				continue
			}
			at := slices.IndexFunc(apply, func(a run.Budget) bool { return a.Of == b.Of && a.Name == name })
			if at < 0 { // those of tokens and of cost share a record of what was spent
				at = len(apply)
				apply = append(apply, run.Budget{Of: b.Of, Name: name})
			}
			apply[at].Tokens += b.Tokens
			apply[at].Cost += int64(b.Cost * 1e9)
		}
	}
	return apply
}

// groupsOf returns the groups of the user of a run.
func groupsOf(st *run.State) []string { return readOrigin(st.Origin).user(st.User.ID).Groups }

// Run returns the limits for the Runner. A nil Limits returns the defaults.
func (l *Limits) Run() run.Limits {
	if l == nil {
		return run.Limits{}
	}
	return run.Limits{Turns: l.Turns, Tokens: int64(l.Tokens), Context: int64(l.Context), Time: time.Duration(l.Time), Questions: l.AskUser, Summarize: l.Summarize}
}

// Check returns an error for an invalid limit. A nil Limits is valid.
func (l *Limits) Check() error {
	if l == nil {
		return nil
	}
	if l.AskUser != "" && l.AskUser != run.QuestionsAllowed && l.AskUser != run.QuestionsNone {
		return fmt.Errorf("limits: ask_user %q: use on or off", l.AskUser)
	}
	if l.Summarize != "" && l.Summarize != run.SummariesWritten && l.Summarize != run.SummariesNone {
		return fmt.Errorf("limits: summarize %q: use on or off", l.Summarize)
	}
	return errors.Join(directive.NotNegative("limits: turns", int64(l.Turns)), directive.NotNegative("limits: tokens", int64(l.Tokens)),
		directive.NotNegative("limits: context", int64(l.Context)), directive.NotNegative("limits: time", int64(l.Time)))
}

// Models are the models of the agents of a handler.
type Models struct {
	byAgent map[string]model.Model
	others  model.Model // of all other agents; nil if there is none
}

// LoadModels loads the models of a configuration.
func LoadModels(ctx caddy.Context, config []*Model, prices []Price) (*Models, error) {
	table, err := priceTable(prices)
	if err != nil {
		return nil, err
	}
	warned := new(sync.Map)
	m := &Models{byAgent: make(map[string]model.Model)}
	for _, c := range config {
		loaded, err := ctx.LoadModule(c, "ProviderRaw")
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		provider, ok := loaded.(model.Model)
		if !ok {
			return nil, fmt.Errorf("model: %T is not a model", loaded)
		}
		if len(table) > 0 {
			provider = &pricedModel{Model: provider, prices: table, warned: warned, logger: ctx.Logger()}
		}
		chain, err := inspectors.Load(ctx, inspectors.OfModel, c.Inspectors)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		if len(chain) > 0 {
			provider = &inspectedModel{Model: provider, chain: chain, logger: ctx.Logger()}
		}
		if len(c.Agents) == 0 {
			if m.others != nil {
				return nil, errors.New("model is given twice for all agents: name the agents of one of them")
			}
			m.others = provider
		}
		for _, name := range c.Agents {
			if m.byAgent[name] != nil {
				return nil, fmt.Errorf("model: the agent %s has two models", name)
			}
			m.byAgent[name] = provider
		}
	}
	return m, nil
}

// Hosted reports whether a configuration has a model for the agent.
func Hosted(config []*Model, agent string) bool {
	return slices.ContainsFunc(config, func(m *Model) bool { return len(m.Agents) == 0 || slices.Contains(m.Agents, agent) })
}

// CheckNames returns an error if a model or limits are for an agent that does not exist.
func (m *Models) CheckNames(limits map[string]*Limits, known []string) error {
	return errors.Join(checkNames("model", maps.Keys(m.byAgent), known), checkNames("limits", maps.Keys(limits), known))
}

func checkNames(option string, names iter.Seq[string], known []string) error {
	for _, name := range slices.Sorted(names) {
		if slices.Contains(known, name) {
			continue
		}
		if near := text.Nearest(name, slices.Values(known)); near != "" {
			return fmt.Errorf("%s: unknown agent %q; did you mean %s?", option, name, near)
		}
		return fmt.Errorf("%s: unknown agent %q; the agents are %s", option, name, strings.Join(known, ", "))
	}
	return nil
}

// Of returns the model of an agent.
func (m *Models) Of(agent *oagent.Agent) (model.Model, error) {
	if own := m.byAgent[agent.Name]; own != nil {
		return own, nil
	}
	if m.others != nil {
		return m.others, nil
	}
	return nil, model.Errorf(model.KindRequest, "the agent %s has no model", agent.Name)
}

// UnmarshalModel parses the option model at the current token of b. Syntax:
//
//	model <provider> [<agents...>] {
//		<options of the provider>
//		inspect secrets | pii | webhook ... { … }, see package caddymodule/inspect
//	}
//
// inspect may be repeated.
func UnmarshalModel(b *directive.Block) (*Model, error) {
	tokens := b.NextSegment()
	block := len(tokens) // index of the opening brace
	for i := range tokens {
		if tokens[i].Text == "{" && i+1 < len(tokens) {
			block = i
			break
		}
	}
	if block < 2 {
		return nil, b.Err("model needs the name of a provider, as in: model openai { … }")
	}
	m := new(Model)
	for _, token := range tokens[2:block] {
		if slices.Contains(m.Agents, token.Text) {
			return nil, b.Errf("model: the agent %s is given twice", token.Text)
		}
		m.Agents = append(m.Agents, token.Text)
	}
	own, err := m.readInspectors(tokens[block:])
	if err != nil {
		return nil, err
	}
	d := caddyfile.NewDispenser(append([]caddyfile.Token{tokens[1]}, own...))
	d.Next()
	m.ProviderRaw, err = directive.GuestAt(d, "model", "oagent.models", "name")
	return m, err
}

// UnmarshalLimits parses the block of the option limits. Syntax:
//
//	limits [<agents...>] {
//		turns     <number>
//		tokens    <number>
//		context   <number>
//		time      <duration>
//		ask_user  on | off
//		summarize on | off
//	}
func UnmarshalLimits(outer *directive.Block) (*Limits, error) {
	l := new(Limits)
	b := directive.NewBlock(outer.Dispenser)
	return l, b.Read("limits", directive.Options{
		"turns":   directive.To(b.Positive, &l.Turns),
		"tokens":  directive.To(b.Positive, &l.Tokens),
		"context": directive.To(b.Positive, &l.Context),
		"time":    directive.To(b.Period, &l.Time),
		"ask_user": func() error {
			return b.OneOf((*string)(&l.AskUser), string(run.QuestionsAllowed), string(run.QuestionsNone))
		},
		"summarize": func() error {
			return b.OneOf((*string)(&l.Summarize), string(run.SummariesWritten), string(run.SummariesNone))
		},
	})
}

// AgentLimits returns the limits of single agents for the Runner.
func AgentLimits(of map[string]*Limits) map[string]run.Limits {
	all := make(map[string]run.Limits, len(of))
	for agent, l := range of {
		all[agent] = l.Run()
	}
	return all
}

// UnmarshalBudgets parses the option budget at the current token of b. Syntax:
//
//	budget {
//		user  [<id>]   <tokens> | cost <amount>
//		group <name>   <tokens> | cost <amount>
//		agent [<name>] <tokens> | cost <amount>
//		total <tokens> | cost <amount>
//	}
func UnmarshalBudgets(outer *directive.Block) (all []Budget, err error) {
	if outer.NextArg() {
		return nil, outer.ArgErr()
	}
	b := directive.NewBlock(outer.Dispenser)
	read := func() error {
		budget := Budget{Of: b.Val()}
		args := b.RemainingArgs()
		if len(args) == 0 {
			return b.ArgErr()
		}
		names, amount := args[:len(args)-1], args[len(args)-1]
		var err error
		if last := len(names) - 1; last >= 0 && names[last] == "cost" {
			names = names[:last]
			if budget.Cost, err = strconv.ParseFloat(amount, 64); err != nil {
				return b.Errf("budget %s: %q is not an amount of money", budget.Of, amount)
			}
		} else if budget.Tokens, err = strconv.ParseInt(amount, 10, 64); err != nil {
			return b.Errf("budget %s: %q is not a number of tokens", budget.Of, amount)
		}
		if len(names) > 1 {
			return b.ArgErr()
		}
		budget.Name = strings.Join(names, "")
		all = append(all, budget)
		if err := budget.check(); err != nil {
			return b.WrapErr(err)
		}
		return nil
	}
	err = b.Read("budget", directive.Options{ofUser: read, ofGroup: read, ofAgent: read, ofTotal: read})
	return all, err
}

// UnmarshalPrices parses the option prices at the current token of b. Syntax:
//
//	prices {
//		<model> <input> <output> [<cached>]
//	}
func UnmarshalPrices(outer *directive.Block) (all []Price, err error) {
	if outer.NextArg() {
		return nil, outer.ArgErr()
	}
	for nesting := outer.Nesting(); outer.NextBlock(nesting); {
		p := Price{Model: outer.Val()}
		args := outer.RemainingArgs()
		if len(args) != 2 && len(args) != 3 {
			return nil, outer.Errf("prices: the model %s needs the prices of input and output, and perhaps of cached input", p.Model)
		}
		amounts := make([]float64, len(args))
		for i, arg := range args {
			if amounts[i], err = strconv.ParseFloat(arg, 64); err != nil {
				return nil, outer.Errf("prices: %q is not an amount of money", arg)
			}
		}
		if p.Input, p.Output = amounts[0], amounts[1]; len(amounts) == 3 {
			p.Cached = &amounts[2]
		}
		all = append(all, p)
	}
	return all, nil
}
