package hosted

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	inspectors "github.com/fairwayhq/fairway/caddymodule/inspect"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
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

// models are the models of the agents of a handler.
type models struct {
	byAgent map[string]model.Model
	others  model.Model // of all other agents; nil if there is none
}

// loadModels loads the models of a configuration.
func loadModels(ctx caddy.Context, config []*Model, prices []Price) (*models, error) {
	table, err := priceTable(prices)
	if err != nil {
		return nil, err
	}
	warned := new(sync.Map)
	m := &models{byAgent: make(map[string]model.Model)}
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

// checkNames returns an error if a model or limits are for an agent that does not exist.
func (m *models) checkNames(limits map[string]*Limits, known []string) error {
	return errors.Join(checkNames("model", maps.Keys(m.byAgent), known), checkNames("limits", maps.Keys(limits), known))
}

func checkNames(option string, names iter.Seq[string], known []string) error {
	for _, name := range slices.Sorted(names) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: unknown agent %q%s", option, name, directive.DidYouMean(name, known))
		}
	}
	return nil
}

// Of returns the model of an agent.
func (m *models) Of(agent *oagent.Agent) (model.Model, error) {
	if own := m.byAgent[agent.Name]; own != nil {
		return own, nil
	}
	if m.others != nil {
		return m.others, nil
	}
	return nil, model.Errorf(model.KindRequest, "the agent %s has no model", agent.Name)
}

// unmarshalModel parses the option model at the current token of b. Syntax:
//
//	model <provider> [<agents...>] {
//		<options of the provider>
//		inspect secrets | pii | webhook ... { … }, see package caddymodule/inspect
//	}
//
// inspect may be repeated.
func unmarshalModel(b *directive.Block) (*Model, error) {
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
