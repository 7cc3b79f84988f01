package hosted

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
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
}

// Limits are limits on the run of an agent.
type Limits struct {
	// The maximum number of messages that the model generates for one input of the user. Default: 50.
	Turns int `json:"turns,omitempty"`

	// The maximum number of tokens, of all requests to the model and its responses together.
	// Default: 200000.
	Tokens int `json:"tokens,omitempty"`

	// The approximate maximum number of tokens of one request to the model. If the conversation is longer, the model gets old
	// results of tools shortened, and then no longer the oldest messages. Default: 100000.
	Context int `json:"context,omitempty"`

	// The maximum time that the server works on one input of the user. The time in which the run waits for a
	// reviewer or for its user does not count. Default: 10m.
	Time caddy.Duration `json:"time,omitempty"`
}

// Run returns the limits for the Runner. A nil Limits returns the defaults.
func (l *Limits) Run() run.Limits {
	if l == nil {
		return run.Limits{}
	}
	return run.Limits{Turns: l.Turns, Tokens: int64(l.Tokens), Context: int64(l.Context), Time: time.Duration(l.Time)}
}

// Check returns an error for an invalid limit. A nil Limits is valid.
func (l *Limits) Check() error {
	if l == nil {
		return nil
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
func LoadModels(ctx caddy.Context, config []*Model) (*Models, error) {
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

// CheckNames returns an error if a model is for an agent that does not exist.
func (m *Models) CheckNames(known []string) error {
	for _, name := range slices.Sorted(maps.Keys(m.byAgent)) {
		if slices.Contains(known, name) {
			continue
		}
		if near := text.Nearest(name, slices.Values(known)); near != "" {
			return fmt.Errorf("model: unknown agent %q; did you mean %s?", name, near)
		}
		return fmt.Errorf("model: unknown agent %q; the agents are %s", name, strings.Join(known, ", "))
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
//	}
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
	d := caddyfile.NewDispenser(append([]caddyfile.Token{tokens[1]}, tokens[block:]...))
	d.Next()
	var err error
	m.ProviderRaw, err = directive.GuestAt(d, "model", "oagent.models", "name")
	return m, err
}

// UnmarshalLimits parses the option limits at the current token of b. Syntax:
//
//	limits {
//		turns   <number>
//		tokens  <number>
//		context <number>
//		time    <duration>
//	}
func UnmarshalLimits(outer *directive.Block) (*Limits, error) {
	if outer.NextArg() {
		return nil, outer.ArgErr()
	}
	l := new(Limits)
	b := directive.NewBlock(outer.Dispenser)
	return l, b.Read("limits", directive.Options{
		"turns":   directive.To(b.Positive, &l.Turns),
		"tokens":  directive.To(b.Positive, &l.Tokens),
		"context": directive.To(b.Positive, &l.Context),
		"time":    directive.To(b.Period, &l.Time),
	})
}
